package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Services are made and deleted by several writers on a range that is too small for them, while the server is killed again and again: no
// address and no port is ever two Services', and when the Services are gone, all can be had again.
func TestServiceAddressesOutliveKills(t *testing.T) {
	s := start(t, "--service-cidr", "10.43.0.0/28", "--service-node-port-range", "30000-30009")
	ctx := within(t, 4*time.Minute)
	cs, err := kubernetes.NewForConfig(s.config())
	if err != nil {
		t.Fatal(err)
	}
	services := cs.CoreV1().Services("default")
	create := func(name string) error {
		_, err := services.Create(ctx, &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"made": "here"}},
			Spec:       v1.ServiceSpec{Type: v1.ServiceTypeNodePort, Ports: []v1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		return err
	}
	running, stop := context.WithCancel(ctx)
	made := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; running.Err() == nil; i++ {
				name := fmt.Sprintf("s%d-%d", w, i%5)
				if create(name) == nil {
					select {
					case made <- struct{}{}:
					default:
					}
				}
				if i%3 == 0 {
					_ = services.Delete(ctx, name, metav1.DeleteOptions{}) // the server may be down
				}
			}
		})
	}
	for range 4 {
		for range 5 {
			select {
			case <-made:
			case <-ctx.Done():
				t.Fatal("no Service can be made")
			}
		}
		s.killed()
	}
	stop()
	wg.Wait()

	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	for _, svc := range list.Items {
		mine := slices.Clone(svc.Spec.ClusterIPs)
		for _, p := range svc.Spec.Ports {
			if p.NodePort != 0 {
				mine = append(mine, fmt.Sprint(p.NodePort))
			}
		}
		for _, what := range mine {
			if other := taken[what]; other != "" {
				t.Errorf("%s is %s's and %s's", what, other, svc.Name)
			}
			taken[what] = svc.Name
		}
	}
	addresses := func() (names []string) {
		list, err := cs.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: networkingv1.LabelManagedBy + "=ipallocator.k8s.io"})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list.Items {
			if owner := taken[a.Name]; owner != a.Spec.ParentRef.Name {
				t.Errorf("%s is said to be %s's, and is %q's", a.Name, a.Spec.ParentRef.Name, owner)
			}
			names = append(names, a.Name)
		}
		return names
	}
	if n := len(addresses()); n != len(list.Items) {
		t.Errorf("%d addresses are taken by %d Services", n, len(list.Items))
	}
	for _, svc := range list.Items {
		if svc.Name != "kubernetes" {
			if err := services.Delete(ctx, svc.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Ten ports and thirteen further addresses: the ports end first, then, without them, the addresses.
	for i := range 10 {
		if err := create(fmt.Sprint("all-", i)); err != nil {
			t.Fatalf("the %dth of 10 ports: %v", i+1, err)
		}
	}
	if err := create("more"); err == nil || !strings.Contains(err.Error(), "failed to allocate a nodePort: range is full") {
		t.Errorf("a port too many: %v", err)
	}
	for i := range 4 {
		_, err := services.Create(ctx, &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ip-", i)}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		if full := i == 3; full != (err != nil) || full && !strings.Contains(err.Error(), "range is full") {
			t.Errorf("address %d: %v", 11+i, err)
		}
	}
}

// An object may be as large as one transaction of etcd. One that is larger is refused in upstream's words, as a creation and as a change,
// and what is there stays and can be read, listed, watched and deleted.
func TestObjectsAtTheStoresLimit(t *testing.T) {
	ctx := within(t, 2*time.Minute)
	config := start(t).config()
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 3 << 19 // etcd's, of one request
	pods := cs.CoreV1().Pods("default")
	pod := func(name string, size int) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
			SchedulingGates: []v1.PodSchedulingGate{{Name: "nobody.else/writes"}},
			Containers:      []v1.Container{{Name: "c", Image: "i", Args: []string{strings.Repeat("x", size)}}},
		}}
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if _, err := pods.Create(ctx, pod("large", limit-10_000), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error, code int32, text string) {
		t.Helper()
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Code != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %d %s", what, err, code, text)
		}
	}
	_, err = pods.Create(ctx, pod("larger", limit+10_000), metav1.CreateOptions{})
	refused("a creation", err, 500, "etcdserver: request is too large")
	_, err = pods.Create(ctx, pod("monstrous", 2*limit+10_000), metav1.CreateOptions{})
	refused("a body", err, 413, "Request entity too large: limit is 3145728")
	_, err = pods.Patch(ctx, "large", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"`+strings.Repeat("y", 50_000)+`"}}}`), metav1.PatchOptions{})
	refused("a patch", err, 500, "etcdserver: request is too large")
	for _, kind := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		c := *config
		c.ContentType = kind
		cs, err := kubernetes.NewForConfig(&c)
		if err != nil {
			t.Fatal(err)
		}
		list, err := cs.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || len(list.Items[0].Spec.Containers[0].Args[0]) != limit-10_000 || list.Items[0].Annotations != nil {
			t.Errorf("listed as %s: %d pods, %v", kind, len(list.Items), err)
		}
	}
	if e := <-w.ResultChan(); e.Object.(*v1.Pod).Name != "large" {
		t.Errorf("watched: %v", e.Type)
	}
	if err := pods.Delete(ctx, "large", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
