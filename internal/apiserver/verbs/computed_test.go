package verbs

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podo.dev/podo/internal/client"
)

// figures are computed for whatever is asked for: more than that, and in no order.
type figures struct{ err error }

func (f figures) Get(_ context.Context, namespace, name string) (runtime.Object, error) {
	if f.err != nil || name == "absent" {
		return nil, f.err
	}
	return figure(namespace, name), nil
}

func (f figures) List(context.Context, string, labels.Selector) ([]runtime.Object, error) {
	return []runtime.Object{figure("other", "a"), figure("default-2", "a"), figure("default", "b"), figure("default", "a")}, f.err
}

func figure(namespace, name string) runtime.Object {
	return &v1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}}
}

// What is computed is read as any kind is: by name, in order, by namespace, labels and fields; its own errors are told as they are.
func TestComputed(t *testing.T) {
	w := newWorld(t)
	pods := v1beta1.Resource("pods")
	ref := client.Ref{Resource: pods, Namespace: "default", Name: "a"}
	w.c.Computed = map[schema.GroupResource]Computer{pods: figures{}}
	e, err := w.Get(w.ctx, admin, ref, "")
	if err != nil || e.Object.GetObjectKind().GroupVersionKind() != v1beta1.SchemeGroupVersion.WithKind("PodMetrics") || e.Key.Name != "a" {
		t.Errorf("%+v, %v", e, err)
	}
	ref.Name = "absent"
	if _, err := w.Get(w.ctx, admin, ref, ""); !apierrors.IsNotFound(err) || err.Error() != `pods.metrics.k8s.io "absent" not found` {
		t.Error(err)
	}
	for _, c := range []struct {
		namespace string
		o         internalversion.ListOptions
		want      []string
	}{
		{"", internalversion.ListOptions{}, []string{"default/a", "default/b", "default-2/a", "other/a"}},
		{"default", internalversion.ListOptions{}, []string{"default/a", "default/b"}},
		{"", internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "a"})}, []string{"default/a", "default-2/a", "other/a"}},
		{"", internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.namespace", "other")}, []string{"other/a"}},
		{"nowhere", internalversion.ListOptions{}, nil},
	} {
		l, err := w.List(w.ctx, admin, client.Ref{Resource: pods, Namespace: c.namespace}, &c.o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range l.Items {
			got = append(got, e.Key.Namespace+"/"+e.Key.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	_, err = w.List(w.ctx, admin, client.Ref{Resource: pods}, &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.x", "y")})
	if !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
	broken := errors.New("broken")
	w.c.Computed[pods] = figures{broken}
	if _, err := w.List(w.ctx, admin, client.Ref{Resource: pods}, &internalversion.ListOptions{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := w.Get(w.ctx, admin, ref, ""); !errors.Is(err, broken) {
		t.Error(err)
	}
	w.c.Computed = nil
	if l, err := w.List(w.ctx, admin, client.Ref{Resource: pods}, &internalversion.ListOptions{}); err != nil || len(l.Items) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}
