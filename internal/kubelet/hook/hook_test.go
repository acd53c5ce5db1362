package hook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"podo.dev/podo/internal/kubelet/worker"
)

var _ worker.Hooks = (*Hooks)(nil)

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}

type runtime struct {
	code int32
	err  error
	cmd  []string
}

func (r *runtime) ExecSync(_ context.Context, _ string, cmd []string, timeout time.Duration) ([]byte, []byte, int32, error) {
	if timeout != 0 {
		return nil, nil, 0, errors.New("a hook is bounded by its context only")
	}
	r.cmd = cmd
	return []byte("out"), nil, r.code, r.err
}

func TestExec(t *testing.T) {
	rt := &runtime{}
	h := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c"}}}
	run := func() error { return New(rt, nil).RunHook(t.Context(), pod, &v1.Container{Name: "a"}, "id", h, "") }
	if err := run(); err != nil || strings.Join(rt.cmd, " ") != "sh -c" {
		t.Error(err, rt.cmd)
	}
	rt.code = 3
	if err := run(); err == nil || err.Error() !=
		`Exec lifecycle hook ([sh -c]) for Container "a" in Pod "p_ns(u)" failed - error: command 'sh -c' exited with 3: , message: "out"` {
		t.Error(err)
	}
	rt.err = errors.New("away")
	if err := run(); !errors.Is(err, rt.err) {
		t.Error(err)
	}
	if err := New(rt, nil).RunHook(t.Context(), pod, &v1.Container{}, "id", &v1.LifecycleHandler{}, ""); err == nil {
		t.Error("a hook without a handler")
	}
}

func TestHTTP(t *testing.T) {
	var seen *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		if r.URL.Path == "/away" {
			w.Header().Set("Location", "http://elsewhere.invalid/")
			w.WriteHeader(http.StatusFound)
			return
		}
		if r.URL.Path == "/cut" {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("stopping"))
			return // before it has written what it said
		}
		w.WriteHeader(http.StatusTeapot) // an answer is an answer
	}))
	defer srv.Close()
	h := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
		Path: "stop?now=1", Scheme: v1.URISchemeHTTPS, Port: intstr.FromInt32(int32(srv.Listener.Addr().(*net.TCPAddr).Port)),
		HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: "secret"}},
	}}
	var events []string
	event := func(_ *v1.Pod, _, kind, reason, message string) { events = append(events, kind+" "+reason+" "+message) }
	run := func() error {
		return New(nil, event).RunHook(t.Context(), pod, &v1.Container{}, "id", h, "127.0.0.1")
	}
	if err := run(); err != nil || seen.URL.String() != "/stop?now=1" || seen.UserAgent() != "kube-lifecycle/1.37" || seen.Header.Get("Authorization") != "" {
		t.Errorf("%v %+v", err, seen)
	}
	fallback := "Warning LifecycleHTTPFallback request to HTTPS lifecycle hook " + srv.Listener.Addr().String() + " got HTTP response, retry with HTTP succeeded"
	if len(events) != 1 || events[0] != fallback {
		t.Error(events)
	}
	h.HTTPGet.Scheme = v1.URISchemeHTTP
	if err := run(); err != nil || seen.Header.Get("Authorization") != "secret" {
		t.Errorf("%v %+v", err, seen)
	}
	h.HTTPGet.Path = "/away" // so is one that leads to another host, where the hook does not go
	if err := run(); err != nil || seen.URL.Path != "/away" {
		t.Errorf("%v %+v", err, seen)
	}
	h.HTTPGet.Path = "/cut" // and one that breaks off: what the hook was for is done
	if err := run(); err != nil || seen.URL.Path != "/cut" {
		t.Errorf("%v %+v", err, seen)
	}
	srv.Close()
	if err := run(); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}
		start := time.Now()
		if err := New(nil, nil).RunHook(t.Context(), pod, &v1.Container{}, "id", h, ""); err != nil || time.Since(start) != 5*time.Second {
			t.Error(err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := New(nil, nil).RunHook(ctx, pod, &v1.Container{}, "id", h, ""); err == nil || !strings.HasSuffix(err.Error(), "container terminated before sleep hook finished") {
			t.Error(err)
		}
	})
}
