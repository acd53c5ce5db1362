package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// whyPrefix is where `podo why` asks: /podo/why/namespaces/NS/pods/NAME.
const whyPrefix = "/podo/why/"

// whyHandler answers with a diagnosis: the pod, its timeline and the nodes as they are now, explained. Whoever mounts it authorizes.
func (s *server) whyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, whyPrefix), "/")
		if len(parts) != 4 || parts[0] != "namespaces" || parts[2] != "pods" {
			http.Error(w, "the path is "+whyPrefix+"namespaces/NAMESPACE/pods/NAME", http.StatusNotFound)
			return
		}
		namespace, name := parts[1], parts[3]
		snapshot, err := s.control.view.Fresh(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		query := timeline.Query{Namespace: namespace, Name: name}
		pod, found := podOf(snapshot, namespace, name)
		if found {
			query.UID = string(pod.UID)
		}
		records := s.timeline.Records(query)
		if !found {
			if len(records) == 0 {
				http.Error(w, fmt.Sprintf("pods %q not found", name), http.StatusNotFound)
				return
			}
			last := records[len(records)-1]
			fmt.Fprintf(w, "Pod %s/%s does not exist any more: %s %s at %s. Its story: podo timeline -n %s pod/%s\n",
				namespace, name, last.Stage, last.Cause, last.At.Format(time.RFC3339), namespace, name)
			return
		}
		var nodes []*v1.Node
		for e := range snapshot.All(client.Nodes.At("", "").Resource, "", view.Key{}) {
			if node, ok := e.Object.(*v1.Node); ok {
				nodes = append(nodes, node)
			}
		}
		fmt.Fprintln(w, explain.Diagnose(pod, records, nodes, time.Now()))
	})
}

func podOf(snapshot view.Snapshot, namespace, name string) (*v1.Pod, bool) {
	e := snapshot.Get(client.Pods.At(namespace, name).Resource, namespace, name)
	if e == nil {
		return nil, false
	}
	pod, ok := e.Object.(*v1.Pod)
	return pod, ok
}
