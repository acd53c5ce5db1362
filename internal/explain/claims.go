package explain

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	defaultClass  = "storageclass.kubernetes.io/is-default-class"
	noProvisioner = "kubernetes.io/no-provisioner"
)

// claims explains the pod's claims that keep it from a node because they are missing or not bound; "" when there are none.
func (f Facts) claims() (why, do string) {
	namespace := f.Pod.Namespace
	for _, v := range f.Pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		obj, known := f.cluster().Get("persistentvolumeclaims", namespace, name)
		claim, _ := obj.(*v1.PersistentVolumeClaim)
		switch {
		case !known:
		case claim == nil:
			why = joined(why, fmt.Sprintf("The claim %s of its volume %s does not exist in namespace %s", name, v.Name, namespace))
			do = joined(do, fmt.Sprintf("Create the PersistentVolumeClaim %s, or correct claimName in the pod; it then goes on by itself", name))
		case claim.DeletionTimestamp != nil:
			why = joined(why, fmt.Sprintf("The claim %s of its volume %s is being deleted", name, v.Name))
			do = joined(do, "Make the claim anew when it has gone")
		case claim.Status.Phase != v1.ClaimBound:
			c := claimed(f.cluster(), claim)
			if c.waits {
				continue // for this very pod
			}
			why = joined(why, fmt.Sprintf("Its volume %s is the claim %s, which is not bound: %s", v.Name, name, lower(c.Why)))
			do = joined(do, c.Do)
		}
	}
	return why, do
}

func lower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// claimState is how a claim stands.
type claimState struct {
	Finding
	waits bool // for a pod that uses it, as its class says
	fine  bool
}

// claimed explains a claim.
func claimed(c Cluster, claim *v1.PersistentVolumeClaim) (out claimState) {
	out.Since = claim.CreationTimestamp.Time
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	switch {
	case claim.Status.Phase == v1.ClaimBound:
		out.Since = time.Time{}
		out.State, out.fine = fmt.Sprintf("is bound to the volume %s", claim.Spec.VolumeName), true
		return out
	case claim.Status.Phase == v1.ClaimLost:
		out.State = "has lost its volume " + claim.Spec.VolumeName
		out.Why, out.Do = "The PersistentVolume that it was bound to is gone, and its data with it as far as the cluster knows", "Restore the data into a new claim"
		return out
	}
	out.State = "waits for a volume"
	if claim.Spec.VolumeName != "" {
		out.Why = fmt.Sprintf("It asks for the PersistentVolume %s, which is not there, not free or does not fit", claim.Spec.VolumeName)
		out.Do = "Create that volume, or make the claim anew without spec.volumeName"
		return out
	}
	wish := fmt.Sprintf("%s, %s", size.String(), modes(claim.Spec.AccessModes))
	byHand := fmt.Sprintf("Create a PersistentVolume that fits (%s), or make the claim anew with a class that makes volumes%s", wish, among(classes(c)))
	name := claim.Spec.StorageClassName
	switch {
	case name == nil:
		out.Why = "It names no StorageClass, and the cluster has no default one"
		out.Do = "Make a class the default, or name one" + among(classes(c))
		return out
	case *name == "":
		out.Why = fmt.Sprintf("It says storageClassName \"\", so that nobody makes a volume for it, and no free PersistentVolume without a class fits (%s)", wish)
		out.Do = byHand
		return out
	}
	obj, known := c.Get("storageclasses", "", *name)
	class, _ := obj.(*storagev1.StorageClass)
	switch {
	case !known:
		out.Why = fmt.Sprintf("Nobody has made a volume of its class %s (%s) yet", *name, wish)
	case class == nil:
		out.Why = fmt.Sprintf("Its StorageClass %s does not exist, and no free PersistentVolume of that class fits (%s)", *name, wish)
		out.Do = fmt.Sprintf("Create the StorageClass %s, or delete the claim and make it anew with a class that there is%s: a claim's class cannot be changed", *name, among(classes(c)))
	case class.Provisioner == noProvisioner:
		out.Why = fmt.Sprintf("Its class %s makes no volumes, and no free PersistentVolume of that class fits (%s)", *name, wish)
		out.Do = byHand
	case class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer:
		out.State, out.waits, out.fine = "waits for a pod that uses it", true, true
		out.Why = fmt.Sprintf("Its class %s makes volumes where their pods run", *name)
	default:
		out.Why = fmt.Sprintf("Nobody has made a volume of its class %s yet: its provisioner is %s", *name, class.Provisioner)
		out.Do = "See whether that provisioner runs: `podo kubectl get pods -A`"
	}
	return out
}

func among(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (there are: " + listed(names) + ")"
}

// classes are the names of the cluster's StorageClasses that make volumes.
func classes(c Cluster) (out []string) {
	for _, obj := range c.List("storageclasses", "") {
		class, ok := obj.(*storagev1.StorageClass)
		if !ok || class.Provisioner == noProvisioner {
			continue
		}
		name := class.Name
		if class.Annotations[defaultClass] == "true" {
			name += " by default"
		}
		out = append(out, name)
	}
	return out
}

func modes(all []v1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range all {
		out = append(out, string(m))
	}
	return strings.Join(out, "+")
}
