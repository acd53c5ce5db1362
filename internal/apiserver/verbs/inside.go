package verbs

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/client"
)

// Inside records in the audit log that one of the server's own parts, called agent, makes a request as u with obj, which may be
// nil. The part goes on with the returned context, and reports the outcome by the returned function.
func (v *Verbs) Inside(ctx context.Context, u user.Info, agent, verb string, ref client.Ref, obj runtime.Object) (context.Context, func(out runtime.Object, err error)) {
	k := v.Kind(ref.Resource)
	if v.c.Audit == nil || k == nil {
		return ctx, nobody
	}
	c := &audit.Call{Version: k.GVK.Version, Agent: agent, Attributes: authz.Attributes{
		User: u, Verb: verb, Group: ref.Resource.Group, Resource: ref.Resource.Resource, Subresource: ref.Subresource, Namespace: ref.Namespace, Name: ref.Name,
	}}
	ctx, q := v.c.Audit.Inside(ctx, c, v.c.Now())
	if q == nil {
		return ctx, nobody
	}
	c.Brings(q, obj)
	code := http.StatusOK
	if verb == "create" {
		code = http.StatusCreated
	}
	return ctx, func(out runtime.Object, err error) {
		if verb == "update" && err == nil && obj == nil {
			c.Brings(q, out) // the object was edited in place: the written one is the requested one
		}
		q.Ended(code, out, err)
	}
}

func nobody(runtime.Object, error) {}
