package oracle

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	api "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"

	"podo.dev/podo/internal/quota"
	"podo.dev/podo/internal/registry"
)

// charged are the kinds whose writes are charged, with the subresources that can be.
var charged = map[string][]string{
	"pods": {"", "", "resize", "status"}, "services": {""}, "persistentvolumeclaims": {"", "status"}, "configmaps": {""}, "secrets": {""},
}

// TestQuota compares what a write may, and what quotas say after it, with upstream's plug-in and its evaluators; and what a count finds
// with upstream's controller's.
func TestQuota(t *testing.T) {
	quotas := Kind{Podo: registry.Lookup(schema.GroupResource{Resource: "resourcequotas"})}
	for i := range Kinds {
		if Kinds[i].name() == "resourcequotas" {
			quotas = Kinds[i]
		}
	}
	each(t, func(t *testing.T, k Kind) {
		subresources := charged[k.name()]
		if subresources == nil {
			t.Skip("only counted")
		}
		m := mutatorFor(t)
		pop, quotaPop := newPopulation(seeds(t, k)), newPopulation(seeds(t, quotas))
		var r Report
		for range rounds(1) {
			obj, q := k.stored(m, pop), quotas.stored(m, quotaPop)
			if obj == nil || q == nil {
				continue
			}
			c := quotaCase{kind: k, quota: counted(m, q.(*v1.ResourceQuota)), limited: limitedFor(m, k)}
			c.write = quota.Write{Resource: k.Podo.GroupResource(), Object: obj, Now: created.Time}
			if m.IntN(2) == 0 {
				c.write.Old = obj.DeepCopyObject()
				m.Mutate(root(m, "", c.write.Old), changes(m))
				k.Podo.Default(c.write.Old)
				meta1(c.write.Old).SetResourceVersion("7")
				c.write.Subresource = pick(m, subresources)
			}
			r.ran()
			what := "charge " + k.name()
			r.found(what, c.differ(t), func(string) string { return c.String() })
			what = "count " + k.name()
			r.found(what, c.differCount(t), func(string) string { return c.String() })
		}
		r.fail(t)
	})
}

// counted gives the quota bounds that know the resources of most kinds, and a usage near them.
func counted(m *mutator, q *v1.ResourceQuota) *v1.ResourceQuota {
	for range m.IntN(4) {
		name := pick(m, []v1.ResourceName{
			"pods", "cpu", "memory", "requests.cpu", "limits.memory", "limits.cpu", "requests.ephemeral-storage", "count/pods", "requests.nvidia.com/gpu",
			"hugepages-2Mi", "requests.hugepages-2Mi", "services", "services.nodeports", "services.loadbalancers", "count/services", "configmaps",
			"count/configmaps", "secrets", "persistentvolumeclaims", "requests.storage", "gold.storageclass.storage.k8s.io/requests.storage",
			"gold.storageclass.storage.k8s.io/persistentvolumeclaims", "count/persistentvolumeclaims",
		})
		if q.Spec.Hard == nil {
			q.Spec.Hard = v1.ResourceList{}
		}
		q.Spec.Hard[name] = resource.MustParse(pick(m, []string{"0", "1", "2", "10", "1Gi"}))
	}
	q.Status = v1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: v1.ResourceList{}}
	for name, hard := range q.Status.Hard {
		switch m.IntN(6) {
		case 0: // unknown
		case 1, 2:
			q.Status.Used[name] = hard.DeepCopy()
		default:
			q.Status.Used[name] = resource.MustParse("0")
		}
	}
	return q
}

func limitedFor(m *mutator, k Kind) []quota.Limited {
	switch m.IntN(6) {
	case 0:
		return []quota.Limited{{Resource: k.Podo.GroupResource(), Contains: []string{pick(m, []string{"cpu", "memory", "storage", "pods", "."})}}}
	case 1:
		return []quota.Limited{{Resource: k.Podo.GroupResource(), Scopes: []v1.ScopedResourceSelectorRequirement{{
			ScopeName: pick(m, []v1.ResourceQuotaScope{"PriorityClass", "BestEffort", "Terminating", "CrossNamespacePodAffinity", "VolumeAttributesClass"}),
			Operator:  v1.ScopeSelectorOpExists,
		}}}}
	}
	return nil
}

type quotaCase struct {
	kind    Kind
	quota   *v1.ResourceQuota
	limited []quota.Limited
	write   quota.Write
}

func (c quotaCase) String() string {
	s := "quota:\n" + manifest(c.quota) + "sent (" + c.write.Subresource + "):\n" + manifest(c.write.Object)
	if c.write.Old != nil {
		s += "stored:\n" + manifest(c.write.Old)
	}
	return s + fmt.Sprintf("limited: %+v\n", c.limited)
}

type fixedClock struct{ time.Time }

func (c fixedClock) Now() time.Time                  { return c.Time }
func (c fixedClock) Since(t time.Time) time.Duration { return c.Sub(t) }

// evaluators are upstream's, over the object alone.
func (c quotaCase) evaluators(t *testing.T) []upstream.Evaluator {
	lister := func(r schema.GroupVersionResource) (cache.GenericLister, error) {
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		if r.GroupResource() == c.write.Resource {
			if err := store.Add(c.write.Object); err != nil {
				t.Fatal(err)
			}
		}
		return cache.NewGenericLister(store, r.GroupResource()), nil
	}
	all, err := core.NewEvaluators(lister, nil, func(r schema.GroupVersionResource) bool { return r.Group == "" })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (c quotaCase) differ(t *testing.T) []Difference {
	var evaluator upstream.Evaluator
	for _, e := range c.evaluators(t) {
		if e.GroupResource() == c.write.Resource {
			evaluator = e
		}
	}
	p, op := c.kind.Podo, admission.Create
	if c.write.Old != nil {
		op = admission.Update
	}
	a := admission.NewAttributesRecord(c.write.Object.DeepCopyObject(), c.write.Old, p.GVK, inNamespace, "x",
		c.write.Resource.WithVersion("v1"), c.write.Subresource, op, nil, false, nil)
	var limited []api.LimitedResource
	for _, l := range c.limited {
		limited = append(limited, api.LimitedResource{Resource: l.Resource.Resource, APIGroup: l.Resource.Group, MatchContains: l.Contains, MatchScopes: l.Scopes})
	}
	up, upErr := resourcequota.CheckRequest([]v1.ResourceQuota{*c.quota.DeepCopy()}, a, evaluator, limited)
	upUsed := c.quota.Status.Used
	if upErr == nil && len(up) == 1 {
		upUsed = up[0].Status.Used
	}
	podoUsed := c.quota.Status.Used
	var podoErr error
	if c.write.Concerns() {
		var changed []*v1.ResourceQuota
		if changed, podoErr = quota.Charge([]*v1.ResourceQuota{c.quota}, c.write, c.limited); len(changed) == 1 {
			podoUsed = changed[0].Status.Used
		}
	}
	var out []Difference
	if u, p := reason(upErr), reason(podoErr); u != p {
		out = append(out, Difference{Where: "refusal", Upstream: u, Podo: p})
	}
	if !quota.Equal(upUsed, podoUsed) {
		out = append(out, Difference{Where: "used", Upstream: amounts(upUsed), Podo: amounts(podoUsed)})
	}
	return out
}

func (c quotaCase) differCount(t *testing.T) []Difference {
	meta1(c.write.Object).SetNamespace(inNamespace)
	up, err := upstream.CalculateUsage(inNamespace, c.quota.Spec.Scopes, c.quota.Spec.Hard, generic.NewRegistry(c.evaluators(t)), c.quota.Spec.ScopeSelector)
	if err != nil {
		t.Fatal(err)
	}
	var resources []schema.GroupResource
	for name := range charged {
		resources = append(resources, schema.GroupResource{Resource: name})
	}
	resources = append(resources, schema.GroupResource{Resource: "resourcequotas"}, schema.GroupResource{Resource: "replicationcontrollers"})
	q := c.quota.DeepCopy()
	q.Status.Used = nil
	podo := quota.Count(q, resources, func(r schema.GroupResource) iter.Seq[runtime.Object] {
		if r != c.write.Resource {
			return slices.Values[[]runtime.Object](nil)
		}
		return slices.Values([]runtime.Object{c.write.Object})
	}, time.Now())
	// Upstream counts generic names only for resources that it discovered.
	for name := range podo.Used {
		if _, ok := up[name]; !ok && strings.HasPrefix(string(name), "count/") {
			delete(podo.Used, name)
		}
	}
	if !quota.Equal(up, podo.Used) {
		return []Difference{{Where: "used", Upstream: amounts(up), Podo: amounts(podo.Used)}}
	}
	return nil
}

// reason is a refusal without what is in front of it.
func reason(err error) string {
	if err == nil {
		return ""
	}
	_, after, found := strings.Cut(err.Error(), " is forbidden: ")
	if !found {
		return err.Error()
	}
	return after
}

func amounts(list v1.ResourceList) string {
	var out []string
	for name, q := range list {
		out = append(out, fmt.Sprintf("%s=%s", name, q.String()))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
