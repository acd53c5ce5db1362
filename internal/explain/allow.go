package explain

import (
	"fmt"
	"regexp"
	"strings"
)

// refusal is how the API server says that somebody may not. What it lets through can stand in a command as it is: a container may write such
// words, too, to have somebody else's shell do more than they say.
var refusal = regexp.MustCompile(`User "([A-Za-z0-9:._@-]+)" cannot ([a-z]+) resource "([a-z0-9./-]+)" in API group "([a-z0-9.-]*)" (?:in the namespace "([a-z0-9-]+)"|at the cluster scope)`)

// Allow tells how somebody gets the right that the API server says he has not, from its words; "" when they are other words.
func Allow(said string) string {
	m := refusal.FindStringSubmatch(said)
	if m == nil {
		return ""
	}
	who, verb, what, group, namespace := m[1], m[2], m[3], m[4], m[5]
	what, sub, _ := strings.Cut(what, "/")
	if group != "" {
		what += "." + group
	}
	if sub != "" {
		what += "/" + sub
	}
	subject, name := "--user="+who, strings.NewReplacer(":", "-", "/", "-", "@", "-").Replace(who)
	if account, ok := strings.CutPrefix(who, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + account
		name = account[strings.LastIndex(account, ":")+1:]
	}
	if name == "" || strings.HasPrefix(name, "-") {
		return "" // a command would take it for an option
	}
	name = strings.ToLower(name) + "-" + verb + "-" + strings.ReplaceAll(strings.ReplaceAll(what, "/", "-"), ".", "-")
	role, where := "role", " -n "+namespace
	if namespace == "" {
		role, where = "clusterrole", ""
	}
	binding := map[string]string{"role": "rolebinding", "clusterrole": "clusterrolebinding"}[role]
	return fmt.Sprintf("If %s should be allowed to: `podo kubectl create %s %s%s --verb=%s --resource=%s && podo kubectl create %s %s%s --%s=%s %s`",
		who, role, name, where, verb, what, binding, name, where, role, name, subject)
}
