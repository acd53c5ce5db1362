package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// whyPrefix is where `podo why` asks: /podo/why/namespaces/NS/RESOURCE/NAME, where RESOURCE is any name that kubectl takes.
const whyPrefix = "/podo/why/"

// whyHandler answers with a diagnosis of a pod, or of what has pods made: objects, timelines and nodes as they are now, explained.
// Whoever mounts it authorizes.
func (s *server) whyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, whyPrefix), "/")
		if len(parts) != 4 || parts[0] != "namespaces" {
			http.Error(w, "the path is "+whyPrefix+"namespaces/NAMESPACE/RESOURCE/NAME", http.StatusNotFound)
			return
		}
		k := explained(parts[2])
		if k == nil {
			http.Error(w, fmt.Sprintf("%q cannot be explained: name a pod, or what has pods made, such as deployment/NAME", parts[2]), http.StatusNotFound)
			return
		}
		snapshot, err := s.control.view.Fresh(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		q := why{server: s, snapshot: snapshot, request: r, now: time.Now()}
		namespace, name := parts[1], parts[3]
		e := snapshot.Get(resourceOf(k), namespace, name)
		switch {
		case k.Resource == "pods" && k.GVK.Group == "":
			q.pod(w, e, namespace, name)
		case e == nil:
			http.Error(w, fmt.Sprintf("%s %q not found", resourceOf(k), name), http.StatusNotFound)
		default:
			fmt.Fprintln(w, q.owner(e).Text())
		}
	})
}

// explained is the kind that a user calls so, where there is something to be told of it: the resource, its kind in lower case, or a
// short name.
func explained(name string) *registry.Kind {
	for _, k := range registry.All() {
		if name != k.Resource && name != k.Singular && !slices.Contains(k.ShortNames, name) {
			continue
		}
		if k.Resource == "pods" && k.GVK.Group == "" || explain.Owns(k.New()) {
			return k
		}
	}
	return nil
}

func resourceOf(k *registry.Kind) schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// why is one question.
type why struct {
	server   *server
	snapshot view.Snapshot
	request  *http.Request
	now      time.Time

	nodes []*v1.Node // read once
}

// pod answers for a pod, and for one that was.
func (q *why) pod(w http.ResponseWriter, e *view.Entry, namespace, name string) {
	if e != nil {
		f := q.facts(e.Object.(*v1.Pod))
		fmt.Fprintln(w, explain.Diagnose(f.Pod, f.Records, f.Nodes, f.Now))
		return
	}
	records := q.server.timeline.Records(timeline.Query{Namespace: namespace, Name: name})
	if len(records) == 0 {
		http.Error(w, fmt.Sprintf("pods %q not found", name), http.StatusNotFound)
		return
	}
	last := records[len(records)-1]
	fmt.Fprintf(w, "Pod %s/%s does not exist any more: %s %s at %s. Its story: podo timeline -n %s pod/%s\n",
		namespace, name, last.Stage, last.Cause, last.At.Format(time.RFC3339), namespace, name)
}

func (q *why) facts(pod *v1.Pod) explain.Facts {
	if q.nodes == nil {
		q.nodes = []*v1.Node{}
		for e := range q.snapshot.All(schema.GroupResource(client.Nodes), "", view.Key{}) {
			q.nodes = append(q.nodes, e.Object.(*v1.Node))
		}
	}
	records := q.server.timeline.Records(timeline.Query{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	return explain.Facts{Pod: pod, Records: records, Nodes: q.nodes, Now: q.now}
}

// owner gathers an object, what it controls, and what those control.
func (q *why) owner(e *view.Entry) explain.Owner {
	out := explain.Owner{Object: e.Object, Warnings: q.warnings(e), Now: q.now}
	uid := string(e.Meta.GetUID())
	for _, k := range registry.All() {
		if k.Indexes[registry.ControllerIndex] == nil || !explain.Owns(k.New()) {
			continue
		}
		for child := range q.snapshot.By(resourceOf(k), registry.ControllerIndex, uid) {
			out.Children = append(out.Children, q.owner(child))
		}
	}
	for e := range q.snapshot.By(schema.GroupResource(client.Pods), registry.ControllerIndex, uid) {
		out.Pods = append(out.Pods, q.facts(e.Object.(*v1.Pod)))
	}
	return out
}

// warnings are an object's events, as far as the asker may list them.
func (q *why) warnings(e *view.Entry) (out []*v1.Event) {
	asker, ok := request.UserFrom(q.request.Context())
	if !ok {
		return nil
	}
	list, err := q.server.control.verbs.List(q.request.Context(), asker, client.Events.At(e.Key.Namespace, ""), &internalversion.ListOptions{
		FieldSelector: fields.SelectorFromSet(fields.Set{"involvedObject.uid": string(e.Meta.GetUID()), "type": v1.EventTypeWarning}),
	})
	if err != nil {
		return nil
	}
	for _, item := range list.Items {
		out = append(out, item.Object.(*v1.Event))
	}
	return out
}
