package suite

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestMissingNamesWhatATestNeeds(t *testing.T) {
	served := map[string]bool{"pods": true, "services": true, "replicationcontrollers": true, "services!": true}
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"[sig-node] Pods should be submitted and removed [Conformance]", "test/e2e/common/node/pods.go", nil},
		{"[sig-apps] Job should run [Conformance]", "test/e2e/apps/job.go", []string{"jobs.batch"}},
		{"[sig-network] Services should serve [Conformance]", "test/e2e/network/service.go", nil},
		{"[sig-apps] ReplicationController should adopt [Conformance]", "test/e2e/apps/rc.go", []string{"replicationcontrollers!"}},
		{"[sig-apps] Deployment should run [Conformance]", "test/e2e/apps/deployment.go", []string{"deployments.apps"}},
		{"[sig-network] Ingress API should support [Conformance]", "test/e2e/network/ingress.go", []string{"ingresses.networking.k8s.io"}},
	} {
		if got := Missing(Test{Name: c.name, File: c.file}, served); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	hostPort := Test{Name: "[sig-network] HostPort validates that there is no conflict [Conformance]", File: "test/e2e/network/hostport.go"}
	if got := Missing(hostPort, map[string]bool{"pods": true}); got != nil {
		t.Errorf("%s: %v, want nothing", hostPort.Name, got)
	}
}

// ginkgo's report of one test, as its JSON has it.
const reports = `[{"SpecReports":[
	{"LeafNodeType":"SynchronizedBeforeSuite","State":"passed"},
	{"LeafNodeType":"It","State":"skipped"},
	{"LeafNodeType":"It","State":"STATE","RunTime":1500000000,"Failure":{"Message":"no\n  pod","Location":{"FileName":"/x/test/e2e/common/a.go","LineNumber":7}}}]}]`

func TestJudgeReadsTheVerdict(t *testing.T) {
	for state, want := range map[string]Result{
		"passed":   {State: Passed, Seconds: 1.5},
		"failed":   {State: Failed, Reason: "no pod", Where: "common/a.go:7"},
		"timedout": {State: Failed, Reason: "timed out: no pod", Where: "common/a.go:7"},
		"skipped":  {State: NotRun, Reason: "skips itself: no pod"},
	} {
		var parsed []specReport
		if err := json.Unmarshal([]byte(strings.Replace(reports, "STATE", state, 1)), &parsed); err != nil {
			t.Fatal(err)
		}
		var r Result
		judge(&r, parsed)
		if r != want {
			t.Errorf("%s: %+v, want %+v", state, r, want)
		}
	}
	late := strings.Replace(strings.Replace(reports, "STATE", "timedout", 1), `"Location"`,
		`"AdditionalFailure":{"Failure":{"Message":"A timeout, then:\nwaited in vain","Location":{"FileName":"/x/test/e2e/b.go","LineNumber":8}}},"Location"`, 1)
	var parsed []specReport
	if err := json.Unmarshal([]byte(late), &parsed); err != nil {
		t.Fatal(err)
	}
	var r Result
	if judge(&r, parsed); r.Reason != "timed out: waited in vain" || r.Where != "b.go:8" {
		t.Errorf("%+v", r)
	}
	r = Result{}
	judge(&r, nil)
	if r.State != Failed || r.Reason == "" {
		t.Errorf("a report without the test: %+v", r)
	}
}

func TestLastEvent(t *testing.T) {
	out := []byte("x\n I1 dump.go:53] At T - event for a: {default-scheduler } FailedScheduling: 0/1 nodes\n At T - event for p: {kubelet n} FailedMount: no volume\n At T - event for p: {kubelet n} Pulled: yes\n")
	if got := lastEvent(out); got != "FailedMount: no volume" {
		t.Error(got)
	}
	if got := lastEvent([]byte("event for p: {kubelet n} Pulled: yes")); got != "" {
		t.Error(got)
	}
}

func TestLineHasNoDumps(t *testing.T) {
	dump := `{"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"containers": [{"name": "c"}]}}`
	for message, want := range map[string]string{
		"state of pod\n" + dump + "\nis: wrong": "state of pod {…} is: wrong",
		"a {b} c":                               "a {b} c",
		"cut " + dump[:70]:                      "cut {…",
		"a } b":                                 "a } b",
		"Expected Running\nGot instead:\n    <*v1.Pod | 0x2b>: \n        metadata: a": "Expected Running Got instead: …",
		"Unexpected error: x": "x",
	} {
		if got := Line(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

func TestReportGoesOn(t *testing.T) {
	r := Report{Dir: t.TempDir()}
	for _, one := range []Result{{Name: "a", State: Failed}, {Name: "b", State: Passed}, {Name: "a", State: Passed}} {
		if err := r.Append(one); err != nil {
			t.Fatal(err)
		}
	}
	// A run that was killed while it wrote.
	f, err := os.OpenFile(filepath.Join(r.Dir, "results.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"name":"c","sta`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, _, err := r.Load()
	if err != nil || len(got) != 2 || got["a"].State != Passed || got["a"].Earlier == nil || got["b"].Earlier != nil {
		t.Errorf("%v, %v", got, err)
	}
	if err := r.Append(Result{Name: "d", State: Failed}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := r.Load(); err != nil || len(got) != 3 {
		t.Errorf("after a line that was cut off: %v, %v", got, err)
	}
}

// Results belong to the run that was going on; what a run tells at its end replaces what it told at its begin.
func TestResultsBelongToRuns(t *testing.T) {
	r := Report{Dir: t.TempDir()}
	first, second := time.Unix(100, 0).UTC(), time.Unix(200, 0).UTC()
	for _, s := range []Session{{Date: first, Commit: "a"}, {Date: first, Commit: "a", Ended: "complete"}, {Date: second, Commit: "b"}} {
		if err := r.Note(s); err != nil {
			t.Fatal(err)
		}
	}
	_, runs, err := r.Load()
	if err != nil || len(runs) != 2 || runs[0].Ended != "complete" {
		t.Fatalf("%+v, %v", runs, err)
	}
	for at, want := range map[int64]int{50: -1, 100: 0, 150: 0, 200: 1, 250: 1} {
		if got := (Result{At: time.Unix(at, 0)}).Of(runs); got != want {
			t.Errorf("a result at %d is of run %d, want %d", at, got, want)
		}
	}
}

func TestOneRunAReport(t *testing.T) {
	r := Report{Dir: t.TempDir()}
	lock, err := r.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Lock(); err == nil || !strings.Contains(err.Error(), "REPORT=") {
		t.Errorf("a second run: %v", err)
	}
	lock.Close()
	if lock, err = r.Lock(); err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

func TestWhyATestDoesNotRun(t *testing.T) {
	for want, missing := range map[string][]string{
		"not served: services, jobs.batch": {"services", "jobs.batch"},
		"needs a second node":              {TwoNodes},
		"kept, but nobody acts on: services; names of services are not in DNS": {clusterDNS, "services!"},
		"not served: daemonsets.apps; needs a second node":                     {"daemonsets.apps", TwoNodes},
	} {
		if got := why(missing); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestStandInAnswersOneRequest(t *testing.T) {
	asked := []string{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			w.Write([]byte(`{"gitVersion":"v1.37.2"}`))
		case "/api":
			w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case "/apis":
			w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		case "/api/v1":
			w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["get"]}]}`))
		case "/api/v1/nodes":
			w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[{}]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	dir := t.TempDir()
	k := clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: api.URL}
	k.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	k.CurrentContext = "x"
	file := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), file, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Server != "v1.37.2" || !c.Served["pods"] || c.Served["services"] || c.Served[TwoNodes] || c.Accounts || len(c.StandIn) != 2 {
		t.Errorf("%+v", c)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{kubernetesService: http.StatusOK, "/api/v1/namespaces/default/services/other": http.StatusNotFound} {
		resp, err := http.Get(cfg.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	if slices.Contains(asked, kubernetesService) {
		t.Error("the stand-in's request went on to the cluster")
	}
}
