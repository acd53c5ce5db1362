// Package authz decides who may do what. Until RBAC comes the rules are code: system:masters may do anything, the
// control plane's own identities may do what their work needs, a node may touch its own objects, everyone authenticated may
// read discovery, and everyone at all may ask for health and version. Everything else is denied.
package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Attributes say what is asked. Either Resource is set, or Path for a URL that is no resource.
type Attributes struct {
	User        user.Info
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection; lower-case HTTP method for a Path
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Fields      fields.Selector // of list and watch; may be nil
	Path        string
}

// Authorizer decides; reason may say why not.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (allowed bool, reason string)
}

// Check returns nil or a Forbidden error in upstream's words.
func Check(ctx context.Context, z Authorizer, a *Attributes) error {
	ok, reason := z.Authorize(ctx, a)
	if ok {
		return nil
	}
	msg := escape.Replace(message(a))
	if reason != "" {
		msg += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, fmt.Errorf("%s", msg))
}

// escape keeps an error from looking like HTML to a browser.
var escape = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

func message(a *Attributes) string {
	if a.Resource == "" {
		return fmt.Sprintf("User %q cannot %s path %q", a.User.GetName(), a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", a.User.GetName(), a.Verb, resource, a.Group, where)
}

// rule allows verbs on resources; "*" is any. A resource with a subresource is "pods/status".
type rule struct {
	verbs     []string
	group     string
	resources []string
}

func (r rule) allows(a *Attributes) bool {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return match(r.verbs, a.Verb) && (r.group == "*" || r.group == a.Group) && match(r.resources, resource)
}

func match(set []string, s string) bool { return slices.Contains(set, "*") || slices.Contains(set, s) }

var (
	read  = []string{"get", "list", "watch"}
	write = []string{"create", "update", "patch", "delete"}

	// byUser are the rules of the control plane's own identities.
	byUser = map[string][]rule{
		user.KubeScheduler: {
			{read, "", []string{"nodes", "pods", "namespaces"}},
			{[]string{"create", "update", "patch"}, "", []string{"events"}},
			{[]string{"create", "update", "patch"}, "events.k8s.io", []string{"events"}},
			{[]string{"create"}, "", []string{"pods/binding", "bindings"}},
			{[]string{"update", "patch"}, "", []string{"pods/status"}},
			{[]string{"delete"}, "", []string{"pods"}},
			{[]string{"create", "get", "list", "watch", "update"}, "coordination.k8s.io", []string{"leases"}},
		},
		user.KubeControllerManager: {
			{read, "*", []string{"*"}},
			{write, "", []string{"events", "configmaps", "namespaces", "namespaces/status", "namespaces/finalize", "nodes", "nodes/status", "pods", "pods/status", "secrets", "serviceaccounts"}},
			{[]string{"create", "update", "patch"}, "events.k8s.io", []string{"events"}},
			{write, "coordination.k8s.io", []string{"leases"}},
			// Garbage collection and the end of a namespace delete whatever there is.
			{[]string{"delete", "deletecollection", "patch", "update"}, "*", []string{"*"}},
		},
	}

	// public are the paths that anyone may read, discovery those that anyone authenticated may read. A trailing * is any rest.
	public    = []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}
	discovery = []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"}
)

// Rules is the authorizer. Pods answers what a node may see; nil denies nodes what depends on their pods.
type Rules struct{ Pods NodePods }

// Authorize implements Authorizer.
func (z *Rules) Authorize(ctx context.Context, a *Attributes) (bool, string) {
	groups := a.User.GetGroups()
	if slices.Contains(groups, user.SystemPrivilegedGroup) {
		return true, ""
	}
	if a.Resource == "" {
		if a.Verb != "get" && a.Verb != "head" {
			return false, ""
		}
		if under(public, a.Path) {
			return true, ""
		}
		return slices.Contains(groups, user.AllAuthenticated) && under(discovery, a.Path), ""
	}
	if node, ok := NodeName(a.User); ok {
		return z.node(a, node)
	}
	for _, r := range byUser[a.User.GetName()] {
		if r.allows(a) {
			return true, ""
		}
	}
	return false, ""
}

func under(paths []string, path string) bool {
	for _, p := range paths {
		if rest, any := strings.CutSuffix(p, "*"); p == path || any && strings.HasPrefix(path, rest) {
			return true
		}
	}
	return false
}
