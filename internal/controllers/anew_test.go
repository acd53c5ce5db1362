//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package controllers_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/clusterroles"
	"podo.dev/podo/internal/controllers/endpoints"
	"podo.dev/podo/internal/controllers/job"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/pvcprotection"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/volumebinder"
	"podo.dev/podo/internal/registry"
)

// interrupted is a client before whose first write of a kind something happens, once: what is written was planned for what was there before.
type interrupted struct {
	client.Client
	first   func(client.Ref) bool // which write that is
	happens func()
	wrote   func(runtime.Object) // told of each Mutate; may be nil
}

func (i *interrupted) meet(ref client.Ref) {
	if happens := i.happens; happens != nil && i.first(ref) {
		i.happens = nil
		happens()
	}
}

func (i *interrupted) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	out, err := i.Client.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
		i.meet(ref)
		return change(o)
	})
	if err == nil && i.wrote != nil {
		i.wrote(out)
	}
	return out, err
}

func (i *interrupted) Apply(ctx context.Context, ref client.Ref, config []byte, manager string) (runtime.Object, error) {
	i.meet(ref)
	return i.Client.Apply(ctx, ref, config, manager)
}

func (i *interrupted) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	i.meet(ref)
	return i.Client.Delete(ctx, ref, o)
}

func statusOf(r client.Resource) func(client.Ref) bool {
	return func(ref client.Ref) bool { return ref.Resource == r.At("", "").Resource && ref.Subresource == "status" }
}

// A status that says which generation it is of tells what was done for that one: not when the object was changed meanwhile, nor when
// another one has its name.
func TestAStatusIsOfTheGenerationThatItSays(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"scaled": func(w *world) {
			w.must(w.admin.Mutate(context.Background(), replicaSets.At("default", "rs"), func(o runtime.Object) (bool, error) {
				o.(*appsv1.ReplicaSet).Spec.Replicas = new(int32(5))
				return true, nil
			}))
			w.scale("rc", 5)
		},
		"made anew": func(w *world) {
			for _, ref := range []client.Ref{replicaSets.At("default", "rs"), controllers.At("default", "rc")} {
				if err := w.admin.Delete(context.Background(), ref, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
					t.Error(err)
				}
			}
			w.replicaSet("rs", "rs", 5)
			w.replicationController("rc", "rc", 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []replicas.Kind{replicas.ReplicaSets, replicas.ReplicationControllers} {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.everyNamespace()
					w.replicaSet("rs", "rs", 3)
					w.replicationController("rc", "rc", 3)
					told := 0
					c := &interrupted{Client: w.controllers, first: statusOf(kind.Resource), happens: func() { happens(w) }}
					c.wrote = func(o runtime.Object) {
						var generation, observed int64
						var wanted, says int32
						switch o := o.(type) {
						case *appsv1.ReplicaSet:
							generation, observed, wanted, says = o.Generation, o.Status.ObservedGeneration, *o.Spec.Replicas, o.Status.Replicas
						case *v1.ReplicationController:
							generation, observed, wanted, says = o.Generation, o.Status.ObservedGeneration, *o.Spec.Replicas, o.Status.Replicas
						default:
							return
						}
						if observed != generation {
							return
						}
						told++
						s, err := w.view.WaitFor(context.Background(), loop.Revision(o))
						if err != nil {
							t.Error(err)
						}
						m := o.(metav1.Object)
						made := int32(0)
						for range s.By(client.Pods.At("", "").Resource, registry.ControllerIndex, string(m.GetUID())) {
							made++
						}
						if made != wanted || says > made {
							t.Errorf("it says that it has seen to %d pods, of which there are %d, and that there were %d", wanted, made, says)
						}
					}
					w.run(replicas.New(replicas.Config{Kind: kind, View: w.view, Client: c, Events: &record.FakeRecorder{}}))
					time.Sleep(time.Minute)
					synctest.Wait()
					if told == 0 || c.happens != nil {
						t.Error("nothing was told")
					}
				})
			}
		})
	}
}

// A Job counts the pods that there are, also while others of its pods are refused.
func TestAJobUnderAQuotaCountsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.quotas()
		w.run(job.New(job.Config{View: w.view, Client: w.controllers, Events: &record.FakeRecorder{}}))
		w.must(w.admin.Create(context.Background(), resourceQuotas.At("default", ""), quota("q", amounts("pods", "5"))))
		time.Sleep(time.Second) // a quota that is not counted yet holds nobody
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("j", func(s *batchv1.JobSpec) {
			s.Completions, s.Parallelism = new(int32(9)), new(int32(9))
		})))
		time.Sleep(time.Minute)
		if got := w.jobStatus("j"); got != "5 active, 0 succeeded, 0 failed" {
			t.Error(got)
		}
		w.turnReady(w.runs()[0])
		w.ends(w.runs()[0], v1.PodSucceeded)
		time.Sleep(2 * time.Minute)
		if got := w.jobStatus("j"); got != "5 active, 1 succeeded, 0 failed" || *w.get(job.Jobs.At("default", "j")).(*batchv1.Job).Status.Ready != 1 {
			t.Error(got)
		}
	})
}

// A role that gathers no more, or another one of its name, keeps its own rules.
func TestARoleThatGathersNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t), context.Background()
		roles := client.Resource{Group: rbacv1.GroupName, Resource: "clusterroles"}
		rule := func(verb string) []rbacv1.PolicyRule {
			return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
		}
		given := map[string]string{"to": "all"}
		put := func(name string, r rbacv1.ClusterRole) {
			r.Name = name
			w.must(w.admin.Create(ctx, roles.At("", ""), &r))
		}
		gathers := &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: given}}}
		put("all", rbacv1.ClusterRole{AggregationRule: gathers})
		put("given", rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Labels: given}, Rules: rule("*")})
		w.run(clusterroles.New(w.view, &interrupted{
			Client: w.controllers, first: func(r client.Ref) bool { return r.Name == "all" }, happens: func() {
				w.delete(roles.At("", "all"))
				put("all", rbacv1.ClusterRole{Rules: rule("get")})
			},
		}, nil))
		if got := w.get(roles.At("", "all")).(*rbacv1.ClusterRole).Rules; len(got) != 1 || got[0].Verbs[0] != "get" {
			t.Errorf("%+v", got)
		}
	})
}

// The rules that a role gathers belong to its controller, which applies them: tools see who wrote them.
func TestGatheredRulesAreApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t), context.Background()
		roles := client.Resource{Group: rbacv1.GroupName, Resource: "clusterroles"}
		given := map[string]string{"to": "all"}
		mine := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
		for _, r := range []*rbacv1.ClusterRole{
			{
				ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: mine,
				AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: given}}},
			},
			{ObjectMeta: metav1.ObjectMeta{Name: "given", Labels: given}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		} {
			w.must(w.admin.Create(ctx, roles.At("", ""), r))
		}
		w.run(clusterroles.New(w.view, w.controllers, nil))
		role := w.get(roles.At("", "all")).(*rbacv1.ClusterRole)
		if len(role.Rules) != 1 || role.Rules[0].Verbs[0] != "list" {
			t.Errorf("gathered are %+v", role.Rules)
		}
		if !slices.ContainsFunc(role.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == "clusterrole-aggregation-controller" && m.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(string(m.FieldsV1.Raw), "f:rules")
		}) {
			t.Errorf("the rules belong to %+v", role.ManagedFields)
		}
		w.delete(roles.At("", "given"))
		synctest.Wait()
		time.Sleep(time.Minute)
		if role := w.get(roles.At("", "all")).(*rbacv1.ClusterRole); len(role.Rules) != 0 {
			t.Errorf("nothing is left to gather, and there is %+v", role.Rules)
		}
	})
}

// Endpoints that somebody writes for a Service of his stay, when a Service of that name has just gone.
func TestEndpointsWrittenAnewStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t), context.Background()
		w.everyNamespace()
		ref, services := client.Resource{Resource: "endpoints"}.At("default", "db"), client.Resource{Resource: "services"}
		put := func(ip string) {
			w.must(w.admin.Create(ctx, ref, &v1.Endpoints{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Subsets: []v1.EndpointSubset{{Addresses: []v1.EndpointAddress{{IP: ip}}}},
			}))
		}
		put("10.0.0.1") // of a Service that has gone while nobody looked
		w.run(endpoints.New(loop.Parts{View: w.view, Events: &record.FakeRecorder{}, Client: &interrupted{
			Client: w.controllers, first: func(r client.Ref) bool { return r == ref }, happens: func() {
				w.delete(ref)
				w.must(w.admin.Create(ctx, services.At("default", ""), &v1.Service{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: v1.ServiceSpec{ClusterIP: v1.ClusterIPNone},
				}))
				put("10.0.0.2")
			},
		}}))
		time.Sleep(time.Minute)
		e, _ := w.get(ref).(*v1.Endpoints)
		if e == nil || e.Subsets[0].Addresses[0].IP != "10.0.0.2" {
			t.Errorf("%+v", e)
		}
	})
}

// A claim that has just been made anew says nothing of the volume that one of its name was given.
func TestAClaimMadeAnewIsNotBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{world: newWorld(t)}
		s.everyNamespace()
		s.run(pvcprotection.New(s.view, s.controllers, nil))
		s.volume("pv", "1Gi", nil)
		s.claim("c", "1Gi", none)
		looked := 0
		c := &interrupted{Client: s.controllers, first: statusOf(client.Claims), happens: func() {
			s.delete(client.Claims.At("default", "c"))
			time.Sleep(time.Second) // it is protected
			s.claim("c", "9Gi", none)
		}}
		c.wrote = func(o runtime.Object) {
			if c, ok := o.(*v1.PersistentVolumeClaim); ok {
				looked++
				if c.Status.Phase == v1.ClaimBound && c.Spec.VolumeName == "" {
					t.Errorf("it is bound to no volume: %+v", c.Status)
				}
			}
		}
		s.run(volumebinder.New(volumebinder.Config{View: s.view, Client: c, Events: &record.FakeRecorder{}, Remove: func(string) error { return nil }}))
		time.Sleep(time.Minute)
		s.is("c", s.claimIs("c"), "Pending")
		s.is("pv", s.volumeIs("pv"), "Released c")
		if looked == 0 || c.happens != nil {
			t.Error("nobody looked")
		}
	})
}
