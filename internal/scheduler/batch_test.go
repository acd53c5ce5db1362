package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// bench is a scheduler whose hands the test is: it takes the binds, deletions and questions, and answers them when it likes.
type bench struct {
	*run
	story []string // all records, in order
}

// nobody is a client that is not used: what is told is left in the outbox.
type nobody struct{ client.Client }

// judge is an extender without a network: it wants nothing to do with a node for each pod, and fails for some pods.
type judge struct{}

func (judge) RoundTrip(r *http.Request) (*http.Response, error) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		return nil, err
	}
	kind := len(args.Pod.Name) + int(args.Pod.Name[len(args.Pod.Name)-1])
	if kind%5 == 0 {
		return nil, errors.New("out of order")
	}
	not := fmt.Sprint("node-", kind%4)
	left := slices.DeleteFunc(*args.NodeNames, func(n string) bool { return n == not })
	var answer any = extenderv1.ExtenderFilterResult{NodeNames: &left, FailedNodes: map[string]string{not: "not there"}}
	if strings.HasSuffix(r.URL.Path, "prioritize") {
		var scores extenderv1.HostPriorityList
		for i, n := range *args.NodeNames {
			scores = append(scores, extenderv1.HostPriority{Host: n, Score: int64((kind + i) % 10)})
		}
		answer = scores
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}, err
}

func newBench(t interface{ Fatal(args ...any) }, v *view.View) *bench {
	b := &bench{}
	c := Config{View: v, Client: nobody{}, Seed: 7, Transport: judge{}, MaxInFlight: 40, Append: func(r timeline.Record) {
		b.story = append(b.story, fmt.Sprint(r.At.UnixNano(), " ", timeline.Lines([]timeline.Record{r})))
	}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.Profiles.Extenders = []configv1.Extender{{
		URLPrefix: "http://x", FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 1, NodeCacheCapable: true,
		ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/managed"}},
	}}
	var err error
	if b.run, err = newRun(c, newOutbox(c), v.Snapshot()); err != nil {
		t.Fatal(err)
	}
	b.extenders.asking = maxAsking // so that every question waits for the test
	return b
}

// oneByOne is what cycle would be without batches.
func (b *bench) oneByOne() {
	for n := 0; n < burst && b.out.room() > 0; n++ {
		item := b.queue.Pop(time.Now())
		if item == nil {
			break
		}
		b.attempt(item, time.Now())
	}
	b.out.handOver()
}

// state is all that a scheduler knows and has told.
func (b *bench) state() string {
	lines := b.story
	b.story = nil
	for {
		r, ok := b.out.reports.next()
		if !ok {
			break
		}
		b.out.reports.told(r.pod.UID)
		lines = append(lines, fmt.Sprint("report ", r.pod.Name, r.reason, r.message, r.nominate))
	}
	var now []string
	for _, i := range b.queue.Items() {
		now = append(now, fmt.Sprint(i.Pod.Object.Name, i.State, i.Attempts, i.RejectedBy, i.Refused, i.For, b.waitsOn(i.Pod.Object.UID)))
	}
	for _, n := range b.cluster.Nodes {
		for uid := range n.Pods {
			_, assumed := b.cluster.Placed(uid)
			now = append(now, fmt.Sprint(uid, " on ", n.Name, assumed))
		}
	}
	slices.Sort(now)
	return strings.Join(append(lines, now...), "\n")
}

// drawn is a pod of one of a few shapes.
func drawn(shape, serial int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", serial), Labels: map[string]string{"app": fmt.Sprint(shape)}, Generation: 1}}
	p.UID, p.ResourceVersion = types.UID(p.Name), fmt.Sprint(serial)
	p.Spec.SchedulerName, p.Spec.Priority = v1.DefaultSchedulerName, new(int32(0))
	ask := func(name v1.ResourceName, much string) {
		p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{name: resource.MustParse(much)}}}}
	}
	ask(v1.ResourceCPU, "500m")
	like := &metav1.LabelSelector{MatchLabels: p.Labels}
	switch shape {
	case 1:
		ask(v1.ResourceCPU, "1500m")
		p.Spec.Priority = new(int32(10)) // has others leave
	case 2:
		ask(v1.ResourceCPU, "900m")
		p.Spec.Priority = new(int32(5))
	case 3:
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: like},
		}}}
	case 4:
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: like},
		}
	case 5:
		ask("example.com/managed", "1")
	case 6: // wants to be where those of shape 2 are, and ranks above what is woken for it
		p.Spec.Priority = new(int32(7))
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "2"}}},
		}}}
	}
	return p
}

func machine(i int, cpu string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
	n.Labels = map[string]string{v1.LabelHostname: n.Name, v1.LabelTopologyZone: fmt.Sprint("zone-", i%2)}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10"),
		"example.com/managed": resource.MustParse("2"),
	}
	return n
}

func entry(o metav1.Object) *view.Entry {
	e := &view.Entry{Key: view.Key{Namespace: o.GetNamespace(), Name: o.GetName()}, Meta: o}
	switch o := o.(type) {
	case *v1.Pod:
		e.Object = o
	case *v1.Node:
		e.Object = o
	}
	return e
}

// A batch decides what its pods would be told one by one, with the same seed and whatever happens: the same nodes and scores, the same
// reasons, the same pods that have to leave, the same queue, in the same order. One of the two schedulers here has no batches.
func TestBatchesDecideAsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, f, err := view.NewFed(view.Config{Kinds: registry.All()})
		if err != nil {
			t.Fatal(err)
		}
		f.Complete()
		rapid.Check(bubbled{t}, func(t *rapid.T) { compare(t, v) })
	})
}

// bubbled hides that a test has a deadline, for which it may not be asked in a bubble.
type bubbled struct{ *testing.T }

// pair are the two, to whom the same happens.
type pair struct {
	*rapid.T
	both   [2]*bench
	pods   map[types.UID]*v1.Pod // as they are, bound or not
	serial int
	jobs   [2][]bindJob
}

func compare(t *rapid.T, v *view.View) {
	p := &pair{T: t, both: [2]*bench{newBench(t, v), newBench(t, v)}, pods: map[types.UID]*v1.Pod{}}
	for _, b := range p.both {
		defer b.close()
	}
	for i := range 3 {
		p.node(i, "2")
	}
	t.Repeat(map[string]func(*rapid.T){
		"node": func(t *rapid.T) {
			p.node(rapid.IntRange(0, 4).Draw(t, "node"), rapid.SampledFrom([]string{"1", "2", "4"}).Draw(t, "cpu"))
		},
		"pods": func(t *rapid.T) {
			shape := rapid.IntRange(0, 6).Draw(t, "shape")
			for range rapid.IntRange(1, 8).Draw(t, "many") {
				p.serial++
				p.become(nil, drawn(shape, p.serial))
			}
		},
		"gone": func(t *rapid.T) {
			if pod := p.some(t); pod != nil {
				p.become(pod, nil)
			}
		},
		"time": func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute}).Draw(t, "long"))
		},
		"cycle":   func(*rapid.T) { p.both[0].oneByOne(); p.both[1].cycle() },
		"bound":   p.bind,
		"told":    p.clear,
		"answers": func(*rapid.T) { p.each((*bench).answer) },
		"":        func(t *rapid.T) { p.same() },
	})
}

func (p *pair) each(do func(*bench)) {
	for _, b := range p.both {
		do(b)
	}
}

func (p *pair) same() {
	if one, batch := p.both[0].state(), p.both[1].state(); one != batch {
		p.Fatalf("one by one\n%s\nin batches\n%s", one, batch)
	}
}

func (p *pair) node(i int, cpu string) {
	n := machine(i, cpu)
	p.each(func(b *bench) { b.nodeChanged(view.Change{New: entry(n)}, time.Now()) })
}

// become has a pod change; nil is none.
func (p *pair) become(was, is *v1.Pod) {
	c := view.Change{}
	if was != nil {
		c.Old = entry(was)
		delete(p.pods, was.UID)
	}
	if is != nil {
		c.New = entry(is)
		p.pods[is.UID] = is
	}
	p.each(func(b *bench) { b.podChanged(c, time.Now()) })
}

func (p *pair) some(t *rapid.T) *v1.Pod {
	if len(p.pods) == 0 {
		return nil
	}
	var uids []types.UID
	for uid := range p.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return p.pods[rapid.SampledFrom(uids).Draw(t, "pod")]
}

// bind takes the binds that have been handed over, and has each go well, and be seen before or after its answer, or fail.
func (p *pair) bind(t *rapid.T) {
	for i, b := range p.both {
		for len(b.out.jobs) > 0 {
			p.jobs[i] = append(p.jobs[i], <-b.out.jobs...)
		}
	}
	if len(p.jobs[0]) != len(p.jobs[1]) {
		t.Fatalf("%d binds one by one, %d in batches", len(p.jobs[0]), len(p.jobs[1]))
	}
	for n := range p.jobs[0] {
		job := p.jobs[0][n]
		if other := p.jobs[1][n]; other.pod != job.pod || other.node != job.node {
			t.Fatalf("%s goes to %s one by one; in batches %s to %s", job.pod.Name, job.node, other.pod.Name, other.node)
		}
		was := p.pods[job.pod.UID]
		var err error
		if was == nil || rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
			err = errors.New("not now")
		}
		settle := func() { p.settle(n, err) }
		if err != nil {
			settle()
			continue
		}
		is := was.DeepCopy()
		is.Spec.NodeName = job.node
		if rapid.Bool().Draw(t, "seen first") {
			p.become(was, is)
			settle()
		} else {
			settle()
			p.become(was, is)
		}
	}
	p.jobs = [2][]bindJob{}
}

func (p *pair) settle(n int, err error) {
	for i, b := range p.both {
		b.settle([]bindResult{{p.jobs[i][n], err}})
	}
}

// clear tells those who have to leave for others, who go at once.
func (p *pair) clear(t *rapid.T) {
	for len(p.both[0].out.preemptions) > 0 {
		a, b := <-p.both[0].out.preemptions, <-p.both[1].out.preemptions
		if a.pod != b.pod || a.node != b.node || !slices.Equal(a.victims, b.victims) {
			t.Fatalf("one by one %v, in batches %v", a, b)
		}
		for _, v := range a.victims {
			if now := p.pods[v.UID]; now != nil {
				p.become(now, nil)
			}
		}
		p.each(func(b *bench) { b.roomMade(cleared{pod: a.pod.UID}) })
	}
	if len(p.both[1].out.preemptions) > 0 {
		t.Fatal("more have to leave for batches")
	}
}

// answer has extenders asked, in the order in which they were to be.
func (b *bench) answer() {
	for len(b.extenders.waiting) > 0 {
		ask := b.extenders.waiting[0]
		b.extenders.waiting = b.extenders.waiting[1:]
		ask()(time.Now())
	}
	b.out.handOver()
}

// emptyView is one of a cluster without objects.
func emptyView(t *testing.T) *view.View {
	t.Helper()
	v, f, err := view.NewFed(view.Config{Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	f.Complete()
	return v
}

// What is next is what a batch goes on with, also when something else has come before it since the batch began: a pod of higher priority that
// one of the batch has woken.
func TestABatchIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, emptyView(t))
		defer b.close()
		come := func(pods ...*v1.Pod) {
			for _, p := range pods {
				b.podChanged(view.Change{New: entry(p)}, time.Now())
			}
		}
		b.nodeChanged(view.Change{New: entry(machine(0, "4"))}, time.Now())
		come(drawn(6, 1)) // waits for one of shape 2
		b.cycle()
		time.Sleep(time.Minute)
		come(drawn(2, 2), drawn(2, 3), drawn(2, 4))
		b.cycle()
		var order []string
		for _, job := range <-b.out.jobs {
			order = append(order, job.pod.Name)
		}
		if want := []string{"p2", "p1", "p3", "p4"}; !slices.Equal(order, want) {
			t.Errorf("tried in the order %v, want %v", order, want)
		}
	})
}

// Who has a node does not wait until the others of the cycle have been decided about, if that takes long.
func TestSlowDecisionsHoldUpNoBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, emptyView(t))
		defer b.close()
		for i := range 3 {
			b.nodeChanged(view.Change{New: entry(machine(i, "4"))}, time.Now())
		}
		for i := range 17 {
			b.podChanged(view.Change{New: entry(drawn(0, i))}, time.Now())
		}
		b.config.Append = func(timeline.Record) { time.Sleep(time.Millisecond) } // one for each decision
		b.cycle()
		var together []int
		for len(b.out.jobs) > 0 {
			together = append(together, len(<-b.out.jobs))
		}
		if want := []int{5, 5, 5, 2}; !slices.Equal(together, want) {
			t.Errorf("bound together: %v, want %v", together, want)
		}
	})
}

// What has been decided is bound before the scheduler starts anew, also when it had to stop before it had handed that over.
func TestDrainHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(Config{MaxInFlight: 1})
		job := bindJob{pod: drawn(0, 1), node: "node-0"}
		o.bind(job)
		go func() { o.results <- []bindResult{{(<-o.jobs)[0], nil}} }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := o.drain(ctx); err != nil || o.room() != 1 {
			t.Errorf("%v, room for %d", err, o.room())
			o.handOver() // for who waits for it
		}
	})
}

// What happens while extenders are asked about a pod is not lost to it: its own change, a claim's, room that is no longer held for another.
func TestWhatHappensWhileExtendersAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, happens := range map[string]func(b *bench, pod, other *v1.Pod){
			"nothing": func(*bench, *v1.Pod, *v1.Pod) {},
			"it tolerates more": func(b *bench, pod, _ *v1.Pod) {
				is := pod.DeepCopy()
				is.Spec.Tolerations, is.Generation, is.ResourceVersion = []v1.Toleration{{Operator: v1.TolerationOpExists}}, 2, "later"
				b.podChanged(view.Change{Old: entry(pod), New: entry(is)}, time.Now())
			},
			"a claim": func(b *bench, _, _ *v1.Pod) {
				c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}}
				b.heard(told{kind: schema.GroupResource{Resource: "persistentvolumeclaims"}, changes: []view.Change{
					{New: &view.Entry{Key: view.Key{Namespace: "ns", Name: "c"}, Meta: c, Object: c}},
				}}, time.Now())
			},
			"another gives up the room": func(b *bench, _, other *v1.Pod) {
				b.podChanged(view.Change{Old: entry(other)}, time.Now())
			},
		} {
			b := newBench(t, emptyView(t))
			tainted, held := machine(1, "2"), machine(2, "2")
			tainted.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
			for _, n := range []*v1.Node{machine(0, "2"), tainted, held} { // the extender does not want p2 on node-0
				b.nodeChanged(view.Change{New: entry(n)}, time.Now())
			}
			other := drawn(1, 9)
			other.Status.NominatedNodeName = held.Name
			other.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
			other.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("2")
			other.Spec.Containers[0].Resources.Requests["example.com/managed"] = resource.MustParse("2")
			pod := drawn(5, 2)
			for _, p := range []*v1.Pod{other, pod} {
				b.podChanged(view.Change{New: entry(p)}, time.Now())
			}
			b.cycle()
			if got := b.queue.Item(pod.UID).State; got != queue.InFlight {
				t.Fatalf("%s: before the answer the pod is %s", name, got)
			}
			happens(b, pod, other)
			b.answer()
			if got := b.queue.Item(pod.UID).State; (got == queue.Unschedulable) != (name == "nothing") {
				t.Errorf("%s happened: the pod is %s", name, got)
			}
			b.close()
		}
	})
}
