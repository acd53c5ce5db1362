package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/pki"
)

// calls is a connection that remembers what it was asked to write.
type calls struct {
	net.Conn
	sizes []int
	bytes bytes.Buffer
	err   error
}

func (c *calls) Write(b []byte) (int, error) {
	c.sizes = append(c.sizes, len(b))
	c.bytes.Write(b)
	return len(b), c.err
}

func (c *calls) are(t *testing.T, sizes ...int) {
	t.Helper()
	if fmt.Sprint(c.sizes) != fmt.Sprint(sizes) {
		t.Errorf("writes of %v, want %v", c.sizes, sizes)
	}
}

// Full records go out together, with the first that is not full, or after a moment; everything in its order.
func TestFullRecordsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const full, rest = fullRecord + 22, 31
		under := &calls{}
		c := &gathering{Conn: under}
		var all []byte
		next := byte('a')
		write := func(sizes ...int) {
			t.Helper()
			for _, n := range sizes {
				record := bytes.Repeat([]byte{next}, n)
				next, all = next+1, append(all, record...)
				if m, err := c.Write(record); m != n || err != nil {
					t.Fatal(m, err)
				}
			}
		}
		write(5, 6)
		under.are(t, 5, 6)
		write(full, full)
		under.are(t, 5, 6)
		write(700, 8)
		under.are(t, 5, 6, 2*full+700, 8)
		under.sizes = nil
		for range framesAtOnce {
			write(full, rest)
		}
		under.are(t)
		write(full)
		under.are(t, framesAtOnce*(full+rest))
		write(rest, rest) // the second is no frame's
		under.are(t, framesAtOnce*(full+rest), full+2*rest)
		under.sizes = nil
		write(full-1, rest) // an answer's last bytes, not quite a record, and its end
		under.are(t, full-1+rest)
		write(full+200, rest) // the same with the headers before them
		under.are(t, full-1+rest, full+200+rest)
		under.sizes = nil
		write(full)
		time.Sleep(gatherFor)
		synctest.Wait()
		under.are(t, full)
		write(rest)
		under.are(t, full, rest)
		time.Sleep(time.Hour)
		synctest.Wait()
		under.are(t, full, rest)
		if !bytes.Equal(under.bytes.Bytes(), all) {
			t.Error("what was written is not what was given")
		}
	})
}

// After a write that failed there is none, whoever was told of it.
func TestAGatheredWriteThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		under := &calls{err: broken}
		c := &gathering{Conn: under}
		if _, err := c.Write(make([]byte, fullRecord)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(gatherFor)
		synctest.Wait()
		for range 2 {
			if _, err := c.Write([]byte("x")); !errors.Is(err, broken) {
				t.Error(err)
			}
		}
		under.are(t, fullRecord)
	})
}

// A client whose window is used up by full records, fewer than are gathered, gets all of a long answer, and so does one that asks for
// something else meanwhile on the same connection.
func TestLongAnswersThroughSmallWindows(t *testing.T) {
	w := newWorld(t)
	c, want := local.Admin(w.verbs), 0
	for i := range 120 { // more than a watch tells of its beginning at once
		text := strings.Repeat("x", 20<<10)
		m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i)}, Data: map[string]string{"k": text}}
		if _, err := c.Create(w.ctx, client.ConfigMaps.At("default", ""), m); err != nil {
			t.Fatal(err)
		}
		want += len(text)
	}
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	hc := w.http(pki.Admin)
	hc.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: (framesAtOnce - 1) << 14}
	ask := func(path string) io.ReadCloser {
		req, err := http.NewRequestWithContext(ctx, "GET", w.address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.ProtoMajor != 2 || res.StatusCode != 200 {
			t.Fatal(res.Proto, res.Status)
		}
		return res.Body
	}
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"} {
		long := ask(path)
		if b, err := io.ReadAll(ask("/api/v1/namespaces/default")); err != nil || len(b) == 0 {
			t.Error(err)
		}
		buf := make([]byte, 32<<10)
		for seen := 0; seen < want; {
			n, err := long.Read(buf)
			if seen += bytes.Count(buf[:n], []byte("x")); err != nil && seen < want {
				t.Fatalf("%s: %d of %d, %v", path, seen, want, err)
			}
		}
		long.Close() // a watch goes on
	}
}
