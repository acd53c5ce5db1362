// Package why answers `podo why`: it gathers what package explain needs, objects and timelines as they are now, and reads all of
// it as the user who asks.
package why

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
)

// Prefix is where `podo why` asks: /podo/why/[namespaces/NAMESPACE/]RESOURCE[/NAME], where RESOURCE is any name that kubectl takes; "all" are
// the pods, and what is in trouble for another reason than that they are.
// Parameters: labelSelector; since, with which pods that went in that time are told of too; format=json.
const Prefix = "/podo/why/"

// Handler answers below Prefix with diagnoses of what the asker may read: objects, timelines and nodes as they are now, explained. Everybody
// may come here; each object is read as the one who asks.
func Handler(objects *verbs.Verbs, records *recorder.Recorder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asker, ok := request.UserFrom(r.Context())
		if !ok {
			http.Error(w, "who asks is not known", http.StatusUnauthorized)
			return
		}
		q := &question{verbs: objects, timeline: records, ctx: r.Context(), asker: asker, now: time.Now()}
		reports, err := q.answer(strings.TrimPrefix(r.URL.Path, Prefix), r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), status(err))
			return
		}
		if r.URL.Query().Get("format") == "json" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"reports": reports})
			return
		}
		for _, report := range reports {
			fmt.Fprintln(w, report.Text(q.now))
		}
	})
}

func status(err error) int {
	if s, ok := err.(apierrors.APIStatus); ok && s.Status().Code != 0 {
		return int(s.Status().Code)
	}
	return http.StatusBadRequest
}

func notFound(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}}
}

// answer explains what a path names.
func (q *question) answer(path string, params map[string][]string) ([]explain.Report, error) {
	get := func(name string) string { return strings.Join(params[name], "") }
	parts := strings.Split(path, "/")
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 2 || slices.Contains(parts, "") { // an empty name does not stand for all
		return nil, notFound("%s is no question: ask %s[namespaces/NAMESPACE/]RESOURCE[/NAME]", path, Prefix)
	}
	everything := len(parts) == 1 && parts[0] == "all"
	if everything {
		parts[0] = "pods"
	}
	k := explained(parts[0])
	if k == nil && len(parts) == 2 {
		k = called(parts[0], func(k *registry.Kind) bool { return !k.Unstored && k.Served == nil })
	}
	switch {
	case k == nil && len(parts) == 1:
		return q.one(explained("pods"), namespace, parts[0]) // no kind: a pod's name
	case k == nil:
		return nil, notFound("%q cannot be explained: name a pod, or what has pods made, such as deployment/NAME, or a node, service, ingress, pvc, pv, quota, hpa, pdb, csr or namespace", parts[0])
	}
	if !k.Namespaced {
		namespace = ""
	}
	if len(parts) == 2 {
		return q.one(k, namespace, parts[1])
	}
	selector, err := labels.Parse(get("labelSelector"))
	if err != nil {
		return nil, err
	}
	var since time.Duration
	if text := get("since"); text != "" {
		if since, err = time.ParseDuration(text); err != nil {
			return nil, fmt.Errorf("since=%s: use a duration such as 10m", text)
		}
	}
	out, err := q.many(k, namespace, selector, since)
	if err == nil && everything {
		owners := q.makers(namespace, selector)
		if namespace == "" {
			owners = append(owners, q.machines(selector)...)
		}
		out = append(out, explain.Troubles(owners)...)
	}
	return out, err
}

// explained is the kind that a user means by a name, where podo why can say something about it.
func explained(name string) *registry.Kind {
	return called(name, func(k *registry.Kind) bool { return isPods(k) || explain.Owns(k.New()) })
}

// called is the first accepted kind that a user means by a name: its resource, its kind in lower case or a short name, with or
// without group.
func called(name string, will func(*registry.Kind) bool) *registry.Kind {
	name, group, grouped := strings.Cut(strings.ToLower(name), ".")
	for _, k := range registry.All() {
		if name != k.Resource && name != k.Singular && !slices.Contains(k.ShortNames, name) || grouped && group != k.GVK.Group {
			continue
		}
		if will(k) {
			return k
		}
	}
	return nil
}

func isPods(k *registry.Kind) bool { return k.Resource == "pods" && k.GVK.Group == "" }

func resourceOf(k *registry.Kind) schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// one explains an object, or one that was, or that should be.
func (q *question) one(k *registry.Kind, namespace, name string) ([]explain.Report, error) {
	obj, err := q.get(resourceOf(k), namespace, name)
	switch {
	case err == nil && isPods(k):
		return []explain.Report{explain.Pod(q.facts(obj.(*v1.Pod)))}, nil
	case err == nil:
		return []explain.Report{explain.Of(q.owner(obj))}, nil
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	if isPods(k) {
		if records := q.records(timeline.Query{Namespace: namespace, Name: name}); len(records) > 0 {
			return []explain.Report{explain.Gone(explain.Past{
				Records: records, Others: q.records(timeline.Query{Stages: []timeline.Stage{timeline.Attempt}}), Reader: q.reader(), Now: q.now,
			})}, nil
		}
	}
	if made := q.nearby(k, namespace, name); len(made) > 0 {
		return made, nil
	}
	if isPods(k) {
		err = notFound("pod %q not found in namespace %s, and none is remembered: it was never created there, or refused when it was to be. `podo why pods -n %s` tells of those that there are",
			name, namespace, namespace)
	}
	return nil, err
}

// many explains the objects of a kind that a selector takes; those with trouble come first.
func (q *question) many(k *registry.Kind, namespace string, selector labels.Selector, since time.Duration) ([]explain.Report, error) {
	list, err := q.verbs.List(q.ctx, q.asker, client.Ref{Resource: resourceOf(k), Namespace: namespace}, &internalversion.ListOptions{LabelSelector: selector, ResourceVersion: q.version()})
	if err != nil {
		return nil, err
	}
	var out []explain.Report
	if isPods(k) {
		var pods []explain.Facts
		there := map[string]bool{}
		for _, e := range list.Items {
			pod := e.Object.(*v1.Pod)
			there[string(pod.UID)] = true
			pods = append(pods, q.facts(pod))
		}
		out = explain.Pods(pods)
		if since > 0 && selector.Empty() { // records know no labels
			out = append(out, q.gone(namespace, since, there)...)
		}
		return out, nil
	}
	for _, e := range list.Items {
		out = append(out, explain.Of(q.owner(e.Object)))
	}
	slices.SortStableFunc(out, explain.SickFirst)
	return out, nil
}

// gone are the pods that were deleted lately.
func (q *question) gone(namespace string, since time.Duration, there map[string]bool) (out []explain.Report) {
	attempts, reader := q.records(timeline.Query{Stages: []timeline.Stage{timeline.Attempt}}), q.reader()
	for _, g := range timeline.Group(q.records(timeline.Query{Namespace: namespace})) {
		last, deleted := timeline.Last(g.Records, timeline.Deleted)
		if deleted && !there[g.Pod.UID] && q.now.Sub(last.At) <= since {
			out = append(out, explain.Gone(explain.Past{Records: g.Records, Others: attempts, Reader: reader, Now: q.now}))
		}
	}
	return out
}
