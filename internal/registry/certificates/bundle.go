package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

const maxBundle = 1 << 20

// ValidateBundle judges a whole bundle of trust anchors, its name excepted.
func ValidateBundle(b *v1.ClusterTrustBundle) field.ErrorList {
	var e check.Errors
	validateBundle(&e, b, true)
	return e.List()
}

// ValidateBundleUpdate judges a change: the anchors are read only when they change, so that what was good once stays.
func ValidateBundleUpdate(b, old *v1.ClusterTrustBundle) field.ErrorList {
	var e check.Errors
	validateBundle(&e, b, b.Spec.TrustBundle != old.Spec.TrustBundle)
	e.Add(apivalidation.ValidateImmutableField(b.Spec.SignerName, old.Spec.SignerName, specPath.Child("signerName")))
	return e.List()
}

func validateBundle(e *check.Errors, b *v1.ClusterTrustBundle, anchors bool) {
	if b.Spec.SignerName != "" {
		e.SignerName(specPath.Child("signerName"), b.Spec.SignerName)
	}
	if anchors {
		validateAnchors(e, specPath.Child("trustBundle"), b.Spec.TrustBundle)
	}
}

// BundleName judges names of a signer's bundles: they are called "<signer with : for />:<name>", those of no signer have a plain name.
func BundleName(signer string) func(name string, prefix bool) []string {
	return func(name string, prefix bool) []string {
		if signer == "" {
			if strings.Contains(name, ":") {
				return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
			}
			return apivalidation.NameIsDNSSubdomain(name, prefix)
		}
		begin := strings.ReplaceAll(signer, "/", ":") + ":"
		rest, ok := strings.CutPrefix(name, begin)
		if !ok {
			return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, begin)}
		}
		return apivalidation.NameIsDNSSubdomain(rest, prefix)
	}
}

func validateAnchors(e *check.Errors, p *field.Path, text string) {
	if len(text) > maxBundle {
		e.TooLong(p, maxBundle)
		return
	}
	const omitted = "<value omitted>"
	places := map[string][]int{}
	var order []string
	bad := false
	block, rest := pem.Decode([]byte(text))
	for i := 0; block != nil; i++ {
		if what := badAnchor(block); what != "" {
			e.Invalid(p, omitted, fmt.Sprintf("entry %d %s", i, what))
			bad = true
		} else {
			der := string(block.Bytes)
			if places[der] == nil {
				order = append(order, der)
			}
			places[der] = append(places[der], i)
		}
		block, rest = pem.Decode(rest)
	}
	if bad {
		return
	}
	if len(order) == 0 {
		e.Invalid(p, omitted, "at least one trust anchor must be provided")
	}
	for _, der := range order {
		if at := places[der]; len(at) > 1 {
			e.Invalid(p, omitted, fmt.Sprintf("duplicate trust anchor (indices %v)", at))
		}
	}
}

func badAnchor(block *pem.Block) string {
	if block.Type != "CERTIFICATE" {
		return fmt.Sprintf("has bad block type: %v", block.Type)
	}
	if len(block.Headers) != 0 {
		return "has PEM block headers"
	}
	switch c, err := x509.ParseCertificate(block.Bytes); {
	case err != nil:
		return "does not parse as X.509"
	case !c.IsCA:
		return "does not have the CA bit set"
	case !c.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}

// BundleColumns and BundleRow make `kubectl get clustertrustbundles`.
func BundleColumns(name metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{name, {Name: "SignerName", Type: "string", Description: v1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]}}
}

// BundleRow is described at BundleColumns.
func BundleRow(b *v1.ClusterTrustBundle) []any {
	if b.Spec.SignerName == "" {
		return []any{b.Name, "<none>"}
	}
	return []any{b.Name, b.Spec.SignerName}
}

// has tells whether a condition of that type is there and holds.
func has(list []metav1.Condition, types ...string) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionTrue && slices.Contains(types, c.Type)
	})
}
