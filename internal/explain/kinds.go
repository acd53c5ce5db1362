package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
)

// volume explains a PersistentVolume.
func volume(o *v1.PersistentVolume) stand {
	out := stand{fine: true}
	claim := ""
	if ref := o.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	switch o.Status.Phase {
	case v1.VolumeBound:
		out.State = "is bound to the claim " + claim
		return out
	case v1.VolumeAvailable:
		out.State = "is free"
		if claim != "" {
			out.State = "is kept for the claim " + claim
		}
		return out
	}
	out.fine = false
	switch o.Status.Phase {
	case v1.VolumeReleased, v1.VolumeFailed:
		out.State = "is released"
		out.Why = fmt.Sprintf("Its claim %s has gone, and its data is still there", claim)
		if o.Status.Phase == v1.VolumeFailed {
			out.State, out.Why = "could not be given back", joined(out.Why, o.Status.Message)
		}
		if o.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRetain {
			out.Why = joined(out.Why, "Its reclaim policy is Retain, so that somebody has to decide")
		}
		out.Do = fmt.Sprintf("For another claim to take it with its data: `podo kubectl patch pv %s -p '{\"spec\":{\"claimRef\":null}}'`; or delete it: `podo kubectl delete pv %s`", o.Name, o.Name)
	default:
		out.State = "has not been looked at yet"
		out.Do = "If this lasts, see whether the controllers run: `podo status`"
	}
	return out
}

// quota explains a ResourceQuota.
func quota(o *v1.ResourceQuota) stand {
	out := stand{fine: true}
	if o.Status.Hard == nil {
		return unseen(0)
	}
	var all, full []string
	for _, name := range slices.Sorted(maps.Keys(o.Status.Hard)) {
		hard, used := o.Status.Hard[name], o.Status.Used[name]
		words := fmt.Sprintf("%s %s of %s", name, used.String(), hard.String())
		all = append(all, words)
		if used.Cmp(hard) >= 0 {
			full = append(full, words)
		}
	}
	if len(full) == 0 {
		out.State, out.Why = "has room", "In use are "+strings.Join(all, ", ")
		return out
	}
	out.State, out.fine = "is used up", false
	out.Why = fmt.Sprintf("In use are %s: what needs more is refused in namespace %s", strings.Join(full, ", "), o.Namespace)
	out.Do = fmt.Sprintf("Raise it: `podo kubectl edit quota -n %s %s`, or end what uses it up: `podo kubectl get all -n %s`", o.Namespace, o.Name, o.Namespace)
	return out
}

// request explains a CertificateSigningRequest.
func request(o *certificatesv1.CertificateSigningRequest) stand {
	out := stand{}
	out.State, out.Since = "waits for somebody's approval", o.CreationTimestamp.Time
	out.Why = fmt.Sprintf("%s asks for a certificate by the signer %s", o.Spec.Username, o.Spec.SignerName)
	out.Do = fmt.Sprintf("If that is as it should be: `podo kubectl certificate approve %s`, otherwise deny it. What nobody decides goes after a day", o.Name)
	for _, c := range o.Status.Conditions {
		if c.Status == v1.ConditionFalse {
			continue
		}
		said := joined(out.Why, strings.TrimPrefix(c.Reason+": "+c.Message, ": "))
		switch c.Type {
		case certificatesv1.CertificateApproved:
			if out.State, out.Since, out.Do = "is approved, and waits for its signer", c.LastUpdateTime.Time, "See whether the program that signs for "+o.Spec.SignerName+" runs"; len(o.Status.Certificate) > 0 {
				out.State, out.Do, out.fine = "has its certificate", "", true
			}
		case certificatesv1.CertificateDenied:
			out.State, out.Since, out.Why, out.Do = "was denied", c.LastUpdateTime.Time, said, "Ask anew, for what may be had"
			return out
		case certificatesv1.CertificateFailed:
			out.State, out.Since, out.Why, out.Do = "has failed", c.LastUpdateTime.Time, said, "Ask anew, as the signer wants it"
			return out
		}
	}
	return out
}

// any explains an object of any other kind: only its deletion, or a warning about it.
func (own Owner) any() stand {
	out := stand{fine: own.newest() == nil}
	out.State = "is there"
	if out.fine {
		out.Why = "Nobody has warned of it lately"
	}
	return out
}
