package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Write is a creation (Old is nil) or a change of an object, as admission sees it.
type Write struct {
	Resource    schema.GroupResource
	Subresource string
	Object      runtime.Object
	Old         runtime.Object
	Now         time.Time
}

// Limited is consumption that is refused unless a quota bounds it.
type Limited struct {
	Resource schema.GroupResource
	Contains []string                               // parts of names of resources
	Scopes   []v1.ScopedResourceSelectorRequirement // scopes of objects
}

// Uncovered says that an object is in scopes that no quota bounds, although one must. Upstream makes no refusal of it but an
// internal error.
type Uncovered struct {
	Scopes []v1.ScopedResourceSelectorRequirement
}

func (u *Uncovered) Error() string {
	return fmt.Sprintf("insufficient quota to match these scopes: %v", u.Scopes)
}

// Concerns says whether the write can use more of what quotas bound.
func (w *Write) Concerns() bool {
	return Counted(w.Resource) && of(w.Resource).charged(w.Subresource, w.Object, w.Old)
}

// Charge returns the quotas that the write changes, copied, with the usage after it; an error says why the write is refused. quotas
// are all of the object's namespace.
func Charge(quotas []*v1.ResourceQuota, w Write, limited []Limited) ([]*v1.ResourceQuota, error) {
	m := of(w.Resource)
	usage := m.usage(w.Object, w.Now)
	b := bill{m: m, w: w, bounded: map[v1.ResourceName]bool{}}
	for _, q := range quotas {
		if err := b.consider(q); err != nil {
			return nil, err
		}
	}
	if negative := belowZero(usage); len(negative) > 0 {
		return nil, fmt.Errorf("quota usage is negative for resource(s): %s", join(negative, ","))
	}
	grown := usage
	if w.Old != nil {
		grown = growth(usage, m.usage(w.Old, w.Now))
	}
	if !b.price(usage, grown) {
		return nil, nil
	}
	if err := b.covered(usage, limited); err != nil {
		return nil, err
	}
	return b.settle()
}

// bill is a write on its way through Charge.
type bill struct {
	m *measure
	w Write
	// About the write: quotas, what each is charged, and what they bound and select in all.
	quotas   []*v1.ResourceQuota
	charges  []v1.ResourceList
	bounded  map[v1.ResourceName]bool
	selected []v1.ScopedResourceSelectorRequirement
}

// consider takes the quota into the bill if it is about the object.
func (b *bill) consider(q *v1.ResourceQuota) error {
	b.selected = append(b.selected, b.m.selected(scopes(q), b.w.Object)...)
	bounded := tracked(b.m, q.Status.Hard)
	if len(bounded) == 0 || !b.m.inScopes(q, b.w.Object) {
		return nil
	}
	if b.m.lacks != nil {
		if what := b.m.lacks(b.w.Object, bounded); what != "" {
			return fmt.Errorf("failed quota: %s: %s", q.Name, what)
		}
	}
	for _, name := range bounded {
		if _, known := q.Status.Used[name]; !known {
			return fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, join(bounded, ","))
		}
		b.bounded[name] = true
	}
	b.quotas = append(b.quotas, q)
	return nil
}

// price decides what each quota is charged: what the object uses more than before, or all of it if the quota was not about it
// before. It says whether anything is used at all.
func (b *bill) price(usage, grown v1.ResourceList) bool {
	b.charges = make([]v1.ResourceList, len(b.quotas))
	any := false
	for i, q := range b.quotas {
		b.charges[i] = usage
		if b.w.Old != nil && b.m.inScopes(q, b.w.Old) {
			b.charges[i] = grown
		}
		any = any || growing(b.charges[i])
	}
	if len(b.quotas) == 0 {
		return growing(grown)
	}
	return any
}

// covered refuses consumption that must be bounded and is not.
func (b *bill) covered(usage v1.ResourceList, limited []Limited) error {
	missing := map[v1.ResourceName]bool{}
	var scopes []v1.ScopedResourceSelectorRequirement
	for _, l := range limited {
		scopes = append(scopes, b.m.selected(l.Scopes, b.w.Object)...)
		if l.Resource != b.w.Resource {
			continue
		}
		for name, q := range usage {
			if q.Sign() > 0 && !b.bounded[name] && slices.ContainsFunc(l.Contains, func(part string) bool { return strings.Contains(string(name), part) }) {
				missing[name] = true
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("insufficient quota to consume: %s", join(slices.Sorted(maps.Keys(missing)), ","))
	}
	scopes = slices.DeleteFunc(scopes, func(s v1.ScopedResourceSelectorRequirement) bool {
		return slices.ContainsFunc(b.selected, func(x v1.ScopedResourceSelectorRequirement) bool { return x.ScopeName == s.ScopeName })
	})
	if len(scopes) > 0 {
		return &Uncovered{scopes}
	}
	return nil
}

// settle charges the quotas, or says which would be exceeded.
func (b *bill) settle() (changed []*v1.ResourceQuota, err error) {
	for i, q := range b.quotas {
		charge := v1.ResourceList{}
		exceeded := map[v1.ResourceName]bool{}
		for name, amount := range b.charges[i] {
			hard, bounded := q.Status.Hard[name]
			if !bounded || amount.IsZero() {
				continue
			}
			charge[name] = amount
			after := q.Status.Used[name].DeepCopy()
			after.Add(amount)
			if after.Cmp(hard) > 0 && b.w.Subresource != "status" {
				exceeded[name] = true
			}
		}
		if len(exceeded) > 0 {
			return nil, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
				amounts(only(charge, exceeded)), amounts(only(q.Status.Used, exceeded)), amounts(only(q.Status.Hard, exceeded)))
		}
		if len(charge) > 0 {
			q = q.DeepCopy()
			q.Status.Used = add(q.Status.Used, charge)
			changed = append(changed, q)
		}
	}
	return changed, nil
}

func growing(list v1.ResourceList) bool {
	for _, q := range list {
		if !q.IsZero() {
			return true
		}
	}
	return false
}

func belowZero(list v1.ResourceList) (out []v1.ResourceName) {
	for name, q := range list {
		if q.Sign() < 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
