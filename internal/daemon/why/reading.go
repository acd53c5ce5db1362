package why

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
)

func (q *question) get(r schema.GroupResource, namespace, name string) (runtime.Object, error) {
	e, err := q.verbs.Get(q.ctx, q.asker, client.Ref{Resource: r, Namespace: namespace, Name: name}, q.version())
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// version is the resourceVersion to read at. The first read reflects everything that has been acknowledged, and so does the view
// after it. All further reads take what the view has, so that a question waits only once for the store, which may be what is
// slow.
func (q *question) version() string {
	if q.begun {
		return "0"
	}
	q.begun = true
	return ""
}

func (q *question) list(ref client.Ref, o *internalversion.ListOptions) (out []runtime.Object) {
	o.ResourceVersion = q.version()
	list, err := q.verbs.List(q.ctx, q.asker, ref, o)
	if err != nil {
		return nil // what the asker may not see is left out
	}
	for _, e := range list.Items {
		out = append(out, e.Object)
	}
	return out
}

// may says whether the asker may read something, whether it is there or not.
func (q *question) may(verb string, ref client.Ref) error {
	var err error
	if verb == "get" {
		if _, err = q.get(ref.Resource, ref.Namespace, ref.Name); apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	_, err = q.verbs.List(q.ctx, q.asker, ref, &internalversion.ListOptions{Limit: 1})
	return err
}

// Get implements explain.Cluster.
func (q *question) Get(resource, namespace, name string) (runtime.Object, bool) {
	obj, err := q.get(schema.ParseGroupResource(groupOf(resource)), namespace, name)
	switch {
	case err == nil:
		return obj, true
	case apierrors.IsNotFound(err):
		return nil, true
	}
	return nil, false
}

// List implements explain.Cluster. Many objects of one question may ask the same.
func (q *question) List(resource, namespace string) []runtime.Object {
	ref := client.Ref{Resource: schema.ParseGroupResource(groupOf(resource)), Namespace: namespace}
	out, ok := q.lists[ref]
	if !ok {
		out = q.list(ref, &internalversion.ListOptions{})
		if q.lists == nil {
			q.lists = map[client.Ref][]runtime.Object{}
		}
		q.lists[ref] = out
	}
	return out
}

// groupOf is a resource with its group, "storageclasses.storage.k8s.io".
func groupOf(resource string) string {
	if strings.Contains(resource, ".") {
		return resource
	}
	for _, k := range registry.All() {
		if k.Resource == resource {
			gr := resourceOf(k)
			return gr.String()
		}
	}
	return resource
}

// records are the timeline's. For an asker who may not see all pods, the names of others are removed from them.
func (q *question) records(of timeline.Query) []timeline.Record {
	records := q.timeline.Records(of)
	if q.wide == nil {
		wide := q.may("list", client.Ref{Resource: schema.GroupResource(client.Pods)}) == nil
		q.wide = &wide
	}
	if *q.wide {
		return records
	}
	for i, r := range records {
		if r.Stage != timeline.Attempt {
			continue
		}
		var told []timeline.Field
		for _, f := range r.Fields {
			if f.Key != "victims" {
				f.Value, _, _ = strings.Cut(f.Value, " (")
				told = append(told, f)
			}
		}
		records[i].Fields = told
	}
	return records
}

// reader says whether the asker may read timelines in full. The audit log does not record this check, since nobody requested it.
func (q *question) reader() bool {
	ok, _ := q.verbs.Authorizer().Authorize(q.ctx, &authz.Attributes{User: q.asker, Verb: "get", Path: recorder.PathPrefix})
	return ok
}
