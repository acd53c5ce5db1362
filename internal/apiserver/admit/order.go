package admit

import "slices"

// order is the order of upstream's admission plug-ins. Those that are on by default for served kinds have a rule here; the
// others' places are kept.
var order = []string{
	"NamespaceLifecycle",
	"LimitRanger",
	"ServiceAccount",
	"NodeRestriction",
	"TaintNodesByCondition",
	"PodSecurity",
	"Priority",
	"DefaultTolerationSeconds",
	"DefaultStorageClass",
	"StorageObjectInUseProtection",
	"PersistentVolumeClaimResize",
	"RuntimeClass",
	"CertificateApproval",
	"CertificateSigning",
	"ClusterTrustBundleAttest",
	"CertificateSubjectRestriction",
	"DefaultIngressClass",
	"PodTopologyLabels",
	"NodeDeclaredFeatureValidator",
	"PodResizeValidator",
	"MutatingAdmissionPolicy",
	"MutatingAdmissionWebhook",
	unnamed,
	"ValidatingAdmissionPolicy",
	"ValidatingAdmissionWebhook",
	"ResourceQuota",
}

// unnamed is the place of rules that are no plug-ins: what upstream does in the storage of a kind, after all edits and before
// validation.
const unnamed = ""

// Named is a rule that is one of upstream's plug-ins. Its name is also that of its section in the configuration file.
type Named interface{ Name() string }

func name(rule any) string {
	if n, ok := rule.(Named); ok {
		return n.Name()
	}
	return unnamed
}

// Ordered sorts rules into upstream's order. Of two rules with one name the later replaces the earlier. It panics on a name
// without a place.
func Ordered(rules ...any) Chain {
	var out Chain
	for _, r := range rules {
		n := name(r)
		if !slices.Contains(order, n) {
			panic("admit: no place for the rule " + n)
		}
		if i := slices.IndexFunc(out, func(x any) bool { return n != unnamed && name(x) == n }); i >= 0 {
			out[i] = r
			continue
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(x, y any) int { return slices.Index(order, name(x)) - slices.Index(order, name(y)) })
	return out
}

// Name implements Named.
func (*NamespaceLifecycle) Name() string { return "NamespaceLifecycle" }

// Name implements Named.
func (*LimitRanger) Name() string { return "LimitRanger" }

// Name implements Named.
func (*ServiceAccount) Name() string { return "ServiceAccount" }

// Name implements Named.
func (TaintNewNodes) Name() string { return "TaintNodesByCondition" }

// Name implements Named.
func (*Priority) Name() string { return "Priority" }

// Name implements Named.
func (DefaultTolerations) Name() string { return "DefaultTolerationSeconds" }

// Name implements Named.
func (*RuntimeClass) Name() string { return "RuntimeClass" }

// Name implements Named.
func (*PodTopologyLabels) Name() string { return "PodTopologyLabels" }

// Name implements Named.
func (*NodeDeclaredFeatures) Name() string { return "NodeDeclaredFeatureValidator" }

// Name implements Named.
func (*PodResize) Name() string { return "PodResizeValidator" }

// Name implements Named.
func (*ResourceQuota) Name() string { return "ResourceQuota" }

// Name implements Named.
func (*NodeRestriction) Name() string { return "NodeRestriction" }
