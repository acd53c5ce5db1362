package linux

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

func TestFollowKernel(t *testing.T) {
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("the kernel's log cannot be written:", err)
	}
	defer f.Close() //nolint:errcheck // written with every call
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ready, lines, done := make(chan struct{}), make(chan string, 4096), make(chan error, 1)
	go func() { done <- New().FollowKernel(ctx, func() { close(ready) }, func(s string) { lines <- s }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Skip("the kernel's log cannot be read:", err)
	}
	want := fmt.Sprintf("podo test %d; with a semicolon", time.Now().UnixNano())
	if _, err := f.WriteString(want + "\n"); err != nil {
		t.Skip("the kernel's log cannot be written:", err)
	}
	for got := ""; got != want; {
		select {
		case got = <-lines:
		case <-ctx.Done():
			t.Fatal("the line did not come")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
