package verbs

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/budget"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

var budgets = schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}

// Evict deletes a pod as an eviction asks, where its disruption budget allows it, once its status says why. Who may evict need not be
// allowed to delete.
//
//	judge by the newest budgets ─► pod says why + budget gives, in one transaction ─► delete
//	      ▲                                  │ one of them has changed                  │ it is not as it was judged, where that matters
//	      └──────────────────────────────────┴──────────────────────────────────────────┘
//
// So no more go than a budget allows, however many ask at once.
func (v *Verbs) Evict(ctx context.Context, u user.Info, namespace, name string, d *metav1.DeleteOptions, o Options) error {
	ref := client.Pods.At(namespace, name)
	k, err := v.kind(ref)
	if err != nil {
		return err
	}
	if err := v.authorize(ctx, u, "create", ref.Sub("eviction"), nil); err != nil {
		return err
	}
	r := request{u, k, ref, o, ref.Name}
	r.DryRun = r.DryRun || len(d.DryRun) > 0
	if err := v.admitEviction(ctx, r, d); err != nil {
		return err
	}
	for range writeTries {
		var judged bool
		if judged, err = v.evict(ctx, r, d); !judged || !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// admitEviction runs the rules for the eviction itself, which is created below the pod. For its consequences the rules run later.
func (v *Verbs) admitEviction(ctx context.Context, r request, d *metav1.DeleteOptions) error {
	kind := schema.GroupKind{Group: policyv1.GroupName, Kind: "Eviction"}
	if toUnread(d) {
		at := field.NewPath("deleteOptions").Child(unreadField.String())
		return apierrors.NewInvalid(kind, r.ref.Name, field.ErrorList{field.Invalid(at, true, "can not be set for pod eviction, try after removing the option")})
	}
	if errs := metavalidation.ValidateDeleteOptions(d); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	// These rules have no conditions in a transaction, so they have to see the newest state.
	if _, err := v.c.View.Fresh(ctx); err != nil {
		return viewError(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: r.ref.Name}, DeleteOptions: d}
	_, err := v.admitNew(ctx, r.sub("eviction"), eviction)
	return err
}

// admitNew runs the rules for an object that is created but not stored. What follows from it is written separately, under these
// conditions.
func (v *Verbs) admitNew(ctx context.Context, r request, obj runtime.Object) ([]store.Cond, error) {
	a := r.attributes(admit.Create, obj, nil)
	if err := v.chain.Mutate(ctx, a); err != nil {
		return nil, err
	}
	return a.Conds(), v.chain.Validate(ctx, a)
}

// evict tries once. judged says that the pod may only go in the version that was judged, although the client did not ask for a
// version: a conflict then means judging again.
func (v *Verbs) evict(ctx context.Context, r request, d *metav1.DeleteOptions) (judged bool, err error) {
	pod, verdict, err := v.give(ctx, r, d.Preconditions)
	if err != nil {
		return false, err
	}
	exact := d.Preconditions != nil && d.Preconditions.ResourceVersion != nil
	if exact || verdict.AsJudged {
		d = d.DeepCopy()
		if d.Preconditions == nil {
			d.Preconditions = &metav1.Preconditions{}
		}
		d.Preconditions.ResourceVersion = new(pod.ResourceVersion)
	}
	_, _, err = v.delete(ctx, r, nil, d)
	return verdict.AsJudged && !exact, err
}

// give writes into a pod's status that it is being evicted, together with what its budget gives for it.
func (v *Verbs) give(ctx context.Context, r request, p *metav1.Preconditions) (pod *v1.Pod, verdict budget.Verdict, err error) {
	now := metav1.NewTime(v.c.Now()).Rfc3339Copy()
	g := guard{rules: bindRules, owns: kept, beside: func(ctx context.Context, cur runtime.Object) (conds []store.Cond, ops []store.Op, err error) {
		verdict, conds, ops, err = v.charge(ctx, cur.(*v1.Pod), now)
		return conds, ops, err
	}}
	release, err := v.evictions.take(ctx)
	if err != nil {
		return nil, verdict, err
	}
	defer release()
	obj, err := v.guarded(ctx, r.sub("status"), g, func(cur runtime.Object) (runtime.Object, error) {
		if err := preconditions(r.kind, accessor(cur), p); err != nil {
			return nil, err
		}
		return evicting(cur.(*v1.Pod), now), nil
	})
	if err != nil {
		return nil, verdict, err
	}
	return obj.(*v1.Pod), verdict, nil
}

// charge judges a pod's eviction by the present budgets, and makes the write of the one that gives.
func (v *Verbs) charge(ctx context.Context, pod *v1.Pod, now metav1.Time) (budget.Verdict, []store.Cond, []store.Op, error) {
	s, err := v.c.View.Fresh(ctx)
	if err != nil {
		return budget.Verdict{}, nil, nil, viewError(err)
	}
	var all []*policyv1.PodDisruptionBudget
	for e := range s.All(budgets, pod.Namespace, view.Key{}) {
		all = append(all, e.Object.(*policyv1.PodDisruptionBudget))
	}
	verdict, err := budget.Evict(pod, all, now.Time)
	b := verdict.Taken
	if b == nil || err != nil {
		return verdict, nil, nil, err
	}
	k := v.Kind(budgets)
	value, err := encode(k, withRev(b, ""))
	key := k.Key(b.Namespace, b.Name)
	return verdict, []store.Cond{{Key: key, Revision: s.Get(budgets, b.Namespace, b.Name).Rev}}, []store.Op{{Key: key, Value: value}}, err
}

// turn is held by one at a time. Evictions take turns: in parallel, those of one budget would only conflict on its revision.
type turn chan struct{}

func (t turn) take(ctx context.Context) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, apierrors.NewTimeoutError("evictions before this one did not end in time", 10)
	}
}

// evicting is the pod with the condition that says that it is being evicted.
func evicting(pod *v1.Pod, now metav1.Time) *v1.Pod {
	pod = pod.DeepCopy()
	c := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		LastTransitionTime: now,
	}
	for i := range pod.Status.Conditions {
		if has := &pod.Status.Conditions[i]; has.Type == c.Type {
			if has.Status == c.Status {
				c.LastTransitionTime = has.LastTransitionTime
			}
			*has = c
			return pod
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
	return pod
}
