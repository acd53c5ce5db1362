package verbs

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/timeline"
)

// A pod's story says who made it and for whom, and who asked for its end and why: the user, or the part of a program that several share.
func TestTheTimelineTellsWho(t *testing.T) {
	w := newWorld(t)
	yes := true
	p := pod("p")
	p.Spec.NodeName = "n"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d", UID: "u", Controller: &yes}}
	controllers := &user.DefaultInfo{Name: user.KubeControllerManager, Groups: []string{user.SystemPrivilegedGroup}}
	made, err := w.Create(w.ctx, controllers, refOf(t, p), p, Options{Part: "replicaset-controller"})
	if err != nil {
		t.Fatal(err)
	}
	marked := made.DeepCopyObject().(*v1.Pod)
	marked.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(w.now)}}
	if _, _, err := w.Update(w.ctx, admin, refOf(t, p).Sub("status"), marked, Options{}); err != nil {
		t.Fatal(err)
	}
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{user.SystemPrivilegedGroup}}
	if _, _, err := w.Delete(w.ctx, alice, refOf(t, p), &metav1.DeleteOptions{}, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Delete(w.ctx, &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.SystemPrivilegedGroup}}, refOf(t, p), &metav1.DeleteOptions{GracePeriodSeconds: seconds(0)}, Options{}); err != nil {
		t.Fatal(err)
	}
	got := map[timeline.Stage]string{}
	for len(w.records.list) > 0 {
		if r := <-w.records.list; r.Stage == timeline.Accepted || r.Stage == timeline.Deleting || r.Stage == timeline.Deleted {
			got[r.Stage] = r.Line()
		}
	}
	for stage, want := range map[timeline.Stage]string{
		timeline.Accepted: "accepted  by=replicaset-controller owner=ReplicaSet/web-5d",
		timeline.Deleting: "deleting  EvictionByEvictionAPI  by=alice grace=30",
		timeline.Deleted:  "deleted  EvictionByEvictionAPI  by=system:node:n",
	} {
		if got[stage] != want {
			t.Errorf("%s\ngot  %s\nwant %s", stage, got[stage], want)
		}
	}
}
