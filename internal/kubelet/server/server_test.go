package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestAuthentication(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Authenticate = func(r *http.Request) (user.Info, bool, error) {
			return &user.DefaultInfo{Name: "bearer", Groups: []string{"system:masters"}}, r.Header.Get("Authorization") == "Bearer good", nil
		}
	})
	for group, want := range map[string]string{
		"":               "401 Unauthorized",
		"system:masters": "200 ok",
		"nobodies":       "403 Forbidden (user=someone, verb=get, resource=nodes, subresource(s)=[healthz proxy])",
	} {
		code, body := g.get(group, "/healthz")
		if got := fmt.Sprint(code, " ", strings.TrimSpace(body)); got != want {
			t.Errorf("%q: %q, want %q", group, got, want)
		}
	}
	c := g.config("")
	c.BearerToken = "good"
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	res, err := client.Get(g.url("/healthz").String())
	if err != nil || res.StatusCode != 200 {
		t.Errorf("with a token: %v %v", res, err)
	}
	res.Body.Close()
	other := newRig(t) // a client of another cluster's authority
	foreign := other.config("system:masters")
	foreign.CAData, foreign.Host = g.config("").CAData, "https://"+g.srv.Addr()
	if client, err = rest.HTTPClientFor(foreign); err != nil {
		t.Fatal(err)
	}
	// It is answered, and keeps nobody from showing a token.
	for token, want := range map[string]int{"": 401, "bad": 401, "good": 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url("/healthz").String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("a certificate of another authority, with the token %q: %d, want %d", token, res.StatusCode, want)
		}
	}
}

func TestAttributes(t *testing.T) {
	for path, want := range map[string]string{
		"GET /pods": "get [pods proxy]", "GET /podsx": "get [proxy]", "POST /exec/a/b/c": "create [proxy]", "GET /stats/summary": "get [stats]",
		"GET /metrics/resource": "get [metrics]", "GET /logs/": "get [log]", "GET /configz": "get [configz proxy]",
		"GET /containerLogs/a/b/c": "get [proxy]", "DELETE /x": "delete [proxy]", "POST /checkpoint/a/b/c": "create [checkpoint]",
		"GET /flagz": "get [configz]", "GET /statusz": "get [statusz]", "GET /runningpods/": "get [pods proxy]", "HEAD /pods": " [pods proxy]",
		"GET /allocatedPods/a/b": "get [pods proxy]", "DELETE /metrics/slis": "delete [metrics]",
	} {
		method, p, _ := strings.Cut(path, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		verb, subs := attributes(r)
		if got := fmt.Sprint(verb, " ", subs); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Who may read the node's metrics gets nothing else, however the path is written.
func TestPathTricks(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Authenticate = func(*http.Request) (user.Info, bool, error) { return &user.DefaultInfo{Name: "scraper"}, true, nil }
		c.Authorize = func(_ context.Context, _ user.Info, verb, sub, _ string) (bool, error) {
			return verb == "get" && sub == "metrics", nil
		}
	})
	g.pods.list = []*v1.Pod{pod()}
	ask := func(method, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		g.srv.Handler().ServeHTTP(w, httptest.NewRequest(method, target, nil))
		return w
	}
	if w := ask("GET", "/metrics"); w.Code != 200 {
		t.Fatalf("metrics: %d", w.Code)
	}
	for _, target := range []string{
		"/pods", "//pods", "/./pods", "/metrics/../pods", "/metrics/%2e%2e/pods", "/metrics/..%2fpods", "/metrics/x/../../pods", "/pods/../pods",
		"/metricsx", "/exec/ns/p/c", "/metrics/../exec/ns/p/c?command=id", "/metrics//exec/ns/p/c", "/run/ns/p/c?cmd=id", "/containerLogs/ns/p/c", "/configz",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "PUT", "CONNECT", "OPTIONS"} {
			if w := ask(method, target); w.Code < 300 || strings.Contains(w.Body.String(), "PodList") {
				t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
			}
		}
	}
}

func TestNodeFacts(t *testing.T) {
	sick := false
	g := newRig(t, func(c *Config) {
		c.HealthAddr = "127.0.0.1:0"
		c.Configz = func() any { return map[string]int{"maxPods": 110} }
		c.Healthy = func() error {
			if sick {
				return fmt.Errorf("syncloop: stuck")
			}
			return nil
		}
		c.Extra = map[string]http.Handler{"/metrics/extra": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "m 1") })}
	})
	g.pods.list = []*v1.Pod{pod()}
	if _, body := g.get("system:masters", "/configz"); body != `{"kubeletconfig":{"maxPods":110}}` {
		t.Error(body)
	}
	if _, body := g.get("system:masters", "/metrics/extra"); body != "m 1" {
		t.Error(body)
	}
	for path, names := range map[string]string{"/pods": "p a,tty;", "/pods/": "p a,tty;", "/runningpods/": "empty ;p a,a,tty,init,debugger;"} {
		_, body := g.get("system:masters", path)
		var list v1.PodList
		if err := json.Unmarshal([]byte(body), &list); err != nil || list.Kind != "PodList" {
			t.Fatalf("%s: %s %v", path, body, err)
		}
		got := ""
		for _, p := range list.Items {
			var cs []string
			for _, c := range p.Spec.Containers {
				cs = append(cs, c.Name)
			}
			got += p.Name + " " + strings.Join(cs, ",") + ";"
		}
		if got != names {
			t.Errorf("%s: %s", path, got)
		}
	}
	sick = true
	if code, body := g.get("system:masters", "/healthz"); code != 500 || !strings.Contains(body, "[-]syncloop failed: reason withheld\nhealthz check failed") {
		t.Errorf("%d %s", code, body)
	}
}

func TestPortInUseIsSaid(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	g := newRig(t)
	for _, change := range []func(c *Config){
		func(c *Config) { c.Addr = taken.Addr().String() },
		func(c *Config) { c.HealthAddr = taken.Addr().String() },
	} {
		cfg := g.srv.cfg
		change(&cfg)
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Run(t.Context(), func() { t.Error("ready") })
		if err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), "choose another") {
			t.Error(err)
		}
	}
}

func TestLogContainer(t *testing.T) {
	term := func(id string) *v1.ContainerStateTerminated { return &v1.ContainerStateTerminated{ContainerID: id} }
	wait := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	run := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	for name, c := range map[string]struct {
		status   v1.ContainerStatus
		previous bool
		want     string
	}{
		"running":           {v1.ContainerStatus{State: run, ContainerID: "c://2", LastTerminationState: v1.ContainerState{Terminated: term("c://1")}}, false, "c://2"},
		"previous":          {v1.ContainerStatus{State: run, ContainerID: "c://2", LastTerminationState: v1.ContainerState{Terminated: term("c://1")}}, true, "c://1"},
		"no previous":       {v1.ContainerStatus{State: run, ContainerID: "c://2"}, true, `previous terminated container "a" in pod "p" not found`},
		"ended":             {v1.ContainerStatus{State: v1.ContainerState{Terminated: term("c://3")}}, false, "c://3"},
		"ended, no id":      {v1.ContainerStatus{State: v1.ContainerState{Terminated: term("")}, LastTerminationState: v1.ContainerState{Terminated: term("c://1")}}, false, "c://1"},
		"ended, nothing":    {v1.ContainerStatus{State: v1.ContainerState{Terminated: term("")}}, false, `container "a" in pod "p" is terminated`},
		"crash loop":        {v1.ContainerStatus{State: wait("CrashLoopBackOff"), LastTerminationState: v1.ContainerState{Terminated: term("c://1")}}, false, "c://1"},
		"creating":          {v1.ContainerStatus{State: wait("ContainerCreating")}, false, `container "a" in pod "p" is waiting to start: ContainerCreating`},
		"image":             {v1.ContainerStatus{State: wait("ErrImagePull")}, false, `container "a" in pod "p" is waiting to start: image can't be pulled`},
		"image back-off":    {v1.ContainerStatus{State: wait("ImagePullBackOff")}, false, `container "a" in pod "p" is waiting to start: trying and failing to pull image`},
		"nothing is known":  {v1.ContainerStatus{}, false, `container "a" in pod "p" is waiting to start - no logs yet`},
		"lost its identity": {v1.ContainerStatus{State: wait("x"), LastTerminationState: v1.ContainerState{Terminated: term("")}}, false, `container "a" in pod "p" is terminated`},
	} {
		p := pod()
		c.status.Name = "a"
		p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "i"}}
		p.Status.ContainerStatuses = []v1.ContainerStatus{c.status}
		got, err := logContainer(p, "a", c.previous)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLogsAreServedAndFollowedToTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fmt.Fprintf(f, "2026-01-02T03:04:05.5Z stdout F %s\n", text)
	}
	write("one")
	write("two")
	g := newRig(t, func(c *Config) { c.Ended = PollEnded(c.Runtime, 10*time.Millisecond) })
	p := pod()
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "a", ContainerID: "containerd://id", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	g.pods.list = []*v1.Pod{p}
	if code, body := g.get("system:masters", "/containerLogs/ns/p/a"); code != 400 || !strings.Contains(body, "unable to retrieve container logs for containerd://id") {
		t.Errorf("a container that the runtime has lost: %d %s", code, body)
	}
	state := func(s runtimev1.ContainerState) {
		g.rt.setState("id", &runtimev1.ContainerStatus{Id: "id", LogPath: path, State: s})
	}
	state(runtimev1.ContainerState_CONTAINER_RUNNING)
	for query, want := range map[string]string{
		"": "one\ntwo\n", "?tail=1": "two\n", "?tail=all&tailLines=1": "one\ntwo\n", "?tailLines=1": "two\n", "?tailLines=1&timestamps": "2026-01-02T03:04:05.500000000Z two\n", "?limitBytes=2": "on",
		"?sinceTime=2026-01-02T03:04:06Z": "", "?sinceTime=": "one\ntwo\n", "?sinceTime=null": "one\ntwo\n", "?stream=All": "one\ntwo\n",
	} {
		if code, body := g.get("system:masters", "/containerLogs/ns/p/a"+query); code != 200 || body != want {
			t.Errorf("%s: %d %q", query, code, body)
		}
	}
	if code, body := g.get("system:masters", "/containerLogs/ns/p/a?stream=Stderr"); code != 400 || !strings.Contains(body, "Please enable PodLogsQuerySplitStreams") {
		t.Errorf("a stream alone: %d %q", code, body)
	}
	client, err := rest.HTTPClientFor(g.config("system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", g.url("/containerLogs/ns/p/a?follow=true&tailLines=1").String(), nil)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func() string {
		if !lines.Scan() {
			return fmt.Sprint("end ", lines.Err())
		}
		return lines.Text()
	}
	if got := next(); got != "two" || res.Header.Get("Content-Type") != "text/plain" {
		t.Error(got, res.Header)
	}
	write("three")
	if got := next(); got != "three" {
		t.Error(got)
	}
	write("last")
	state(runtimev1.ContainerState_CONTAINER_EXITED)
	if got := next() + next(); got != "lastend <nil>" {
		t.Error(got)
	}
}
