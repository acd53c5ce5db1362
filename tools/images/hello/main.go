// Command hello is the program of the localhost/podo/hello:dev image: it says hello over HTTP on port 8080 and ends with status 0
// when it is asked to.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	host, _ := os.Hostname()
	srv := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello from %s\n", host)
		fmt.Printf("%s %s from %s\n", r.Method, r.URL.Path, r.RemoteAddr)
	})
	go func() {
		<-ctx.Done()
		fmt.Println("asked to end: goodbye")
		bounded, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		srv.Shutdown(bounded) //nolint:errcheck // the process ends either way
	}()
	fmt.Println("hello listens on :8080")
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}
