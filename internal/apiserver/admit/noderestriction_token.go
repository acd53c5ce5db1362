package admit

import (
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/authz"
)

// token: a kubelet requests tokens for its pods' accounts, bound to the pod, for audiences that the pod uses.
func (r *restriction) token() error {
	t, _ := r.Object.(*authenticationv1.TokenRequest)
	if r.Op != Create || r.Ref.Subresource != "token" || t == nil {
		return nil
	}
	ref := t.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return r.refuse("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return r.refuse("node requested token with a pod binding without a uid")
	}
	pod, err := r.pod(ref.Name)
	if err != nil {
		return err
	}
	if ref.UID != pod.UID {
		return r.refuse(fmt.Sprintf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	if pod.Spec.NodeName != r.node {
		return r.refuse("node requested token bound to a pod scheduled on a different node")
	}
	return r.refuse(r.audience(pod, t.Spec.Audiences))
}

func (r *restriction) audience(pod *v1.Pod, audiences []string) string {
	if len(audiences) > 1 {
		return "node may only request 0 or 1 audiences"
	}
	audience := strings.Join(audiences, "")
	named, err := r.wants(pod, audience)
	if named {
		return ""
	}
	if err != nil {
		return fmt.Sprintf("error validating audience %q: %v", audience, err)
	}
	ok, _ := r.x.Authorizer.Authorize(r.ctx, &authz.Attributes{
		User: r.User, Verb: "request-serviceaccounts-token-audience", Resource: audience, Namespace: r.Ref.Namespace, Name: r.Ref.Name,
	})
	if ok {
		return ""
	}
	return fmt.Sprintf("%s is not authorized to request tokens for audience %q", r.User.GetName(), audience)
}

// wants tells whether a pod uses tokens for an audience: in projected volumes, or by the CSI drivers of its other volumes.
func (r *restriction) wants(pod *v1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience {
					return true, nil
				}
			}
		}
		named, err := r.driverWants(pod, v, audience)
		if named {
			return true, nil
		}
		errs = append(errs, err)
	}
	return false, errors.Join(errs...)
}

var (
	claimResource  = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumeResource = schema.GroupResource{Resource: "persistentvolumes"}
	driverResource = schema.GroupResource{Group: storagev1.GroupName, Resource: "csidrivers"}
)

// driverWants checks the CSI driver of a volume, which the volume names or the PersistentVolume of its claim.
func (r *restriction) driverWants(pod *v1.Pod, v *v1.Volume, audience string) (bool, error) {
	now, name, claim := r.x.View.Snapshot(), "", ""
	switch {
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		claim = pod.Name + "-" + v.Name
	case v.PersistentVolumeClaim != nil:
		claim = v.PersistentVolumeClaim.ClaimName
	case v.CSI != nil:
		name = v.CSI.Driver
	}
	if claim != "" {
		c := now.Get(claimResource, pod.Namespace, claim)
		if c == nil {
			return false, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaim"}, claim)
		}
		bound := c.Object.(*v1.PersistentVolumeClaim).Spec.VolumeName
		e := now.Get(volumeResource, "", bound)
		if e == nil {
			return false, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolume"}, bound)
		}
		if csi := e.Object.(*v1.PersistentVolume).Spec.CSI; csi != nil {
			name = csi.Driver
		}
	}
	if name == "" {
		return false, nil
	}
	d := now.Get(driverResource, "", name)
	if d == nil {
		return false, apierrors.NewNotFound(schema.GroupResource{Group: storagev1.GroupName, Resource: "csidriver"}, name)
	}
	for _, t := range d.Object.(*storagev1.CSIDriver).Spec.TokenRequests {
		if t.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}
