// Package authz decides who may do what. The question and its wording are here; package rbac answers by roles and bindings, package
// node answers kubelets, package policy holds the roles that every cluster has, and package modes puts them together.
package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Attributes say what is asked: about a resource, or about a Path that is none.
type Attributes struct {
	User        user.Info
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection; lower-case HTTP method for a Path
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Fields      fields.Selector // of list, watch and deletecollection; may be nil
	Path        string
}

// OnResource tells whether the question is about a resource.
func (a *Attributes) OnResource() bool { return a.Path == "" }

// Selects tells whether the question is restricted to objects whose field has the value.
func (a *Attributes) Selects(field, value string) bool {
	if a.Fields == nil {
		return false
	}
	return slices.ContainsFunc(a.Fields.Requirements(), func(r fields.Requirement) bool {
		return r.Field == field && r.Value == value && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals)
	})
}

// Authorizer decides; reason says why, or why not. What one authorizer does not allow, another may.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (allowed bool, reason string)
}

// Named is an authorizer of a Union.
type Named struct {
	Name string
	Authorizer
}

// Union allows what any of its authorizers allows, asked in order, and everything to system:masters.
type Union []Named

// Authorize implements Authorizer.
func (l Union) Authorize(ctx context.Context, a *Attributes) (bool, string) {
	_, ok, reason := l.Decide(ctx, a)
	return ok, reason
}

// Decide is Authorize, and names the authorizer that allowed it: "" when none had to be asked.
func (l Union) Decide(ctx context.Context, a *Attributes) (by string, ok bool, reason string) {
	if Superuser(a.User) {
		return "", true, ""
	}
	var reasons []string
	for _, z := range l {
		ok, reason := z.Authorize(ctx, a)
		if ok {
			return z.Name, true, reason
		}
		if reason != "" {
			reasons = append(reasons, z.Name+": "+reason)
		}
	}
	return "", false, strings.Join(reasons, "\n")
}

// Superuser says that u may do anything.
func Superuser(u user.Info) bool { return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) }

// Check returns nil or a Forbidden error in upstream's words.
func Check(ctx context.Context, z Authorizer, a *Attributes) error {
	ok, reason := z.Authorize(ctx, a)
	if watch, is := ctx.Value(watchKey{}).(Watch); is {
		watch(ok, reason)
	}
	if ok {
		return nil
	}
	return Forbidden(a, reason)
}

// Forbidden is the refusal of what a asks.
func Forbidden(a *Attributes, reason string) error {
	msg := escape.Replace(message(a))
	if reason != "" {
		msg += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(msg))
}

// Watch hears of decisions about a request.
type Watch func(allowed bool, reason string)

type watchKey struct{}

// WithWatch is a context in which every Check is reported to w.
func WithWatch(ctx context.Context, w Watch) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// escape keeps an error from looking like HTML to a browser.
var escape = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

func message(a *Attributes) string {
	if !a.OnResource() {
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

const nodeUserPrefix = "system:node:"

// NodeName is the node that a user is the kubelet of; "" with true is a kubelet of no node that can be told.
func NodeName(u user.Info) (string, bool) {
	if !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	name, ok := strings.CutPrefix(u.GetName(), nodeUserPrefix)
	return name, ok
}
