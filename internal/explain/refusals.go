package explain

import (
	"fmt"
	"strings"
)

// mendRefusal says what to do about a creation that the API server refused, by its message.
func mendRefusal(said, namespace string) string {
	switch {
	case strings.Contains(said, "exceeded quota: "):
		_, quota, _ := strings.Cut(said, "exceeded quota: ")
		quota, _, _ = strings.Cut(quota, ",")
		return fmt.Sprintf("Raise the ResourceQuota %s (`podo kubectl edit quota -n %s %s`), lower what the template requests, or end what uses it up: `podo kubectl describe quota -n %s %s`", quota, namespace, quoted(quota), namespace, quoted(quota))
	case strings.Contains(said, "must specify"):
		return fmt.Sprintf("A ResourceQuota of the namespace wants every container to say what it needs: add those resources to the template, or a LimitRange with defaults to namespace %s", namespace)
	case strings.Contains(said, "violates PodSecurity"):
		level, _, _ := strings.Cut(between(said, `PodSecurity "`, `"`), ":")
		return fmt.Sprintf("Correct these fields of the template's securityContext, or lower the namespace's level from %s: `podo kubectl label ns %s --overwrite pod-security.kubernetes.io/enforce=baseline` (or privileged)", level, namespace)
	case strings.Contains(said, "error looking up service account"):
		name := between(said, `serviceaccount "`, `"`)
		return fmt.Sprintf("Create it: `podo kubectl create serviceaccount -n %s %s`, or correct serviceAccountName in the template", namespace, quoted(name))
	case strings.Contains(said, "no PriorityClass with name"):
		return "Create that PriorityClass, or correct priorityClassName in the template"
	case strings.Contains(said, "because it is being terminated"):
		return fmt.Sprintf("Namespace %s is being deleted: make it anew when it has gone", namespace)
	case strings.Contains(said, "maximum ") && strings.Contains(said, " usage per "), strings.Contains(said, "minimum ") && strings.Contains(said, " usage per "):
		return fmt.Sprintf("Keep the template's resources within the namespace's LimitRange: `podo kubectl describe limitrange -n %s`", namespace)
	case strings.Contains(said, "admission webhook"), strings.Contains(said, "ValidatingAdmissionPolicy"):
		return "A policy of the cluster refuses the template: correct what it names"
	case strings.Contains(said, "is invalid"):
		return "Correct the fields that are named in the template"
	}
	return "It is tried again by itself, ever more slowly"
}
