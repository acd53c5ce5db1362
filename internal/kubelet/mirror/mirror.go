// Package mirror keeps a pod in the API for each static pod of this node, so that users see it. The static pod is what is
// wanted; its mirror is a picture:
//
//	static pod begins ──► mirror created ──► (someone deletes it) ──► deleted at once, created anew; nothing else happens
//	its manifest changes, or goes ──► the pod ends ──► mirror deleted
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/podlife"
)

// Config is what a Keeper needs. All fields must be set.
type Config struct {
	Client client.Client
	// Node is this node as the API has it, nil while there is none: mirrors belong to it.
	Node func() *v1.Node
	Pods Pods
	Log  *slog.Logger
}

// Pods is what the keeper asks about the pods of this node.
type Pods interface {
	// Static is the static pod that has the name now; nil when there is none, or when one before it has not ended. ending says that
	// a static pod of the name is still on its way out: its mirror stays until it has gone.
	Static(name types.NamespacedName) (pod *v1.Pod, ending bool)
	// Mirror is the mirror pod of that name as the API has it, or nil.
	Mirror(name types.NamespacedName) *v1.Pod
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Client == nil || c.Node == nil || c.Pods == nil || c.Log == nil {
		return errors.New("mirror: Client, Node, Pods and Log must be set")
	}
	return nil
}

// Keeper is the only writer of mirror pods.
type Keeper struct {
	cfg Config

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	early map[types.NamespacedName]bool // woken before Run
}

// New makes a Keeper.
func New(cfg Config) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Keeper{cfg: cfg, early: map[types.NamespacedName]bool{}}, nil
}

// Wake says that something happened to the static pod of a name, or to its mirror. It does not block.
func (k *Keeper) Wake(name types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queue == nil {
		k.early[name] = true
		return
	}
	k.queue.Add(name)
}

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context, ready func()) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 30*time.Second))
	k.mu.Lock()
	k.queue = queue
	for name := range k.early {
		queue.Add(name)
	}
	clear(k.early)
	k.mu.Unlock()
	ready()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for {
		name, down := queue.Get()
		if down {
			break
		}
		if err := k.sync(ctx, name); err != nil && ctx.Err() == nil {
			if queue.NumRequeues(name)%8 == 0 {
				k.cfg.Log.Warn("the mirror of a static pod cannot be kept, will try again", "pod", name, "err", err)
			}
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
	k.mu.Lock()
	k.queue = nil
	k.mu.Unlock()
	return nil
}

func (k *Keeper) sync(ctx context.Context, name types.NamespacedName) error {
	pod, ending := k.cfg.Pods.Static(name)
	have := k.cfg.Pods.Mirror(name)
	switch {
	case have != nil && pod != nil && have.DeletionTimestamp == nil && podlife.Mirrors(have, pod):
		return nil
	case have != nil && (pod != nil || !ending):
		return k.remove(ctx, have) // its going wakes us again
	case have == nil && pod != nil:
		return k.create(ctx, pod)
	}
	return nil
}

func (k *Keeper) remove(ctx context.Context, have *v1.Pod) error {
	zero := int64(0)
	err := k.cfg.Client.Delete(ctx, client.Pods.At(have.Namespace, have.Name),
		metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &have.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it has gone already
	}
	return err
}

func (k *Keeper) create(ctx context.Context, pod *v1.Pod) error {
	node := k.cfg.Node()
	if node == nil || node.UID == "" {
		return errors.New("the node is not registered yet")
	}
	m := pod.DeepCopy()
	m.ObjectMeta = metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, Labels: m.Labels, Annotations: maps.Clone(pod.Annotations),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}},
	}
	m.Annotations[v1.MirrorPodAnnotationKey] = pod.Annotations[podlife.HashAnnotation]
	m.Status = v1.PodStatus{}
	_, err := k.cfg.Client.Create(ctx, client.Pods.At(pod.Namespace, ""), m)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	obj, gerr := k.cfg.Client.Get(ctx, client.Pods.At(pod.Namespace, pod.Name))
	if gerr != nil {
		return gerr
	}
	if have, ok := obj.(*v1.Pod); ok && have.DeletionTimestamp == nil && podlife.Mirrors(have, pod) {
		return nil // what was just created has not been seen yet
	}
	return fmt.Errorf("the name is taken by another pod: %w", err)
}
