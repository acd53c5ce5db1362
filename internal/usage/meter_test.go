package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podo.dev/podo/internal/view/viewtest"
)

// machines are nodes whose containers use a quarter of a processor each, and whose kubelets tell so.
type machines struct {
	mu    sync.Mutex
	since time.Time
	pods  map[string][]string // by node: namespace/name
	down  map[string]bool     // these refuse
	hang  map[string]bool     // these do not answer
	asked map[string]int
}

const node = `# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total %[1]f %[2]d
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 1.048576e+06 %[2]d
`

const container = `container_start_time_seconds{container="c",namespace=%[1]q,pod=%[2]q} %[3]f
container_cpu_usage_seconds_total{container="c",namespace=%[1]q,pod=%[2]q} %[4]f %[5]d
container_memory_working_set_bytes{container="c",namespace=%[1]q,pod=%[2]q} 4096 %[5]d
`

func (m *machines) read(ctx context.Context, n *v1.Node) ([]*dto.MetricFamily, error) {
	m.mu.Lock()
	m.asked[n.Name]++
	hang, down := m.hang[n.Name], m.down[n.Name]
	m.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if down {
		return nil, errors.New("connection refused")
	}
	now := time.Now()
	used := 100 + now.Sub(m.since).Seconds()
	text := fmt.Sprintf(node, used/2, now.UnixMilli())
	for _, p := range m.pods[n.Name] {
		ns, name, _ := strings.Cut(p, "/")
		text += fmt.Sprintf(container, ns, name, float64(m.since.Unix()-1000), used/4, now.UnixMilli())
	}
	return parse(text)
}

func parse(text string) ([]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	told, err := parser.TextToMetricFamilies(strings.NewReader(text))
	var out []*dto.MetricFamily
	for _, f := range told {
		out = append(out, f)
	}
	return out, err
}

func nodeObject(name string, ready v1.ConditionStatus) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"zone": name}},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}},
	}
}

func podObject(namespace, name, node string, phase v1.PodPhase) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Image: "i"}}},
		Status:     v1.PodStatus{Phase: phase},
	}
}

// newMeter is a meter of nodes a to d, of which c is silent, with pods on each and one that has ended.
func newMeter(t *testing.T) (*Meter, *machines, *strings.Builder) {
	t.Helper()
	m := &machines{
		since: time.Now(), down: map[string]bool{}, hang: map[string]bool{}, asked: map[string]int{},
		pods: map[string][]string{"a": {"ns/a1", "ns/a2", "other/a3", "ns/nobodys"}, "b": {"ns/b1"}, "c": {"ns/c1"}, "d": {"other/d1"}},
	}
	objs := []runtime.Object{
		nodeObject("a", v1.ConditionTrue), nodeObject("b", v1.ConditionTrue), nodeObject("c", v1.ConditionUnknown), nodeObject("d", v1.ConditionFalse),
		podObject("ns", "ended", "a", v1.PodSucceeded), podObject("ns", "waits", "", v1.PodPending),
	}
	for n, pods := range m.pods {
		for _, p := range pods {
			if ns, name, _ := strings.Cut(p, "/"); name != "nobodys" {
				objs = append(objs, podObject(ns, name, n, v1.PodRunning))
			}
		}
	}
	v, _ := viewtest.New(t, objs...)
	var log strings.Builder
	meter, err := New(Config{View: v, Read: m.read, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return meter, m, &log
}

func tell(pods []v1beta1.PodMetrics) string {
	var out []string
	for _, p := range pods {
		for _, c := range p.Containers {
			out = append(out, fmt.Sprintf("%s/%s %s %v %s %s", p.Namespace, p.Name, c.Name, p.Window.Duration, c.Usage.Cpu(), c.Usage.Memory()))
		}
	}
	return strings.Join(out, "\n")
}

// The first answer takes a second; later ones are compared with what was told before. Nobody but the pods' nodes is asked, and nobody at
// all twice for those who ask at once.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter, m, _ := newMeter(t)
		ctx, all := t.Context(), labels.Everything()
		began := time.Now()
		got, err := meter.Pods(ctx, "ns", labels.SelectorFromSet(labels.Set{"app": "a1"}))
		if err != nil || tell(got) != "ns/a1 c 1s 250m 4Ki" || time.Since(began) != Moment {
			t.Errorf("after %v: %s, %v", time.Since(began), tell(got), err)
		}
		if p := got[0]; p.Labels["app"] != "a1" || !p.Timestamp.Time.Equal(time.Now()) || p.CreationTimestamp.IsZero() {
			t.Errorf("%+v", p)
		}
		if m.asked["a"] != 2 || len(m.asked) != 1 {
			t.Errorf("asked: %v", m.asked)
		}
		time.Sleep(15 * time.Second)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				got, err := meter.Pods(ctx, "", all)
				want := "ns/a1 c 16s 250m 4Ki\nns/a2 c 16s 250m 4Ki\nns/b1 c 1s 250m 4Ki\nother/a3 c 16s 250m 4Ki\nother/d1 c 1s 250m 4Ki"
				if err != nil || tell(got) != want {
					t.Errorf("%s, %v", tell(got), err)
				}
			})
		}
		wg.Wait()
		if m.asked["a"] != 3 || m.asked["b"] != 2 || m.asked["c"] != 0 {
			t.Errorf("asked: %v", m.asked)
		}
		nodes, err := meter.Nodes(ctx, labels.SelectorFromSet(labels.Set{"zone": "a"}))
		if err != nil || len(nodes) != 1 || nodes[0].Usage.Cpu().String() != "500m" || nodes[0].Usage.Memory().String() != "1Mi" || nodes[0].Labels["zone"] != "a" {
			t.Errorf("%+v, %v", nodes, err)
		}
		before := m.asked["a"]
		time.Sleep(time.Hour)
		if m.asked["a"] != before {
			t.Error("a node was asked while nobody wanted to know")
		}
		if got, err := meter.Pods(ctx, "ns", labels.SelectorFromSet(labels.Set{"app": "a2"})); err != nil || tell(got) != "ns/a2 c 1s 250m 4Ki" {
			t.Errorf("after an hour: %s, %v", tell(got), err)
		}
	})
}

// A node that refuses, or does not answer, costs the others' answer a few seconds once; it is asked again later.
func TestANodeThatDoesNotAnswerIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter, m, log := newMeter(t)
		m.down["a"], m.hang["b"] = true, true
		for i, took := range []time.Duration{patience, 0} {
			began := time.Now()
			got, err := meter.Pods(t.Context(), "", labels.Everything())
			if err != nil || tell(got) != "other/d1 c 1s 250m 4Ki" && i == 0 || time.Since(began) > took+Moment {
				t.Errorf("after %v: %s, %v", time.Since(began), tell(got), err)
			}
		}
		for _, want := range []string{"node=a err=\"connection refused\"", "node=b err=\"no answer within 5s\""} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("not once %s in the log:\n%s", want, log)
			}
		}
		_, err := meter.Pod(t.Context(), "ns", "a1")
		if !apierrors.IsNotFound(err) || err.Error() != `podmetrics.metrics.k8s.io "ns/a1" not found` {
			t.Error(err)
		}
		m.mu.Lock()
		m.down["a"], m.hang["b"] = false, false
		m.mu.Unlock()
		time.Sleep(respite)
		if p, err := meter.Pod(t.Context(), "ns", "a1"); err != nil || p.Name != "a1" {
			t.Errorf("%+v, %v", p, err)
		}
		if n, err := meter.Node(t.Context(), "b"); err != nil || n.Name != "b" {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// Who hangs up spoils nothing: neither his neighbour's answer, nor the node's name.
func TestWhoAsksMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter, _, log := newMeter(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := meter.Node(ctx, "a")
			gone <- err
		}()
		synctest.Wait() // between its two readings
		next := make(chan error, 1)
		go func() {
			n, err := meter.Node(t.Context(), "a")
			if err == nil && n.Usage.Cpu().String() != "500m" {
				err = fmt.Errorf("%+v", n)
			}
			next <- err
		}()
		time.Sleep(Moment / 2)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-next; err != nil || log.Len() > 0 {
			t.Errorf("%v\n%s", err, log)
		}
	})
}

func TestNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter, _, _ := newMeter(t)
		for want, ask := range map[string]func() error{
			`pods "x" not found`:                             func() error { _, err := meter.Pod(t.Context(), "ns", "x"); return err },
			`podmetrics.metrics.k8s.io "ns/ended" not found`: func() error { _, err := meter.Pod(t.Context(), "ns", "ended"); return err },
			`nodes "x" not found`:                            func() error { _, err := meter.Node(t.Context(), "x"); return err },
			`nodemetrics.metrics.k8s.io "c" not found`:       func() error { _, err := meter.Node(t.Context(), "c"); return err },
		} {
			if err := ask(); !apierrors.IsNotFound(err) || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}

// What a kubelet tells beside the point, twice or by halves does no harm.
func TestReadingOf(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // pods
		err  error
	}{
		{"", nil, errNoNode},
		{"# TYPE resource_scrape_error gauge\nresource_scrape_error 1\n", nil, errNoNode},
		{fmt.Sprintf(node, 1.0, 1000) + fmt.Sprintf(container, "ns", "p", 1.0, 1.0, 1000), []string{"ns/p"}, nil},
		{fmt.Sprintf(node, 1.0, 1000) + `container_start_time_seconds{container="c",namespace="ns",pod="p"} 1` + "\n", nil, nil},
		{fmt.Sprintf(node, 1.0, 1000) + fmt.Sprintf(container, "ns", "p", 1.0, -1.0, 1000), nil, nil},
		{fmt.Sprintf(node, 1.0, 1000) + `container_cpu_usage_seconds_total{container="c",namespace="ns",pod="p"} NaN 1000` + "\n", nil, nil},
		{"node_cpu_usage_seconds_total +Inf 1000\nnode_memory_working_set_bytes 5 1000\n", nil, errNoNode},
	} {
		families, err := parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadingOf(start, families)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var got []string
		if r != nil {
			for p := range r.Pods {
				got = append(got, p.String())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.text, got)
		}
	}
}

// Whatever a node says, it is read, refused or left out, and no load comes of it that no machine has.
func FuzzReading(f *testing.F) {
	f.Add("", "")
	f.Add(fmt.Sprintf(node, 1.0, 1000), fmt.Sprintf(node, 2.0, 2000))
	f.Add(fmt.Sprintf(node, 1.0, 1000)+fmt.Sprintf(container, "ns", "p", 0.5, 1.0, 1000), fmt.Sprintf(node, 2.0, 3000)+fmt.Sprintf(container, "ns", "p", 0.5, 1.5, 3000))
	f.Add("node_cpu_usage_seconds_total 1e308 -9223372036854775808\nnode_memory_working_set_bytes 1e17 1\n", "node_cpu_usage_seconds_total NaN\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		var at [2]*Reading
		for i, text := range []string{first, second} {
			families, err := parse(text)
			if err != nil {
				return
			}
			if at[i], err = ReadingOf(secondsAfter(float64(i)), families); err != nil {
				return
			}
		}
		s := span{at[0], at[1]}
		loads := map[string]Load{}
		if l, ok := s.node(); ok {
			loads["the node"] = l
		}
		for pod := range at[1].Pods {
			told, _ := s.pod(pod)
			for name, l := range told {
				loads[pod.String()+" "+name] = l
			}
		}
		for of, l := range loads {
			if l.CPU < 0 || l.Memory <= 0 || l.Window < 0 {
				t.Errorf("%s: %+v", of, l)
			}
			_ = l.list()
		}
	})
}
