package registry

import (
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/certificates"
)

func certificateSigningRequestKind() *Kind {
	of := func(obj runtime.Object) *certificatesv1.CertificateSigningRequest {
		return obj.(*certificatesv1.CertificateSigningRequest)
	}
	stamp := func(obj, old runtime.Object, now time.Time) { certificates.StampConditions(of(obj), of(old), now) }
	return &Kind{
		GVK:        certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		Resource:   "certificatesigningrequests",
		Singular:   "certificatesigningrequest",
		ShortNames: []string{"csr"},
		Dir:        "certificatesigningrequests",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &certificatesv1.CertificateSigningRequest{} },
		NewList:    func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
		// Any name that fits in a path.
		ValidName:        func(string, bool) []string { return nil },
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(obj runtime.Object) { certificates.PrepareRequest(of(obj)) },
		NoteCreator: func(obj runtime.Object, who authenticationv1.UserInfo) {
			certificates.NoteCreator(of(obj), who)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return certificates.ValidateRequest(of(obj)) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec, of(obj).Status = *of(old).Spec.DeepCopy(), *of(old).Status.DeepCopy()
				},
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return certificates.ValidateRequestUpdate(of(obj), of(old))
				},
				Resets:             []string{"spec", "status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare: func(obj, old runtime.Object) { certificates.PrepareRequestStatus(of(obj), of(old)) },
				Stamp:   stamp,
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return certificates.ValidateRequestStatus(of(obj), of(old))
				},
				Resets:             []string{"spec", "status.conditions"},
				AllowUnconditional: true,
			},
			"approval": {
				Prepare:            func(obj, old runtime.Object) { certificates.PrepareApproval(of(obj), of(old)) },
				Stamp:              stamp,
				Validate:           func(obj, old runtime.Object) field.ErrorList { return certificates.ValidateApproval(of(obj), of(old)) },
				Resets:             []string{"spec", "status.certificate"},
				AllowUnconditional: true,
			},
		},
		Selectable: func(obj runtime.Object) fields.Set {
			return with(clusterFields(obj), "spec.signerName", of(obj).Spec.SignerName)
		},
		Columns: certificates.RequestColumns(nameColumn, ageColumn),
		Row: func(obj runtime.Object, now time.Time) []any {
			return certificates.RequestRow(of(obj), age(of(obj).CreationTimestamp, now))
		},
	}
}

func clusterTrustBundleKind() *Kind {
	of := func(obj runtime.Object) *certificatesv1.ClusterTrustBundle {
		return obj.(*certificatesv1.ClusterTrustBundle)
	}
	return &Kind{
		GVK:      certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
		Resource: "clustertrustbundles",
		Singular: "clustertrustbundle",
		Dir:      "clustertrustbundles",

		StoredVersion: "v1beta1",
		Verbs:         allVerbs,
		New:           func() runtime.Object { return &certificatesv1.ClusterTrustBundle{} },
		NewList:       func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} },
		ValidName:     func(string, bool) []string { return nil },
		ValidNameOf: func(obj runtime.Object) func(string, bool) []string {
			return certificates.BundleName(of(obj).Spec.SignerName)
		},
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return certificates.ValidateBundle(of(obj)) },
		Updates: map[string]Update{"": {
			Prepare: func(_, _ runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return certificates.ValidateBundleUpdate(of(obj), of(old))
			},
		}},
		Selectable: func(obj runtime.Object) fields.Set {
			return with(clusterFields(obj), "spec.signerName", of(obj).Spec.SignerName)
		},
		Columns: certificates.BundleColumns(nameColumn),
		Row:     func(obj runtime.Object, _ time.Time) []any { return certificates.BundleRow(of(obj)) },
	}
}

func podCertificateRequestKind() *Kind {
	of := func(obj runtime.Object) *certificatesv1.PodCertificateRequest {
		return obj.(*certificatesv1.PodCertificateRequest)
	}
	return &Kind{
		GVK:              certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"),
		Resource:         "podcertificaterequests",
		Singular:         "podcertificaterequest",
		Namespaced:       true,
		Dir:              "podcertificaterequests",
		StoredVersion:    "v1beta1",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &certificatesv1.PodCertificateRequest{} },
		NewList:          func() runtime.Object { return &certificatesv1.PodCertificateRequestList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { certificates.DefaultPodRequest(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { of(obj).Status = certificatesv1.PodCertificateRequestStatus{} },
		Validate:         func(obj runtime.Object) field.ErrorList { return certificates.ValidatePodRequest(of(obj)) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) { of(obj).Status = *of(old).Status.DeepCopy() },
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return certificates.ValidatePodRequestUpdate(of(obj), of(old))
				},
				Resets: []string{"status"},
			},
			"status": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec = *of(old).Spec.DeepCopy()
					metav1.ResetObjectMetaForStatus(of(obj), of(old))
				},
				ValidateAt: func(obj, old runtime.Object, now time.Time) field.ErrorList {
					return certificates.ValidatePodRequestStatus(of(obj), of(old), now)
				},
				Resets: []string{"metadata", "spec"},
			},
		},
		Selectable: func(obj runtime.Object) fields.Set { // not by its namespace
			s := &of(obj).Spec
			return with(clusterFields(obj), "spec.signerName", s.SignerName, "spec.podName", s.PodName, "spec.nodeName", string(s.NodeName))
		},
		Columns: certificates.PodRequestColumns(nameColumn),
		Row:     func(obj runtime.Object, _ time.Time) []any { return certificates.PodRequestRow(of(obj)) },
	}
}
