package explain

import (
	"fmt"
	"regexp"
	"strings"
)

// refusal is the API server's text for a denied request. Its groups match only what can be used in a command unchanged: a
// container may print such a text to make somebody else's shell do more.
var refusal = regexp.MustCompile(`User "([A-Za-z0-9:._@-]+)" cannot ([a-z]+) resource "([a-z0-9./-]+)" in API group "([a-z0-9.-]*)" (?:in the namespace "([a-z0-9-]+)"|at the cluster scope)`)

// Allow says how to get a right that the API server denied, from the server's text; "" for other texts.
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
