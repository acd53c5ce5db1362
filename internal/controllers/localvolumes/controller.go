package localvolumes

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/localclass"
	"podo.dev/podo/internal/view"
)

var (
	nodes   = schema.GroupResource(client.Nodes)
	claims  = schema.GroupResource(client.Claims)
	volumes = schema.GroupResource(client.Volumes)
	classes = schema.GroupResource(client.StorageClasses)
)

// Config is what the controller is made of. All but Logger are required.
type Config struct {
	View   *view.View
	Client client.Client
	Events record.EventRecorder
	// Remove has a node delete the folder of a volume; one that is not there any more is no error.
	Remove func(ctx context.Context, node *v1.Node, volume string) error
	Logger *slog.Logger
}

type controller struct{ Config }

// New makes the controller. Its keys are claims by namespace and name, and volumes by name alone.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || c.Events == nil || c.Remove == nil {
		return nil, errors.New("localvolumes: View, Client, Events and Remove are required")
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "local-volumes", View: c.View, Start: k.ensureClass, Reconcile: k.reconcile, Workers: 4, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: claims, Keys: func(c view.Change) []view.Key {
				if c.New == nil || !wants(c.New.Object.(*v1.PersistentVolumeClaim)) {
					return nil
				}
				return []view.Key{c.New.Key}
			}},
			{Resource: volumes, Keys: func(c view.Change) []view.Key {
				if c.New == nil || !localclass.Ours(c.New.Object.(*v1.PersistentVolume)) {
					return nil
				}
				return []view.Key{c.New.Key}
			}},
			{Resource: nodes, Keys: k.ofNode},
		},
	})
}

// ofNode: the volumes of a node that has come.
func (k *controller) ofNode(c view.Change) (out []view.Key) {
	if c.Old != nil || c.New == nil {
		return nil
	}
	for e := range k.View.Snapshot().All(volumes, "", view.Key{}) {
		if pv := e.Object.(*v1.PersistentVolume); localclass.Ours(pv) && host(pv) == c.New.Meta.GetLabels()[v1.LabelHostname] {
			out = append(out, e.Key)
		}
	}
	return out
}

// made is the annotation of the namespace kube-system which says that the cluster has had its default class: whoever deletes that does
// not get it back.
const made = "podo.dev/default-storage-class"

func (k *controller) ensureClass(ctx context.Context) error {
	system := client.Namespaces.At("", metav1.NamespaceSystem)
	obj, err := k.Client.Get(ctx, system)
	if err != nil {
		return err
	}
	if obj.(*v1.Namespace).Annotations[made] != "" {
		return nil
	}
	if _, err := k.Client.Create(ctx, client.StorageClasses.At("", ""), localclass.Class()); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = k.Client.Mutate(ctx, system, func(o runtime.Object) (bool, error) {
		metav1.SetMetaDataAnnotation(&o.(*v1.Namespace).ObjectMeta, made, localclass.ClassName)
		return true, nil
	})
	return err
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	var wrote int64
	var err error
	if key.Namespace == "" {
		wrote, err = k.volume(ctx, s, key.Name)
	} else {
		wrote, err = k.claim(ctx, s, key)
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return loop.Result{Wrote: wrote}, err
}

func (k *controller) claim(ctx context.Context, s view.Snapshot, key view.Key) (int64, error) {
	e := s.Get(claims, key.Namespace, key.Name)
	if e == nil || !wants(e.Object.(*v1.PersistentVolumeClaim)) {
		return 0, nil
	}
	c := e.Object.(*v1.PersistentVolumeClaim)
	class := s.Get(classes, "", storagehelpers.GetPersistentVolumeClaimClass(c))
	if class == nil || class.Object.(*storagev1.StorageClass).Provisioner != localclass.Provisioner {
		return 0, nil
	}
	selected := c.Annotations[storagehelpers.AnnSelectedNode]
	if mode := class.Object.(*storagev1.StorageClass).VolumeBindingMode; selected == "" && mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer {
		return 0, nil // it waits for a pod
	}
	var node *v1.Node
	if e := s.Get(nodes, "", selected); selected != "" && e != nil {
		node = e.Object.(*v1.Node)
	}
	pv, err := Provision(c, class.Object.(*storagev1.StorageClass), node)
	if err != nil {
		k.Events.Event(c, v1.EventTypeWarning, "ProvisioningFailed", err.Error())
		return k.elsewhere(ctx, c, selected)
	}
	if s.Get(volumes, "", pv.Name) != nil {
		return 0, nil // the binder has it
	}
	k.Events.Eventf(c, v1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", c.Namespace+"/"+c.Name)
	out, err := k.Client.Create(ctx, client.Volumes.At("", ""), pv)
	switch {
	case apierrors.IsAlreadyExists(err):
		return 0, nil
	case err != nil:
		k.Events.Eventf(c, v1.EventTypeWarning, "ProvisioningFailed", "Error creating provisioned PV object for claim %s: %v", c.Namespace+"/"+c.Name, err)
		return 0, err
	}
	k.Events.Eventf(c, v1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", pv.Name)
	return loop.Revision(out), nil
}

// elsewhere takes the chosen node out of a claim: the scheduler tries its pod again.
func (k *controller) elsewhere(ctx context.Context, c *v1.PersistentVolumeClaim, node string) (int64, error) {
	if node == "" {
		return 0, nil
	}
	out, err := k.Client.Mutate(ctx, client.Claims.At(c.Namespace, c.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.PersistentVolumeClaim)
		if fresh.UID != c.UID || fresh.Spec.VolumeName != "" || fresh.Annotations[storagehelpers.AnnSelectedNode] != node {
			return false, nil
		}
		delete(fresh.Annotations, storagehelpers.AnnSelectedNode)
		return true, nil
	})
	return loop.Revision(out), err
}

func (k *controller) volume(ctx context.Context, s view.Snapshot, name string) (int64, error) {
	e := s.Get(volumes, "", name)
	if e == nil {
		return 0, nil
	}
	pv := e.Object.(*v1.PersistentVolume)
	var node *v1.Node
	for n := range s.All(nodes, "", view.Key{}) {
		if n.Meta.GetLabels()[v1.LabelHostname] == host(pv) {
			node = n.Object.(*v1.Node)
		}
	}
	switch Delete(pv, node) {
	case Remove:
		if err := k.Remove(ctx, node, pv.Name); err != nil {
			k.Events.Event(pv, v1.EventTypeWarning, "VolumeFailedDelete", err.Error())
			return 0, err
		}
		return k.forget(ctx, pv)
	case Forget:
		return k.forget(ctx, pv)
	case NodeGone:
		k.Events.Eventf(pv, v1.EventTypeWarning, "VolumeFailedDelete", "the volume's node %q is not there: delete the volume to forget it", host(pv))
	}
	return 0, nil
}

// forget deletes a volume whose folder needs no more care.
func (k *controller) forget(ctx context.Context, pv *v1.PersistentVolume) (int64, error) {
	ref := client.Volumes.At("", pv.Name)
	if pv.DeletionTimestamp == nil {
		if err := k.Client.Delete(ctx, ref, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pv.UID}}); err != nil {
			return 0, err
		}
	}
	out, err := k.Client.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.PersistentVolume)
		if fresh.UID != pv.UID || !slices.Contains(fresh.Finalizers, localclass.Finalizer) {
			return false, nil
		}
		fresh.Finalizers = slices.DeleteFunc(fresh.Finalizers, func(f string) bool { return f == localclass.Finalizer })
		return true, nil
	})
	return loop.Revision(out), err
}
