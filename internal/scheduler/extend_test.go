package scheduler_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/profile"
)

// program is an extender without a network: what it answers to each verb.
type program struct {
	mu     sync.Mutex
	answer map[string]func(body []byte) any // nil: it hangs
	asked  map[string]int
}

func (p *program) RoundTrip(r *http.Request) (*http.Response, error) {
	verb := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	var body json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.asked[verb]++
	f := p.answer[verb]
	p.mu.Unlock()
	if f == nil {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	switch a := f(body).(type) {
	case int:
		w.WriteHeader(a)
	case string:
		fmt.Fprint(w, a)
	default:
		if err := json.NewEncoder(w).Encode(a); err != nil {
			return nil, err
		}
	}
	return w.Result(), nil
}

func (p *program) count(verb string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[verb]
}

func extended(t *testing.T, w *world, text string) *program {
	t.Helper()
	var err error
	w.profiles, err = profile.Read([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n"+text), profile.Given{})
	if err != nil {
		t.Fatal(err)
	}
	p := &program{answer: map[string]func([]byte) any{}, asked: map[string]int{}}
	w.transport = p
	return p
}

// only passes one node.
func only(name string) func([]byte) any {
	return func(body []byte) any {
		var args extenderv1.ExtenderArgs
		if json.Unmarshal(body, &args) != nil || args.NodeNames == nil {
			return 400
		}
		out := extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedNodes: extenderv1.FailedNodesMap{}}
		for _, n := range *args.NodeNames {
			if n == name {
				*out.NodeNames = append(*out.NodeNames, n)
			} else {
				out.FailedNodes[n] = "wrong colour"
			}
		}
		return out
	}
}

func coloured(name string) *v1.Pod {
	p := pod(name, "100m")
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/colour": resource.MustParse("1")}
	p.Spec.Containers[0].Resources.Requests["example.com/colour"] = resource.MustParse("1")
	return p
}

const colours = `
- {urlPrefix: "http://x/y/", filterVerb: filter, prioritizeVerb: rank, weight: 5, nodeCacheCapable: true, httpTimeout: 2s,
   managedResources: [{name: example.com/colour, ignoredByScheduler: true}]}
`

// An extender judges nodes for the pods in which it has a say; what it says is in the message.
func TestExtender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := extended(t, w, colours)
		w.node(node("node-a", "4"))
		w.node(node("node-b", "4"))
		p.answer["filter"] = only("node-b")
		w.start()
		w.create(coloured("blue"))
		w.on("blue", "node-b")
		w.create(pod("plain", "100m"))
		synctest.Wait()
		if n := p.count("filter"); n != 1 {
			t.Errorf("asked %d times: a pod without its resource is none of its business", n)
		}
		p.mu.Lock()
		p.answer["filter"] = only("none")
		p.mu.Unlock()
		w.create(coloured("red"))
		const want = "0/2 nodes are available: 2 wrong colour. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
		if c := condition(w.pod("red"), v1.PodScheduled); c.Message != want {
			t.Errorf("%q", c.Message)
		}
		p.mu.Lock()
		p.answer["filter"] = func(body []byte) any {
			var args extenderv1.ExtenderArgs
			_ = json.Unmarshal(body, &args)
			return extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}
		}
		p.answer["rank"] = func([]byte) any {
			return extenderv1.HostPriorityList{{Host: "node-a", Score: 10}, {Host: "node-b", Score: 0}}
		}
		p.mu.Unlock()
		for i := range 5 {
			w.create(coloured(fmt.Sprint("ranked-", i)))
			w.on(fmt.Sprint("ranked-", i), "node-a")
		}
	})
}

// What is decided about a pod that an extender judges comes later, so that no equal one can go on from there: each is a batch of its own.
func TestExtendedPodsAreBatchesOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := extended(t, w, colours)
		w.node(node("node-a", "4"))
		p.answer["filter"] = only("node-a")
		for i := range 3 {
			w.create(coloured(fmt.Sprint("blue-", i)))
		}
		w.start()
		w.on("blue-2", "node-a")
		if got, want := w.counters("scheduler_batch_attempts_total"), map[string]float64{"default-scheduler no_hint": 3}; !maps.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
		if got, want := w.counters("scheduler_batch_cache_flushed_total"), map[string]float64{"default-scheduler pod_not_batchable": 2}; !maps.Equal(got, want) {
			t.Errorf("ends %v, want %v", got, want)
		}
	})
}

// One that hangs, fails or lies costs the pods in which it has a say an error, and nobody else anything.
func TestExtenderThatHangsOrLies(t *testing.T) {
	for name, c := range map[string]struct {
		filter func([]byte) any
		want   string
	}{
		"hangs":          {nil, "context deadline exceeded"},
		"fails":          {func([]byte) any { return 500 }, "failed filter with extender at URL http://x/y/filter, code 500"},
		"no JSON":        {func([]byte) any { return "<html>" }, "invalid character"},
		"another node":   {func([]byte) any { return `{"NodeNames": ["moon"]}` }, `extender "http://x/y/" claims a filtered node "moon" which is not found in the input node list`},
		"says so itself": {func([]byte) any { return `{"Error": "no paint"}` }, "no paint"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := extended(t, w, colours)
				w.node(node("node-a", "40"))
				p.answer["filter"] = c.filter
				w.start()
				for i := range 40 { // more than are asked for at once
					w.create(coloured(fmt.Sprint("blue-", i)))
				}
				w.create(pod("plain", "100m"))
				w.on("plain", "node-a")
				time.Sleep(10 * time.Second)
				got := condition(w.pod("blue-39"), v1.PodScheduled)
				if got.Reason != v1.PodReasonSchedulerError || !strings.Contains(got.Message, c.want) {
					t.Errorf("%s %q", got.Reason, got.Message)
				}
				before := p.count("filter")
				time.Sleep(time.Minute)
				if n := p.count("filter") - before; n > 40*8 {
					t.Errorf("asked %d times in a minute: it must back off", n)
				}
				p.mu.Lock()
				p.answer["filter"] = only("node-a")
				p.mu.Unlock()
				time.Sleep(time.Minute)
				w.on("blue-0", "node-a")
				w.on("blue-39", "node-a")
			})
		})
	}
}

// One that can be ignored is, when it fails.
func TestIgnorableExtender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := extended(t, w, `- {urlPrefix: "http://x", filterVerb: filter, bindVerb: bind, ignorable: true}`)
		p.answer["filter"] = func([]byte) any { return 500 }
		p.answer["bind"] = func([]byte) any { return `{"Error": "no"}` }
		w.node(node("node-a", "4"))
		w.start()
		w.create(pod("p", "100m"))
		w.on("p", "node-a")
	})
}

// An extender may bind in our place.
func TestExtenderBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := extended(t, w, `- {urlPrefix: "http://x", bindVerb: bind, httpTimeout: 1s}`)
		w.node(node("node-a", "4"))
		tries := 0
		p.answer["bind"] = func(body []byte) any {
			var b extenderv1.ExtenderBindingArgs
			if err := json.Unmarshal(body, &b); err != nil {
				return 400
			}
			if tries++; tries == 1 {
				return `{"Error": "not yet"}`
			}
			err := client.Bind(t.Context(), w.admin, &v1.Binding{
				ObjectMeta: pod(b.PodName, "").ObjectMeta, Target: v1.ObjectReference{Kind: "Node", Name: b.Node},
			})
			if err != nil {
				return 409
			}
			return extenderv1.ExtenderBindingResult{}
		}
		w.start()
		w.create(pod("p", "100m"))
		time.Sleep(5 * time.Second)
		w.on("p", "node-a")
		if tries != 2 {
			t.Errorf("bound %d times", tries)
		}
	})
}

// An extender decides who leaves, among those of lower priority.
func TestExtenderPreempts(t *testing.T) {
	for name, c := range map[string]struct{ victim, want string }{
		"another victim":          {"low-2", ""},
		"one that ranks no lower": {"high", "the pod is not found on that node"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, victims := newRankedWorld(t), map[string]string{}
				w.node(node("node-a", "3"))
				p := extended(t, w, `- {urlPrefix: "http://x", preemptVerb: preempt, nodeCacheCapable: true}`)
				p.answer["preempt"] = func(body []byte) any {
					var args extenderv1.ExtenderPreemptionArgs
					if err := json.Unmarshal(body, &args); err != nil || len(args.NodeNameToMetaVictims) != 1 {
						return 400
					}
					return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{
						"node-a": {Pods: []*extenderv1.MetaPod{{UID: victims[c.victim]}}},
					}}
				}
				w.start()
				for name, priority := range map[string]int32{"low-1": 1, "low-2": 50, "high": 500} {
					w.create(ranked(name, "1", priority))
					w.on(name, "node-a")
					victims[name] = string(w.pod(name).UID)
				}
				w.create(ranked("comes", "1", 100))
				got := condition(w.pod("comes"), v1.PodScheduled)
				leaves := w.pod(c.victim).DeletionTimestamp != nil
				if c.want == "" && !leaves || c.want != "" && (leaves || !strings.Contains(got.Message, c.want)) {
					t.Errorf("%s leaves: %v; %q", c.victim, leaves, got.Message)
				}
				if w.pod("low-1").DeletionTimestamp != nil {
					t.Error("low-1 leaves, whom the extender spared")
				}
			})
		})
	}
}
