package clients

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The client of controller-runtime: every way in which it reads and writes.
func TestRuntimeClient(t *testing.T) {
	ctx := within(t, 2*time.Minute)
	c, err := client.New(start(t).config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", Labels: map[string]string{"app": "x"}}}
	must(c.Create(ctx, cm))
	if err := c.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created twice: %v", err)
	}
	stale := cm.DeepCopy()
	patch := client.MergeFrom(cm.DeepCopy())
	cm.Data = map[string]string{"a": "b"}
	must(c.Patch(ctx, cm, patch))
	locked := client.MergeFromWithOptions(stale.DeepCopy(), client.MergeFromWithOptimisticLock{})
	stale.Data = map[string]string{"a": "c"}
	if err := c.Patch(ctx, stale, locked); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: %v", err)
	}
	strategic := client.StrategicMergeFrom(cm.DeepCopy())
	cm.Data["d"] = "e"
	must(c.Patch(ctx, cm, strategic))
	must(client.NewDryRunClient(c).Delete(ctx, cm.DeepCopy()))

	must(c.Apply(ctx, applycore.ConfigMap("applied", "default").WithData(map[string]string{"a": "1"}), client.FieldOwner("one")))
	err = c.Apply(ctx, applycore.ConfigMap("applied", "default").WithData(map[string]string{"a": "2"}), client.FieldOwner("two"))
	if !apierrors.IsConflict(err) {
		t.Errorf("an apply of what another owns: %v", err)
	}
	must(c.Apply(ctx, applycore.ConfigMap("applied", "default").WithData(map[string]string{"a": "2"}), client.FieldOwner("two"), client.ForceOwnership))

	var list v1.ConfigMapList
	must(c.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": "x"}, client.Limit(1)))
	if len(list.Items) != 1 || list.Items[0].Data["d"] != "e" {
		t.Errorf("listed %+v", list.Items)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("ConfigMap"))
	must(c.Get(ctx, types.NamespacedName{Namespace: "default", Name: "applied"}, u))
	if v, _, _ := unstructured.NestedString(u.Object, "data", "a"); v != "2" {
		t.Errorf("unstructured: %v", u.Object)
	}
	part := &metav1.PartialObjectMetadata{}
	part.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("ConfigMap"))
	must(c.Get(ctx, types.NamespacedName{Namespace: "default", Name: "applied"}, part))

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "p-"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "c", Image: "i"}}, SchedulingGates: []v1.PodSchedulingGate{{Name: "nobody.else/writes"}},
	}}
	must(c.Create(ctx, pod))
	pod.Status.Phase = v1.PodFailed
	must(c.Status().Update(ctx, pod))
	must(c.Get(ctx, client.ObjectKeyFromObject(pod), pod))
	if pod.Status.Phase != v1.PodFailed {
		t.Errorf("status %v", pod.Status.Phase)
	}
	must(c.DeleteAllOf(ctx, &v1.ConfigMap{}, client.InNamespace("default"), client.MatchingLabels{"app": "x"}))
	if err := c.Get(ctx, client.ObjectKeyFromObject(cm), cm); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: %v", err)
	}
}

// A manager with its cache, a leader's lease and a controller that gives every marked ConfigMap a Secret.
func TestRuntimeManager(t *testing.T) {
	log.SetLogger(logr.Discard())
	ctx := within(t, 2*time.Minute)
	server := start(t).config()
	m, err := ctrl.NewManager(server, ctrl.Options{
		Metrics: metrics.Options{BindAddress: "0"}, LeaderElection: true, LeaderElectionID: "clients", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{SkipNameValidation: new(true)}, // so that -count has the same name again
	})
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan string, 10)
	r := &secrets{Client: m.GetClient(), made: made}
	if err := ctrl.NewControllerManagedBy(m).For(&v1.ConfigMap{}).Owns(&v1.Secret{}).Complete(r); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.Start(running) }()
	c, err := client.New(server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "marked", Labels: map[string]string{"secret": "please"}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // made, and made again when somebody takes it away
		select {
		case name := <-made:
			if err := c.Delete(ctx, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatal("nothing was made")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

type secrets struct {
	client.Client
	made chan<- string
}

func (r *secrets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cm v1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &cm); err != nil || cm.Labels["secret"] == "" {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
	what, err := controllerutil.CreateOrUpdate(ctx, r.Client, s, func() error {
		return controllerutil.SetControllerReference(&cm, s, r.Scheme())
	})
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 10 * time.Millisecond}, nil // the cache is behind
	}
	if err == nil && what == controllerutil.OperationResultCreated {
		r.made <- s.Name
	}
	return ctrl.Result{}, err
}
