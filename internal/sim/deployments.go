package sim

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// Deployments: what users do with them, and what must hold of them and of their ReplicaSets.

var (
	deployments    = client.Resource{Group: appsv1.GroupName, Resource: "deployments"}
	deploymentKind = schema.GroupResource(deployments)
	replicaSetKind = schema.GroupResource{Group: appsv1.GroupName, Resource: "replicasets"}
)

// deployers is what users do with Deployments.
var deployers = []action{{2, (*World).deploy}, {5, (*World).redeploy}, {1, (*World).undeploy}}

func (w *World) deploy() {
	w.serial++
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("deploy-%d", w.serial)}}
	d.Spec.Replicas = new(int32(w.rng.IntN(4)))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"deploy": d.Name}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec = v1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(w.rng.IntN(20))),
		Containers:                    []v1.Container{{Name: "main", Image: Image, ImagePullPolicy: v1.PullIfNotPresent, Command: w.program()}},
	}
	if w.rng.IntN(4) == 0 {
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	} else {
		surge := w.rng.IntN(3)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.FromInt(surge)), MaxUnavailable: new(intstr.FromInt(max(w.rng.IntN(3), 1-surge))),
		}
	}
	_, err := w.admin.Create(w.ctx(), deployments.At("default", ""), d)
	w.note("create %s of %d: %v", d.Name, *d.Spec.Replicas, err)
}

func (w *World) anyDeployment() *appsv1.Deployment {
	var all []*appsv1.Deployment
	for e := range w.View.Snapshot().All(deploymentKind, "", view.Key{}) {
		all = append(all, e.Object.(*appsv1.Deployment))
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.rng.IntN(len(all))]
}

// redeploy changes a Deployment: its template, its size, or whether it is paused.
func (w *World) redeploy() {
	d := w.anyDeployment()
	if d == nil {
		return
	}
	what, program, n := w.rng.IntN(4), w.program(), int32(w.rng.IntN(4))
	_, err := w.admin.Mutate(w.ctx(), deployments.At(d.Namespace, d.Name), func(o runtime.Object) (bool, error) {
		spec := &o.(*appsv1.Deployment).Spec
		switch what {
		case 0:
			spec.Replicas = &n
		case 1:
			spec.Paused = !spec.Paused
		default:
			spec.Template.Spec.Containers[0].Command = program
		}
		return true, nil
	})
	w.note("change %s (%d, %v, %d): %v", d.Name, what, program, n, err)
}

func (w *World) undeploy() {
	d := w.anyDeployment()
	if d == nil {
		return
	}
	how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground}[w.rng.IntN(2)]
	err := w.admin.Delete(w.ctx(), deployments.At(d.Namespace, d.Name), metav1.DeleteOptions{PropagationPolicy: &how})
	w.note("delete %s (%s): %v", d.Name, how, err)
}

// deploymentsKept: a Deployment has neither more nor fewer replicas than its strategy allows, those of its template alone once they are
// available; each ReplicaSet has its pods and its owner.
func (w *World) deploymentsKept(s view.Snapshot, have map[string]int32) {
	w.t.Helper()
	asked, current := map[string]int32{}, map[string]*appsv1.ReplicaSet{}
	for e := range s.All(replicaSetKind, "", view.Key{}) {
		rs := e.Object.(*appsv1.ReplicaSet)
		owner := metav1.GetControllerOf(rs)
		d := s.Get(deploymentKind, rs.Namespace, owner.Name)
		if d == nil || rs.DeletionTimestamp != nil {
			w.Failf(nil, "%s is left of %s, which has gone", rs.Name, owner.Name)
			continue
		}
		if n := *rs.Spec.Replicas; have[rs.Name] != n || rs.Status.Replicas != n || rs.Status.ObservedGeneration != rs.Generation {
			w.Failf(nil, "%s has %d pods of %d: %+v", rs.Name, have[rs.Name], n, rs.Status)
		}
		asked[owner.Name] += *rs.Spec.Replicas
		if fmt.Sprint(rs.Spec.Template.Spec.Containers[0].Command) == fmt.Sprint(d.Object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Command) {
			current[owner.Name] = rs
		}
	}
	for e := range s.All(deploymentKind, "", view.Key{}) {
		d := e.Object.(*appsv1.Deployment)
		n, surge := *d.Spec.Replicas, int32(0)
		if u := d.Spec.Strategy.RollingUpdate; u != nil {
			surge = u.MaxSurge.IntVal
		}
		rs := current[d.Name]
		switch {
		case d.DeletionTimestamp != nil || d.Status.ObservedGeneration != d.Generation || d.Status.Replicas != asked[d.Name]:
			w.Failf(nil, "%s is %+v", d.Name, d)
		case asked[d.Name] > n+surge:
			w.Failf(nil, "%s asks for %d pods, of %d and %d", d.Name, asked[d.Name], n, surge)
		case d.Spec.Paused:
		case rs == nil && d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType:
			w.Failf(nil, "%s has no ReplicaSet of its template", d.Name)
		case rs != nil && rs.Status.AvailableReplicas == n && asked[d.Name] != n:
			w.Failf(nil, "%s keeps old pods: %d of %d", d.Name, asked[d.Name], n)
		}
	}
}

// giveUpDeployments deletes every Deployment.
func (w *World) giveUpDeployments() {
	w.t.Helper()
	for e := range w.View.Snapshot().All(deploymentKind, "", view.Key{}) {
		w.must(w.admin.Delete(w.ctx(), deployments.At("default", e.Key.Name), metav1.DeleteOptions{}))
	}
}
