package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/pager"

	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// expiring is ten objects of which a client reads pages of three, on a server that forgets the revision of the first one meanwhile, and on
// which "m-0" is gone and "m-90" there by then.
type expiring struct {
	t      *testing.T
	w      *world
	store  store.Store
	maps   corev1.ConfigMapInterface
	asked  []metav1.ListOptions
	told   []string // the revision of each answer
	refuse error    // what the client was told instead of its second page
}

func newExpiring(t *testing.T, media string) *expiring {
	s := mem.New(mem.Options{})
	for _, obj := range []runtime.Object{defaultNamespace(), viewtest.Account("default")} {
		viewtest.Put(t, s, obj)
	}
	x := &expiring{t: t, store: s, w: serve(t, viewtest.Start(t, view.Config{Store: s, Retained: 1}), s)}
	x.maps = x.w.client(media).CoreV1().ConfigMaps("default")
	for i := range 10 {
		x.create(fmt.Sprint("m-", i))
	}
	return x
}

func (x *expiring) create(name string) {
	x.t.Helper()
	if _, err := x.maps.Create(x.w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

// page is a pager's way to its pages.
func (x *expiring) page(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	x.asked = append(x.asked, o)
	if len(x.asked) == 2 {
		x.forget()
	}
	l, err := x.maps.List(ctx, o)
	if err != nil {
		x.refuse = err
		return nil, err
	}
	x.told = append(x.told, l.ResourceVersion)
	return l, nil
}

// forget has the store compact what was, and the view keep another revision than that of the client's pages.
func (x *expiring) forget() {
	x.t.Helper()
	if err := x.maps.Delete(x.w.ctx, "m-0", metav1.DeleteOptions{}); err != nil {
		x.t.Fatal(err)
	}
	x.create("m-90")
	if _, err := x.maps.List(x.w.ctx, metav1.ListOptions{Limit: 1}); err != nil {
		x.t.Fatal(err)
	}
	n, err := x.store.Revision(x.w.ctx)
	if err == nil {
		err = x.store.Compact(x.w.ctx, n)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

func namesOf(t *testing.T, list runtime.Object) (names []string) {
	t.Helper()
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		names = append(names, obj.(*v1.ConfigMap).Name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// A list in pages outlives the compaction of its revision: client-go's pager begins anew and has one consistent list, and whoever goes on with
// the token that comes with the refusal has the rest as it is now, the later pages at the revision of the first of these.
func TestPagersOutliveCompaction(t *testing.T) {
	const now = "m-1 m-2 m-3 m-4 m-5 m-6 m-7 m-8 m-9 m-90"
	for _, media := range []string{jsonType, protoType} {
		t.Run(media[len(media)-4:], func(t *testing.T) {
			x := newExpiring(t, media)
			p := pager.New(x.page)
			p.PageSize = 3
			list, paged, err := p.List(x.w.ctx, metav1.ListOptions{})
			if err != nil || !paged {
				t.Fatal(paged, err)
			}
			if got := strings.Join(namesOf(t, list), " "); got != now {
				t.Errorf("the pager has %s", got)
			}
			if len(x.asked) != 3 || x.asked[1].Continue == "" || x.asked[2].Limit != 0 || x.asked[2].Continue != "" {
				t.Errorf("it has asked %+v", x.asked)
			}

			x = newExpiring(t, media)
			p = pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				l, err := x.page(ctx, o)
				if !apierrors.IsResourceExpired(err) {
					return l, err
				}
				o.Continue = err.(apierrors.APIStatus).Status().Continue
				return x.page(ctx, o)
			})
			p.PageSize, p.FullListIfExpired = 3, false
			if list, _, err = p.List(x.w.ctx, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(namesOf(t, list), " "); got != "m-0 "+now {
				t.Errorf("who goes on has %s", got)
			}
			status := x.refuse.(apierrors.APIStatus).Status()
			if status.Code != 410 || status.Reason != metav1.StatusReasonExpired || !strings.HasPrefix(status.Message, "The provided continue parameter is too old to display a consistent list result.") {
				t.Errorf("the refusal: %+v", status)
			}
			if len(x.told) != 4 || x.told[1] == x.told[0] || len(slices.Compact(slices.Clone(x.told[1:]))) != 1 {
				t.Errorf("the revisions of the pages: %v", x.told)
			}
		})
	}
}
