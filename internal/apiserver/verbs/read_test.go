package verbs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
)

func mustLabels(s string) labels.Selector {
	l, err := labels.Parse(s)
	if err != nil {
		panic(err)
	}
	return l
}

func names(l *List) []string {
	out := []string{}
	for _, e := range l.Items {
		out = append(out, e.Key.Namespace+"/"+e.Key.Name)
	}
	return out
}

func TestListSelectorsAndPages(t *testing.T) {
	w := newWorld(t)
	for i, ns := range []string{"default", "other", "default", "other", "default"} {
		p := pod(fmt.Sprintf("p%d", i))
		p.Namespace = ns
		p.Labels = map[string]string{"n": fmt.Sprint(i)}
		p.Spec.NodeName = fmt.Sprintf("node%d", i%2)
		w.create(p)
	}
	list := func(ns string, o internalversion.ListOptions) *List {
		t.Helper()
		l, err := w.List(w.ctx, admin, client.Pods.At(ns, ""), &o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	field := func(s string) fields.Selector { return fields.ParseSelectorOrDie(s) }
	for _, c := range []struct {
		ns   string
		o    internalversion.ListOptions
		want []string
	}{
		{"", internalversion.ListOptions{}, []string{"default/p0", "default/p2", "default/p4", "other/p1", "other/p3"}},
		{"other", internalversion.ListOptions{}, []string{"other/p1", "other/p3"}},
		{"", internalversion.ListOptions{LabelSelector: mustLabels("n in (1,2)")}, []string{"default/p2", "other/p1"}},
		{"", internalversion.ListOptions{FieldSelector: field("spec.nodeName=node1")}, []string{"other/p1", "other/p3"}},
		{"", internalversion.ListOptions{FieldSelector: field("spec.nodeName!=node1,metadata.name!=p0")}, []string{"default/p2", "default/p4"}},
		{"default", internalversion.ListOptions{FieldSelector: field("metadata.name=p2")}, []string{"default/p2"}},
		{"", internalversion.ListOptions{FieldSelector: field("metadata.name=p2,metadata.namespace=default")}, []string{"default/p2"}},
		{"", internalversion.ListOptions{FieldSelector: field("metadata.name=p2,metadata.namespace=other")}, []string{}},
		{"default", internalversion.ListOptions{FieldSelector: field("metadata.name=p2,spec.nodeName=node1")}, []string{}},
	} {
		if got := names(list(c.ns, c.o)); !slices.Equal(got, c.want) {
			t.Errorf("%q %+v: %v, want %v", c.ns, c.o, got, c.want)
		}
	}
	if _, err := w.List(w.ctx, admin, client.Pods.At("", ""), &internalversion.ListOptions{FieldSelector: field("spec.bogus=x")}); !apierrors.IsBadRequest(err) {
		t.Errorf("unknown field: %v", err)
	}
	// Pages are one revision, whatever is written in between.
	first := list("", internalversion.ListOptions{Limit: 2})
	if len(first.Items) != 2 || first.Continue == "" || first.Remaining == nil || *first.Remaining != 3 {
		t.Fatalf("first page: %v %q %v", names(first), first.Continue, first.Remaining)
	}
	w.create(configMap("between")) // of another kind: the pods are those of the first page still
	second := list("", internalversion.ListOptions{Limit: 2, Continue: first.Continue})
	w.create(pod("p00"))
	third := list("", internalversion.ListOptions{Limit: 2, Continue: second.Continue})
	if got := slices.Concat(names(first), names(second), names(third)); !slices.Equal(got, []string{"default/p0", "default/p2", "default/p4", "other/p1", "other/p3"}) {
		t.Errorf("pages: %v", got)
	}
	if second.Rev != first.Rev || third.Rev != first.Rev || third.Continue != "" {
		t.Errorf("revisions %d %d %d, last continue %q", first.Rev, second.Rev, third.Rev, third.Continue)
	}
	// Whoever asks for what memory has is not given pages of it. It has what a list has waited for.
	list("", internalversion.ListOptions{})
	if l := list("", internalversion.ListOptions{ResourceVersion: "0", Limit: 2}); len(l.Items) != 6 || l.Continue != "" || l.Remaining != nil {
		t.Errorf("a page at revision 0: %v %q %v", names(l), l.Continue, l.Remaining)
	}
	if l := list("", internalversion.ListOptions{ResourceVersion: "0", Limit: 2, Continue: first.Continue}); len(l.Items) != 3 || l.Continue != "" {
		t.Errorf("the rest at revision 0: %v %q", names(l), l.Continue)
	}
	// Events are not kept decoded; they are listed all the same.
	for i := range 7 {
		e := &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("e%d", i)}, InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("p%d", i%2)}, Reason: "Test", Type: "Normal"}
		w.create(e)
	}
	var got []string
	page := internalversion.ListOptions{Limit: 3}
	for {
		l, err := w.List(w.ctx, admin, client.Events.At("default", ""), &page)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, names(l)...)
		if page.Continue = l.Continue; page.Continue == "" {
			break
		}
	}
	if len(got) != 7 || !slices.IsSorted(got) {
		t.Errorf("events: %v", got)
	}
	if l, err := w.List(w.ctx, admin, client.Events.At("default", ""), &internalversion.ListOptions{ResourceVersion: "0", Limit: 3}); err != nil || len(l.Items) != 3 || l.Continue == "" {
		t.Errorf("a page of events, which memory does not have: %+v, %v", l, err)
	}
	if _, err := w.Get(w.ctx, admin, client.Events.At("default", "e3"), "0"); err != nil {
		t.Error(err)
	}
}

func TestResourceVersions(t *testing.T) {
	w := newWorld(t)
	a := w.create(configMap("a"))
	b := w.create(configMap("b"))
	rvA, rvB := accessor(a).GetResourceVersion(), accessor(b).GetResourceVersion()
	list := func(rv string, match metav1.ResourceVersionMatch) ([]string, error) {
		l, err := w.List(w.ctx, admin, client.ConfigMaps.At("default", ""), &internalversion.ListOptions{ResourceVersion: rv, ResourceVersionMatch: match})
		if err != nil {
			return nil, err
		}
		return names(l), nil
	}
	for _, c := range []struct {
		rv    string
		match metav1.ResourceVersionMatch
		n     int
	}{{"", "", 2}, {rvB, metav1.ResourceVersionMatchNotOlderThan, 2}, {rvB, "", 2}, {rvA, metav1.ResourceVersionMatchExact, 1}} {
		if got, err := list(c.rv, c.match); err != nil || len(got) != c.n {
			t.Errorf("%+v: %v %v", c, got, err)
		}
	}
	n, err := strconv.Atoi(rvB)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list(strconv.Itoa(n+1000), metav1.ResourceVersionMatchExact); !apierrors.IsTimeout(err) {
		t.Errorf("future: %v", err)
	}
	if _, err := list("", metav1.ResourceVersionMatchExact); !apierrors.IsInvalid(err) {
		t.Errorf("match without version: %v", err)
	}
	if _, err := list("x", ""); err == nil {
		t.Error("a version that is no number was taken")
	}
	if err := w.store.Compact(w.ctx, int64(n)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(w.ctx, admin, client.ConfigMaps.At("default", "a"), rvB); err != nil {
		t.Errorf("get not older than: %v", err)
	}
}

// stream runs a watch and hands out its events one by one.
type stream struct {
	t      *testing.T
	s      *Stream
	ctx    context.Context
	queued []Event
}

func (w *world) watch(t *testing.T, ref client.Ref, o internalversion.ListOptions) *stream {
	t.Helper()
	s, err := w.Watch(w.ctx, admin, ref, &o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	t.Cleanup(func() { cancel(); s.Close() })
	return &stream{t: t, s: s, ctx: ctx}
}

func (s *stream) next() Event {
	s.t.Helper()
	for len(s.queued) == 0 {
		events, err := s.s.Next(s.ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		s.queued = events
	}
	e := s.queued[0]
	s.queued = s.queued[1:]
	return e
}

func (s *stream) want(lines ...string) {
	s.t.Helper()
	for _, want := range lines {
		e := s.next()
		if got := string(e.Type) + " " + accessor(e.Object).GetName(); got != want {
			s.t.Errorf("event %q, want %q", got, want)
		}
	}
}

func TestWatchSelection(t *testing.T) {
	w := newWorld(t)
	ref := client.ConfigMaps.At("default", "")
	label := func(name, value string) string {
		t.Helper()
		out, err := w.Mutate(w.ctx, admin, client.ConfigMaps.At("default", name), func(obj runtime.Object) (bool, error) {
			accessor(obj).SetLabels(map[string]string{"x": value})
			return true, nil
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return accessor(out).GetResourceVersion()
	}
	w.create(configMap("a"))
	w.create(configMap("b"))
	label("a", "1")
	if _, err := w.view.Fresh(w.ctx); err != nil {
		t.Fatal(err)
	}
	selected := w.watch(t, ref, internalversion.ListOptions{LabelSelector: mustLabels("x=1")})
	all := w.watch(t, ref, internalversion.ListOptions{ResourceVersion: "0"})
	selected.want("ADDED a")
	all.want("ADDED a", "ADDED b")
	label("b", "1") // enters
	left := label("a", "2")
	w.create(configMap("c")) // never selected
	if _, _, err := w.Delete(w.ctx, admin, client.ConfigMaps.At("default", "b"), &metav1.DeleteOptions{}, Options{}); err != nil {
		t.Fatal(err)
	}
	selected.want("ADDED b")
	e := selected.next()
	if e.Type != "DELETED" || accessor(e.Object).GetName() != "a" || accessor(e.Object).GetResourceVersion() != left || accessor(e.Object).GetLabels()["x"] != "1" {
		t.Errorf("leaving the selection: %v %+v", e.Type, accessor(e.Object))
	}
	selected.want("DELETED b")
	all.want("MODIFIED b", "MODIFIED a", "ADDED c", "DELETED b")
	// Resume from a version: what came after it, once.
	w.watch(t, ref, internalversion.ListOptions{ResourceVersion: left}).want("ADDED c", "DELETED b")
	// One object by name.
	one := w.watch(t, ref, internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "c")})
	one.want("ADDED c")
	label("a", "3")
	label("c", "3")
	one.want("MODIFIED c")
}

func TestWatchInitialEvents(t *testing.T) {
	w := newWorld(t)
	w.create(configMap("a"))
	yes := true
	s := w.watch(t, client.ConfigMaps.At("default", ""), internalversion.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	s.want("ADDED a")
	if e := s.next(); e.Type != "BOOKMARK" || accessor(e.Object).GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || accessor(e.Object).GetResourceVersion() == "" {
		t.Errorf("end of initial events: %+v", e)
	}
	w.create(configMap("b"))
	s.want("ADDED b")
	if _, err := w.Watch(w.ctx, admin, client.ConfigMaps.At("", ""), &internalversion.ListOptions{SendInitialEvents: &yes}); !apierrors.IsInvalid(err) {
		t.Errorf("without a match: %v", err)
	}
}

// What a watch begins with is told piece by piece; until all of it is, it has not progressed.
func TestProgressOfABeginning(t *testing.T) {
	w := newWorld(t)
	const n = 2*initialAtOnce + 1
	for i := range n {
		w.create(configMap(fmt.Sprintf("c%03d", i)))
	}
	s, err := w.Watch(w.ctx, admin, client.ConfigMaps.At("default", ""), &internalversion.ListOptions{AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for told := 0; told <= n; { // the bookmark is one more
		if rev := s.Progress(); rev != 0 {
			t.Errorf("at %d after %d of %d", rev, told, n)
		}
		events, err := s.Next(w.ctx)
		if err != nil || len(events) == 0 || len(events) > initialAtOnce {
			t.Fatal(len(events), err)
		}
		for _, e := range events {
			if m := accessor(e.Object); told < n && m.GetName() != fmt.Sprintf("c%03d", told) || told == n && formatRev(s.Progress()) != m.GetResourceVersion() {
				t.Errorf("%d: %s %s at %s, progress %d", told, e.Type, m.GetName(), m.GetResourceVersion(), s.Progress())
			}
			told++
		}
	}
}

func TestWatchGone(t *testing.T) {
	w := newWorld(t)
	first := w.create(configMap("a"))
	for i := range 5000 { // more than memory keeps
		if _, err := w.Mutate(w.ctx, admin, client.ConfigMaps.At("default", "a"), func(obj runtime.Object) (bool, error) {
			obj.(*v1.ConfigMap).Data["n"] = fmt.Sprint(i)
			return true, nil
		}, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	rev, err := w.store.Revision(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Compact(w.ctx, rev); err != nil {
		t.Fatal(err)
	}
	s, err := w.Watch(w.ctx, admin, client.ConfigMaps.At("default", ""), &internalversion.ListOptions{ResourceVersion: accessor(first).GetResourceVersion()})
	if err == nil {
		_, err = s.Next(w.ctx)
	}
	if text := fmt.Sprintf("too old resource version: %s (", accessor(first).GetResourceVersion()); !apierrors.IsResourceExpired(err) || !strings.HasPrefix(err.Error(), text) {
		t.Errorf("a watch from a version that has gone: %v", err)
	}
}
