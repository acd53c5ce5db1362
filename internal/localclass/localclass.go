// Package localclass is what the control plane and the nodes know of Podo's own storage class: volumes that are folders on the pod's
// node. It is pure. Decision 0011 says who does what.
package localclass

import (
	"errors"
	"fmt"
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/registry/storageobject"
)

const (
	// Provisioner is what classes name whose volumes are made here.
	Provisioner = "podo.dev/local"
	// ClassName is the class that a new cluster has.
	ClassName = "local"
	// Folders is the annotation with which a node says where its volumes are.
	Folders = "podo.dev/local-volumes"
	// Path is where a kubelet's server takes the deletion of a volume's folder: Path + the volume's name.
	Path = "/podo/volumes/"
	// Finalizer keeps a volume until its folder has gone. It is the one that provisioners outside of Kubernetes use.
	Finalizer = storagehelpers.PVDeletionProtectionFinalizer
)

// Class is the default class of a new cluster.
func Class() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: ClassName, Annotations: map[string]string{storageobject.IsDefaultClass: "true"}},
		Provisioner:       Provisioner,
		ReclaimPolicy:     new(v1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// Folder is where a volume is below the folder of a node's volumes.
func Folder(of, volume string) string { return path.Join(of, volume) }

// Ours tells whether a volume was made here.
func Ours(pv *v1.PersistentVolume) bool {
	return pv.Annotations[storagehelpers.AnnDynamicallyProvisioned] == Provisioner
}

// Volume is the volume for a claim on a node, or why there can be none.
func Volume(c *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) (*v1.PersistentVolume, error) {
	if err := possible(c); err != nil {
		return nil, err
	}
	folders, host := node.Annotations[Folders], node.Labels[v1.LabelHostname]
	if folders == "" || host == "" {
		return nil, fmt.Errorf("node %q does not say where its volumes are: it needs the annotation %s and the label %s", node.Name, Folders, v1.LabelHostname)
	}
	name := "pvc-" + string(c.UID)
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: Provisioner},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: Folder(folders, name)}},
			Capacity:                      v1.ResourceList{v1.ResourceStorage: c.Spec.Resources.Requests[v1.ResourceStorage]},
			AccessModes:                   c.Spec.AccessModes,
			VolumeMode:                    new(v1.PersistentVolumeFilesystem),
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			StorageClassName:              storagehelpers.GetPersistentVolumeClaimClass(c),
			MountOptions:                  class.MountOptions,
			ClaimRef: &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion,
			},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
	}
	if p := class.ReclaimPolicy; p != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *p
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
		pv.Finalizers = []string{Finalizer}
	}
	return pv, nil
}

// possible says why no folder can be what a claim asks for, on whatever node.
func possible(c *v1.PersistentVolumeClaim) error {
	switch s := &c.Spec; {
	case s.VolumeMode != nil && *s.VolumeMode != v1.PersistentVolumeFilesystem:
		return errors.New("its volumes are folders: volumeMode must be Filesystem")
	case slices.ContainsFunc(s.AccessModes, func(m v1.PersistentVolumeAccessMode) bool {
		return m != v1.ReadWriteOnce && m != v1.ReadWriteOncePod
	}):
		return errors.New("its volumes are on one node: only ReadWriteOnce and ReadWriteOncePod are supported")
	case s.Selector != nil:
		return errors.New("claim.spec.selector is not supported")
	case s.DataSource != nil || s.DataSourceRef != nil:
		return errors.New("claim.spec.dataSource is not supported")
	case s.VolumeAttributesClassName != nil && *s.VolumeAttributesClassName != "":
		return errors.New("claim.spec.volumeAttributesClassName is not supported")
	}
	return nil
}
