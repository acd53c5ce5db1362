// Package local is the client port over the API server's verbs in the same process: no encoding, no connection, and every
// check that a remote client would meet.
package local

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
)

// Client acts as one user.
type Client struct {
	verbs   *verbs.Verbs
	user    user.Info
	manager string
}

var _ client.Client = (*Client)(nil)

// New makes a client that acts as the named user. Every user is in the group system:authenticated too. What it writes is owned
// by a manager of the user's name; As gives it another.
func New(v *verbs.Verbs, name string, groups ...string) *Client {
	return &Client{verbs: v, user: &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}, manager: name}
}

// As is the client whose writes are managed by the named program, in metadata.managedFields.
func (c *Client) As(manager string) *Client {
	return &Client{verbs: c.verbs, user: c.user, manager: manager}
}

func (c *Client) options() verbs.Options { return verbs.Options{Manager: c.manager} }

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

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, ref client.Ref) (runtime.Object, error) {
	e, err := c.verbs.Get(ctx, c.user, ref, "")
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	return c.verbs.Create(ctx, c.user, ref, obj.DeepCopyObject(), c.options())
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	out, _, err := c.verbs.Update(ctx, c.user, ref, obj.DeepCopyObject(), c.options())
	return own(out), err
}

// Mutate implements client.Client.
func (c *Client) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	out, err := c.verbs.Mutate(ctx, c.user, ref, change, c.options())
	return own(out), err
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	_, _, err := c.verbs.Delete(ctx, c.user, ref, &o, c.options())
	return err
}

// Bind implements client.Client.
func (c *Client) Bind(ctx context.Context, b *v1.Binding) error {
	return c.verbs.Bind(ctx, c.user, b, c.options())
}

// own gives the caller an object that it may change: an update that changed nothing answers with the shared one.
func own(obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	return obj.DeepCopyObject()
}
