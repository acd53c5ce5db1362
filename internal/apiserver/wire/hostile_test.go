package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/view/viewtest"
)

// raw is a connection that says what it likes, as an administrator.
func (w *world) raw() *tls.Conn {
	w.t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(w.address, "https://"), &tls.Config{
		RootCAs: w.certs.Pool(), GetClientCertificate: w.certs.Client(pki.Admin), NextProtos: []string{"http/1.1"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// A watch that is not read is cut off; who reads gets everything meanwhile.
func TestAWatchThatIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.server.patience = 3 * time.Second // more than who reads may be kept waiting for a processor
	deaf := w.raw()
	if _, err := io.WriteString(deaf, "GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	maps := w.client(jsonType).CoreV1().ConfigMaps("default")
	hearing, err := maps.Watch(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer hearing.Stop()
	const n = 200
	big := strings.Repeat("x", 100<<10)
	go func() {
		for i := range n {
			_, err := maps.Create(w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: map[string]string{"k": big}}, metav1.CreateOptions{})
			if w.ctx.Err() != nil {
				return // the test is over
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for i := 0; i < n; {
		e, ok := <-hearing.ResultChan()
		if !ok {
			t.Fatalf("the watch that is read ended after %d", i)
		}
		if e.Type == watch.Added {
			i++
		}
	}
	// The server is done with the deaf one when nothing of it is open any more but the watch that is read.
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, b := w.do(w.http(pki.Admin), "GET", "/metrics", "")
		open := 0
		for line := range strings.Lines(b) {
			if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `verb="WATCH"`) {
				v, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " ")+1:]))
				if err != nil {
					t.Fatal(err)
				}
				open += v
			}
		}
		if open == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d watches are open", open)
		}
	}
	got, _ := io.Copy(io.Discard, deaf) // cut: it ends, with or without an error
	if got > n*100<<10 {
		t.Errorf("the deaf one was sent %d bytes", got)
	}
}

// Connections that say half of something, and slowly, hold nobody up.
func TestSlowConnections(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		text := "GET /api HTTP/1.1\r\nHost: x\r\nX-Never: "
		if i%2 == 0 {
			text = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
		}
		if _, err := io.WriteString(w.raw(), text); err != nil {
			t.Fatal(err)
		}
	}
	if res, b := w.do(w.http(pki.Admin), "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"c"}}`); res.StatusCode != 201 {
		t.Errorf("%d %s", res.StatusCode, b)
	}
}

// A body that does not come is not waited for.
func TestABodyThatDoesNotCome(t *testing.T) {
	w := newWorld(t)
	w.again(func(s *Server) { s.body = time.Second / 2 })
	slow := w.raw()
	text := "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	if _, err := io.WriteString(slow, text); err != nil {
		t.Fatal(err)
	}
	end, never := io.Pipe()
	req, err := http.NewRequestWithContext(w.ctx, "POST", w.address+"/api/v1/namespaces/default/configmaps", io.MultiReader(strings.NewReader("{"), end))
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.http(pki.Admin).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	never.Close() // the client waits for it
	res.Body.Close()
	if res.StatusCode != 400 || res.ProtoMajor != 2 {
		t.Errorf("%s: %s", res.Proto, res.Status)
	}
	if line, err := bufio.NewReader(slow).ReadString('\n'); err != nil || !strings.Contains(line, " 400 ") {
		t.Errorf("%q %v", line, err)
	}
}

// What bounds the reading and the answering of other requests does not end watches.
func TestWatchesOutlastOtherRequests(t *testing.T) {
	const limit = 2 * time.Second
	w := newWorld(t)
	w.again(func(s *Server) { s.body, s.answer = limit, limit })
	began := time.Now()
	watching, err := w.client(jsonType).CoreV1().ConfigMaps("default").Watch(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	old := w.raw()
	if _, err := io.WriteString(old, "GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(old)
	maps, c := client.ConfigMaps.At("default", ""), local.Admin(w.verbs)
	for i := 0; time.Since(began) < limit+limit/2; i++ {
		name := fmt.Sprintf("c-%d", i)
		if _, err := c.Create(w.ctx, maps, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			t.Fatal(err)
		}
		if e, ok := <-watching.ResultChan(); !ok || e.Type != watch.Added {
			t.Fatalf("the watch on HTTP/2 ended after %v", time.Since(began))
		}
		for lines.Scan() && !strings.Contains(lines.Text(), name) {
		}
		if !strings.Contains(lines.Text(), name) {
			t.Fatalf("the watch on HTTP/1.1 ended after %v: %v", time.Since(began), lines.Err())
		}
	}
}

// Nor does it end what is passed on for a pod: an upload may come slowly, on HTTP/1.1 and on HTTP/2.
func TestUploadsToPodsOutlastOtherRequests(t *testing.T) {
	const limit = time.Second
	ip := ownAddress(t)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Ports: []v1.ContainerPort{{ContainerPort: backend(t, ip)}}}}
	pod.Status.PodIPs = []v1.PodIP{{IP: ip}}
	vw, store := viewtest.New(t, defaultNamespace(), pod)
	w := serve(t, vw, store)
	w.again(func(s *Server) { s.body, s.answer = limit, limit })
	for _, proto := range []string{"h2", "http/1.1"} {
		body, more := io.Pipe()
		go func() {
			for began := time.Now(); time.Since(began) < 2*limit; {
				if _, err := io.WriteString(more, "."); err != nil {
					return
				}
				time.Sleep(limit / 10) // a slow client
			}
			io.WriteString(more, "whole") //nolint:errcheck // the answer tells
			more.Close()
		}()
		req, err := http.NewRequestWithContext(w.ctx, "POST", w.address+"/api/v1/namespaces/default/pods/p/proxy/", body)
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: proto == "h2", TLSClientConfig: &tls.Config{
			RootCAs: w.certs.Pool(), GetClientCertificate: w.certs.Client(pki.Admin), NextProtos: []string{proto},
		}}}
		res, err := c.Do(req)
		if err != nil {
			t.Errorf("%s: %v", proto, err)
			continue
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		c.CloseIdleConnections()
		if res.StatusCode != 200 || err != nil || !strings.Contains(string(text), "whole") || (res.ProtoMajor == 2) != (proto == "h2") {
			t.Errorf("%s: %s %s %q %v", proto, res.Proto, res.Status, text, err)
		}
	}
}

// Bodies that are too large, too deep or no text are refused, or read as upstream reads them.
func TestMonstrousBodies(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	deep := strings.Repeat(`{"a":`, 500_000)
	for _, c := range []struct {
		name, media, body string
		code              int
	}{
		{"deep json", jsonType, deep, 400},
		{"deep lists", jsonType, `{"metadata":{"name":"x"},"data":` + strings.Repeat("[", 1_000_000), 400},
		{"deep yaml", yamlType, strings.Repeat("[", 500_000), 400},
		{"yaml that grows", yamlType, "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n", 400},
		{"protobuf that is none", protoType, "k8s\x00\xff\xff\xff\xff\xff\xff", 400},
		{"no envelope", protoType, "\x0a\x02v1", 400},
		{"no text", jsonType, "{\"metadata\":{\"name\":\"x\xff\"}}", 422},
		{"nothing", jsonType, "", 400},
		{"a number too many", jsonType, `{"metadata":{"name":"x","generation":` + strings.Repeat("9", 100_000) + `}}`, 400},
	} {
		start := time.Now()
		res, b := w.do(admin, "POST", "/api/v1/namespaces/default/configmaps", c.body, "Content-Type", c.media)
		if res.StatusCode != c.code {
			t.Errorf("%s: %d %.300s", c.name, res.StatusCode, b)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", c.name, took)
		}
	}
	// A body that does not say how long it is, and does not end.
	req, err := http.NewRequestWithContext(w.ctx, "POST", w.address+"/api/v1/namespaces/default/configmaps", io.LimitReader(zeros{}, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	res, err := admin.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("an endless body: %d", res.StatusCode)
	}
}

// Quantities whose power of ten nobody could compute are refused at once, in whatever form they come; what only looks so is a text.
func TestHugeQuantities(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	const pods = "/api/v1/namespaces/default/pods"
	spec := func(number string) string {
		return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","annotations":{"commit":"1e999999999"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":` + number + `}}}]}}`
	}
	for _, number := range []string{`"1e999999999"`, `"1e-999999999"`, `1e-999999999`, `"1e99999999999"`, `"1\u0065-\u0039999999"`, `" 1E-9999999 "`} {
		for _, media := range []string{jsonType, yamlType} {
			if media == yamlType && number[0] != '"' {
				continue // a number of YAML, and as such 0
			}
			start := time.Now()
			if res, b := w.do(admin, "POST", pods, spec(number), "Content-Type", media); res.StatusCode != 400 {
				t.Errorf("%s as %s: %d %.300s", number, media, res.StatusCode, b)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s as %s took %v", number, media, took)
			}
		}
	}
	for _, text := range []string{"1e999999999", "1e-999999999"} {
		if res, b := w.do(admin, "POST", pods, protoPod(text), "Content-Type", protoType); res.StatusCode != 400 {
			t.Errorf("%s in protobuf: %d %.300s", text, res.StatusCode, b)
		}
	}
	if res, b := w.do(admin, "POST", pods, spec(`"1e-3"`)); res.StatusCode != 201 || !strings.Contains(b, `"commit":"1e999999999"`) {
		t.Errorf("a text: %d %.300s", res.StatusCode, b)
	}
}

// protoPod is a pod in protobuf whose container asks for the text's amount of cpu: no encoder of the library would write it.
func protoPod(amount string) string {
	p := pod("x")
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(strings.Repeat("7", len(amount)))}
	raw, err := p.Marshal()
	if err != nil {
		panic(err)
	}
	envelope := &k8sruntime.Unknown{TypeMeta: k8sruntime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: bytes.Replace(raw, []byte(strings.Repeat("7", len(amount))), []byte(amount), 1)}
	b, err := envelope.Marshal()
	if err != nil {
		panic(err)
	}
	return "k8s\x00" + string(b)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestIdleWatches: many watches cost little, and one write reaches all of them. PODO_WATCHES=10000 for the whole of it.
func TestIdleWatches(t *testing.T) {
	n := 300
	if v := os.Getenv("PODO_WATCHES"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	before := heap()
	var opened, told sync.WaitGroup
	opened.Add(n)
	var hc *http.Client
	for i := range n {
		if i%200 == 0 {
			hc = w.http(pki.Admin)          // a connection holds 250
			w.do(hc, "GET", "/version", "") // one handshake, not one a watch
		}
		c := hc
		told.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "GET", w.address+"/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1", nil)
			if err != nil {
				t.Error(err)
				opened.Done()
				return
			}
			res, err := c.Do(req)
			opened.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"type":"ADDED"`) {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
	opened.Wait()
	each := (heap() - before) / n // the client's side included
	if res, b := w.do(w.http(pki.Admin), "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"c"}}`); res.StatusCode != 201 {
		t.Fatalf("%d %s", res.StatusCode, b)
	}
	told.Wait()
	t.Logf("%d watches, %d bytes of heap each", n, each)
	if each > 64<<10 {
		t.Errorf("a watch takes %d bytes", each)
	}
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
