package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/daemonset"
	"podo.dev/podo/internal/controllers/job"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/statefulset"
	"podo.dev/podo/internal/view"
)

// keeper is a client to whom some deletions are refused, as by a webhook.
type keeper struct {
	client.Client
	keeps func(client.Ref) bool
}

func (k keeper) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	if k.keeps(ref) {
		return errors.New("admission webhook \"keep\" denied the request")
	}
	return k.Client.Delete(ctx, ref, o)
}

// A pod that cannot be removed keeps no other from it.
func TestOnePodThatStaysHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(podgc.New(w.view, keeper{w.controllers, func(r client.Ref) bool { return r.Name == "pod-0" || r.Name == "pod-3" }}, nil))
		for i := range 4 {
			w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), pod(fmt.Sprint("pod-", i), "never-was")))
		}
		time.Sleep(time.Minute)
		left := ""
		for i := range 4 {
			if name := fmt.Sprint("pod-", i); w.get(client.Pods.At("default", name)) != nil {
				left += name + " "
			}
		}
		if left != "pod-0 pod-3 " {
			t.Errorf("left: %s", left)
		}
	})
}

// A number of a StatefulSet that somebody else has keeps no other from being made where the order does not matter.
func TestANumberThatIsTakenHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(statefulset.New(statefulset.Config{View: w.view, Client: w.controllers, Events: record.NewFakeRecorder(1000)}))
		w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), pod("web-0", "node-a")))
		w.must(w.admin.Create(context.Background(), statefulSets.At("default", ""), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(4)), Selector: webSelector, Template: webTemplate("v1"), PodManagementPolicy: appsv1.ParallelPodManagement,
			},
		}))
		time.Sleep(time.Second)
		if got := w.images(); got != "web-1=v1 web-2=v1 web-3=v1" {
			t.Errorf("%s", got)
		}
	})
}

// refuser is a client to whom all creations of pods are refused, as for a priority class that is not there.
type refuser struct{ client.Client }

func (r refuser) Create(ctx context.Context, ref client.Ref, o runtime.Object) (runtime.Object, error) {
	if ref.Resource == client.Pods.At("", "").Resource {
		return nil, errors.New("no PriorityClass with name missing was found")
	}
	return r.Client.Create(ctx, ref, o)
}

// Templates that are tried one after the other, all in vain, are kept no longer than others.
func TestTemplatesThatAreTriedInVainAreForgotten(t *testing.T) {
	for _, r := range []client.Resource{statefulSets, daemonSets} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.everyNamespace()
			w.node("node-a")
			w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", "node-a"), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Spec.Taints = nil
				return true, nil
			}))
			parts := statefulset.Config{View: w.view, Client: refuser{w.controllers}, Events: record.NewFakeRecorder(10_000)}
			m := metav1.ObjectMeta{Namespace: "default", Name: "web"}
			var set runtime.Object
			if r == statefulSets {
				w.run(statefulset.New(parts))
				set = &appsv1.StatefulSet{ObjectMeta: m, Spec: appsv1.StatefulSetSpec{Selector: webSelector, Template: webTemplate("v"), RevisionHistoryLimit: new(int32(2))}}
			} else {
				w.run(daemonset.New(parts))
				set = &appsv1.DaemonSet{ObjectMeta: m, Spec: appsv1.DaemonSetSpec{Selector: webSelector, Template: webTemplate("v"), RevisionHistoryLimit: new(int32(2))}}
			}
			w.must(w.admin.Create(context.Background(), r.At("default", ""), set))
			for i := range 12 {
				time.Sleep(time.Second)
				w.must(w.admin.Mutate(context.Background(), r.At("default", "web"), func(o runtime.Object) (bool, error) {
					switch o := o.(type) {
					case *appsv1.StatefulSet:
						o.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("v", i)
					case *appsv1.DaemonSet:
						o.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("v", i)
					}
					return true, nil
				}))
			}
			time.Sleep(time.Minute)
			if n := w.count(revisions); n < 1 || n > 4 { // two, the newest, and the one before the rollout
				t.Errorf("%s: %d revisions are kept", r.At("", "").Resource, n)
			}
		})
	}
}

// meanwhile is a client before whose deletions something happens.
type meanwhile struct {
	client.Client
	happens func(client.Ref)
}

func (m meanwhile) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	m.happens(ref)
	return m.Client.Delete(ctx, ref, o)
}

// A pod that is taken from its owner just as it is chosen to be deleted stays; one that has only said something goes.
func TestAPodThatIsTakenAwayStays(t *testing.T) {
	for _, taken := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.everyNamespace()
			var changed atomic.Value
			c := meanwhile{w.controllers, func(r client.Ref) {
				if !changed.CompareAndSwap(nil, r.Name) {
					return
				}
				_, err := w.admin.Mutate(context.Background(), r, func(o runtime.Object) (bool, error) {
					p := o.(*v1.Pod)
					p.Annotations = map[string]string{"a": "b"}
					if taken {
						p.OwnerReferences, p.Labels = nil, nil
					}
					return true, nil
				})
				if err != nil {
					t.Error(err)
				}
			}}
			told := record.NewFakeRecorder(1000)
			w.run(replicas.New(replicas.Config{Kind: replicas.ReplicaSets, View: w.view, Client: c, Events: told}))
			sets := replicas.ReplicaSets.Resource
			w.must(w.admin.Create(context.Background(), sets.At("default", ""), &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: webSelector, Template: webTemplate("v1")},
			}))
			time.Sleep(time.Second)
			w.must(w.admin.Mutate(context.Background(), sets.At("default", "web"), func(o runtime.Object) (bool, error) {
				o.(*appsv1.ReplicaSet).Spec.Replicas = new(int32(1))
				return true, nil
			}))
			time.Sleep(5 * time.Second)
			name, _ := changed.Load().(string)
			if there := w.get(client.Pods.At("default", name)) != nil; name == "" || there != taken {
				t.Errorf("taken away: %v, and %q is there: %v", taken, name, there)
			}
			if n := len(w.podsOf("web")); n != 1 {
				t.Errorf("%d pods", n)
			}
			deletions := 0
			for len(told.Events) > 0 {
				if strings.Contains(<-told.Events, "SuccessfulDelete") {
					deletions++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[taken]; deletions != want {
				t.Errorf("taken away: %v, and %d deletions are told", taken, deletions)
			}
		})
	}
}

// A Job's pod that is taken from it just as it is chosen to be deleted stays too, although the Job takes its finalizer first.
func TestAJobsPodThatIsTakenAwayStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var taken atomic.Value
		told := record.NewFakeRecorder(1000)
		w.controllers = unfinal{w.controllers, func(r client.Ref) {
			if !taken.CompareAndSwap(nil, r.Name) {
				return
			}
			_, err := w.admin.Mutate(context.Background(), r, func(o runtime.Object) (bool, error) {
				p := o.(*v1.Pod)
				p.OwnerReferences, p.Labels = nil, nil
				return true, nil
			})
			if err != nil {
				t.Error(err)
			}
		}}
		w.batch(told)
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("j", nil)))
		time.Sleep(time.Second)
		w.must(w.admin.Mutate(context.Background(), job.Jobs.At("default", "j"), func(o runtime.Object) (bool, error) {
			o.(*batchv1.Job).Spec.Suspend = new(true)
			return true, nil
		}))
		time.Sleep(5 * time.Second)
		name, _ := taken.Load().(string)
		if name == "" || w.get(client.Pods.At("default", name)) == nil {
			t.Errorf("%q is not there", name)
		}
		for len(told.Events) > 0 {
			if e := <-told.Events; strings.Contains(e, "SuccessfulDelete") {
				t.Error("told: ", e)
			}
		}
	})
}

// unfinal is a client before whose changes of pods something happens.
type unfinal struct {
	client.Client
	happens func(client.Ref)
}

func (u unfinal) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	if ref.Resource.Resource == "pods" && ref.Subresource == "" {
		u.happens(ref)
	}
	return u.Client.Mutate(ctx, ref, change)
}

// A Job of the history that cannot be deleted keeps the next one from nothing.
func TestHistoryThatStaysHoldsNoStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.controllers = keeper{w.controllers, func(r client.Ref) bool { return r.Resource.Resource == "jobs" }}
		w.batch(record.NewFakeRecorder(1000))
		c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		c.Spec = batchv1.CronJobSpec{Schedule: "*/10 * * * *", SuccessfulJobsHistoryLimit: new(int32(0)), JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("", nil).Spec}}
		w.must(w.admin.Create(context.Background(), client.Resource{Group: "batch", Resource: "cronjobs"}.At("default", ""), c))
		time.Sleep(time.Second)
		for i := range 4 {
			time.Sleep(10 * time.Minute)
			if n := len(w.runs()); n != 1 {
				t.Fatalf("%d run after start %d", n, i+1)
			}
			w.ends(w.runs()[0], v1.PodSucceeded)
		}
		if n := len(w.work()); n != 4 {
			t.Errorf("%d pods", n)
		}
	})
}

// narrow is a client that may have so many Jobs, as by a quota.
type narrow struct {
	client.Client
	full func() bool
}

func (n narrow) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	if ref.Resource.Resource == "jobs" && n.full() {
		return nil, errors.New("exceeded quota")
	}
	return n.Client.Create(ctx, ref, obj)
}

// A start that a quota refuses does not keep the history, which uses the quota up, from being cut short.
func TestAStartThatIsRefusedHoldsNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.controllers = narrow{w.controllers, func() bool {
			n := 0
			for range w.view.Snapshot().All(job.Jobs.At("", "").Resource, "default", view.Key{}) {
				n++
			}
			return n >= 3
		}}
		w.batch(record.NewFakeRecorder(1000))
		cronJobs := client.Resource{Group: "batch", Resource: "cronjobs"}
		c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		c.Spec = batchv1.CronJobSpec{Schedule: "*/10 * * * *", SuccessfulJobsHistoryLimit: new(int32(3)), JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("", nil).Spec}}
		w.must(w.admin.Create(context.Background(), cronJobs.At("default", ""), c))
		time.Sleep(time.Second)
		for range 3 {
			time.Sleep(10 * time.Minute)
			w.ends(w.runs()[0], v1.PodSucceeded)
		}
		time.Sleep(10 * time.Minute)
		if n := len(w.runs()); n != 0 {
			t.Fatalf("%d run beyond the quota", n)
		}
		w.must(w.admin.Mutate(context.Background(), cronJobs.At("default", "c"), func(o runtime.Object) (bool, error) {
			o.(*batchv1.CronJob).Spec.SuccessfulJobsHistoryLimit = new(int32(1))
			return true, nil
		}))
		time.Sleep(2 * time.Minute)
		if n := len(w.runs()); n != 1 {
			t.Errorf("%d run after the history was cut short", n)
		}
	})
}
