// Package local is the client port over the API server's verbs in the same process: no encoding, no connection, and every
// check that a remote client would meet.
package local

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
)

// Client acts as one user.
type Client struct {
	verbs   *verbs.Verbs
	user    user.Info
	manager string
	part    string
}

var _ client.Client = (*Client)(nil)

// New makes a client that acts as the named user. Every user is in the group system:authenticated too. What it writes is owned
// by a manager of the user's name; As gives it another.
func New(v *verbs.Verbs, name string, groups ...string) *Client {
	return &Client{verbs: v, user: &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}, manager: name}
}

// As is the client whose writes are managed by the named program, in metadata.managedFields.
func (c *Client) As(manager string) *Client {
	return &Client{verbs: c.verbs, user: c.user, manager: manager, part: c.part}
}

// Be says which part of its user's program the client is: timelines name it as who created and deleted pods. It is said before the
// client is used.
func (c *Client) Be(part string) { c.part = part }

func (c *Client) options() verbs.Options { return verbs.Options{Manager: c.manager, Part: c.part} }

// The users that a server's own parts act as. Their fields are managed under upstream's names, which tools know.

// Admin may do anything; it is for what the server itself sets up.
func Admin(v *verbs.Verbs) *Client {
	return New(v, user.APIServerUser, user.SystemPrivilegedGroup).As("kube-apiserver")
}

// Scheduler is the scheduler's user.
func Scheduler(v *verbs.Verbs) *Client { return New(v, user.KubeScheduler).As("kube-scheduler") }

// Controllers is the controllers' user.
func Controllers(v *verbs.Verbs) *Client {
	return New(v, user.KubeControllerManager).As("kube-controller-manager")
}

// Node is the user of a node's kubelet.
func Node(v *verbs.Verbs, name string) *Client {
	return New(v, "system:node:"+name, user.NodesGroup).As("kubelet")
}

// begin tells of a request before it is made, and returns whom to tell how it ended.
func (c *Client) begin(ctx context.Context, verb string, ref client.Ref, obj runtime.Object) (context.Context, func(runtime.Object, error)) {
	return c.verbs.Inside(ctx, c.user, c.manager, verb, ref, obj)
}

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, ref client.Ref) (runtime.Object, error) {
	ctx, end := c.begin(ctx, "get", ref, nil)
	e, err := c.verbs.Get(ctx, c.user, ref, "")
	if err != nil {
		end(nil, err)
		return nil, err
	}
	end(e.Object, nil)
	return e.Object, nil
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	ctx, end := c.begin(ctx, "create", ref, obj)
	out, err := c.verbs.Create(ctx, c.user, ref, obj.DeepCopyObject(), c.options())
	end(out, err)
	return out, err
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	ctx, end := c.begin(ctx, "update", ref, obj)
	out, _, err := c.verbs.Update(ctx, c.user, ref, obj.DeepCopyObject(), c.options())
	end(out, err)
	return own(out), err
}

// Mutate implements client.Client.
func (c *Client) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	ctx, end := c.begin(ctx, "update", ref, nil)
	out, err := c.verbs.Mutate(ctx, c.user, ref, change, c.options())
	end(out, err)
	return own(out), err
}

// Apply implements client.Client.
func (c *Client) Apply(ctx context.Context, ref client.Ref, config []byte, manager string) (runtime.Object, error) {
	ctx, end := c.begin(ctx, "patch", ref, nil)
	o := c.options()
	o.Manager = manager
	out, _, err := c.verbs.Patch(ctx, c.user, ref, verbs.Patch{Type: types.ApplyYAMLPatchType, Data: config, Force: true}, o)
	end(out, err)
	return own(out), err
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	ctx, end := c.begin(ctx, "delete", ref, nil)
	out, _, err := c.verbs.Delete(ctx, c.user, ref, &o, c.options())
	end(out, err)
	return err
}

// DeleteCollection deletes all objects of a kind in a namespace.
func (c *Client) DeleteCollection(ctx context.Context, r schema.GroupResource, namespace string) error {
	ref := client.Ref{Resource: r, Namespace: namespace}
	ctx, end := c.begin(ctx, "deletecollection", ref, nil)
	_, err := c.verbs.DeleteCollection(ctx, c.user, ref, &metav1.DeleteOptions{}, &internalversion.ListOptions{}, c.options())
	end(nil, err)
	return err
}

// Bind implements client.Client.
func (c *Client) Bind(ctx context.Context, bindings []*v1.Binding, told func(i int, err error)) {
	asked, ends := make([]verbs.Asked, len(bindings)), make([]func(runtime.Object, error), len(bindings))
	for i, b := range bindings {
		asked[i].Binding = b
		asked[i].Context, ends[i] = c.begin(ctx, "create", client.Pods.At(b.Namespace, b.Name).Sub("binding"), b)
	}
	c.verbs.BindAll(ctx, c.user, asked, c.options(), func(i int, err error) {
		ends[i](nil, err)
		told(i, err)
	})
}

// own gives the caller an object that it may change: an update that changed nothing answers with the shared one.
func own(obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	return obj.DeepCopyObject()
}
