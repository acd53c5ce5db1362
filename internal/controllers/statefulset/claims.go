package statefulset

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

func claimName(set *appsv1.StatefulSet, template *v1.PersistentVolumeClaim, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, set.Name, ordinal)
}

// newClaim is what a template makes for a pod.
func (r *ranks) newClaim(template *v1.PersistentVolumeClaim, pod *v1.Pod) *v1.PersistentVolumeClaim {
	c := template.DeepCopy()
	c.Name, c.Namespace = claimName(r.Set, template, Ordinal(pod)), r.Set.Namespace
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	for k, v := range r.Set.Spec.Selector.MatchLabels {
		c.Labels[k] = v
	}
	c.OwnerReferences, _, _ = r.owners(c, pod)
	return c
}

// claimSteps make a pod's claims where they are missing; refused says that the pod must wait.
func (r *ranks) claimSteps(pod *v1.Pod) (steps []Step, refused bool) {
	for i := range r.Set.Spec.VolumeClaimTemplates {
		t := &r.Set.Spec.VolumeClaimTemplates[i]
		switch c := r.Claim(claimName(r.Set, t, Ordinal(pod))); {
		case c == nil:
			steps = append(steps, Step{Do: CreateClaim, Pod: pod, Claim: r.newClaim(t, pod)})
		case c.DeletionTimestamp != nil:
			refused = true
			steps = append(steps, Step{Do: Refuse, Pod: pod, Why: fmt.Sprintf("pvc %s is being deleted", c.Name)})
		}
	}
	return append(steps, r.ownerSteps(pod)...), refused
}

// ownerSteps make the claims of a pod somebody's, as the set's policy says.
func (r *ranks) ownerSteps(pod *v1.Pod) (steps []Step) {
	for i := range r.Set.Spec.VolumeClaimTemplates {
		c := r.Claim(claimName(r.Set, &r.Set.Spec.VolumeClaimTemplates[i], Ordinal(pod)))
		if c == nil {
			continue
		}
		if refs, conflict, change := r.owners(c, pod); change {
			c = c.DeepCopy()
			c.OwnerReferences = refs
			steps = append(steps, Step{Do: OwnClaim, Pod: pod, Claim: c, Conflict: conflict})
		}
	}
	return steps
}

// stale says that a claim of the pod to be created still belongs to an earlier pod of its name, and goes with that.
func (r *ranks) stale(pod *v1.Pod) bool {
	if scaled, _ := r.policy(); !scaled {
		return false
	}
	return slices.ContainsFunc(r.Set.Spec.VolumeClaimTemplates, func(t v1.PersistentVolumeClaim) bool {
		c := r.Claim(claimName(r.Set, &t, Ordinal(pod)))
		return c != nil && namesAnother(c, pod, podKind)
	})
}

// policy says whether claims go when the set shrinks, and when it is deleted.
func (r *ranks) policy() (scaled, deleted bool) {
	p := r.Set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return false, false
	}
	return p.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType, p.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// owners are whose a claim should be: the set's when it goes with the set, the pod's when the pod is one too many and the claim goes with
// it, and otherwise nobody's. A claim that names an earlier set or pod of the same name is left alone, and one that somebody else controls
// is not taken.
func (r *ranks) owners(c *v1.PersistentVolumeClaim, pod *v1.Pod) (refs []metav1.OwnerReference, conflict, change bool) {
	if namesAnother(c, r.Set, kind.GVK) || namesAnother(c, pod, podKind) {
		return c.OwnerReferences, r.conflicting(c, pod), false
	}
	scaled, deleted := r.policy()
	first := firstOrdinal(r.Set)
	condemned := Ordinal(pod) < first || Ordinal(pod) >= first+replicas(r.Set)
	bySet, byPod := deleted && !(scaled && condemned), scaled && condemned
	if conflict = r.conflicting(c, pod); conflict {
		bySet, byPod = false, false
	}
	change = owned(c, r.Set) != bySet || owned(c, pod) != byPod
	for _, ref := range c.OwnerReferences {
		switch ours := names(ref, r.Set, kind.GVK) || names(ref, pod, podKind); {
		case !ours:
			refs = append(refs, ref)
		case ref.Controller == nil || !*ref.Controller:
			change = true
		}
	}
	if byPod {
		refs = append(refs, *metav1.NewControllerRef(pod, podKind))
	}
	if bySet {
		refs = append(refs, *metav1.NewControllerRef(r.Set, kind.GVK))
	}
	return refs, conflict, change
}

// conflicting says that somebody else controls a claim that should go with the set or its pod.
func (r *ranks) conflicting(c *v1.PersistentVolumeClaim, pod *v1.Pod) bool {
	if scaled, deleted := r.policy(); !scaled && !deleted {
		return false
	}
	return slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool {
		switch {
		case names(ref, r.Set, kind.GVK):
			return ref.UID != r.Set.UID
		case names(ref, pod, podKind):
			return ref.UID != pod.UID
		}
		return ref.Controller != nil && *ref.Controller
	})
}

// names says that a reference is to an object of that kind and name.
func names(ref metav1.OwnerReference, m metav1.Object, gvk schema.GroupVersionKind) bool {
	return ref.APIVersion == gvk.GroupVersion().String() && ref.Kind == gvk.Kind && ref.Name == m.GetName()
}

// namesAnother says that a claim's owner was an object of that kind and name, and is not this one.
func namesAnother(c *v1.PersistentVolumeClaim, m metav1.Object, gvk schema.GroupVersionKind) bool {
	i := slices.IndexFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool { return names(ref, m, gvk) })
	return i >= 0 && c.OwnerReferences[i].UID != m.GetUID()
}
