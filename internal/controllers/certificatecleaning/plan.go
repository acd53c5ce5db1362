// Package certificatecleaning deletes requests for certificates that have had their time: what was decided an hour ago, what nobody
// decided in a day, and those of pods after a quarter of an hour.
package certificatecleaning

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	decided = time.Hour
	pending = 24 * time.Hour
	ofPods  = 15 * time.Minute
)

// PodRequestEnd is when a pod's request goes.
func PodRequestEnd(r *certificatesv1.PodCertificateRequest) time.Time {
	return r.CreationTimestamp.Add(ofPods)
}

// End is when a request goes, as it is now; false says that it stays until it changes.
func End(r *certificatesv1.CertificateSigningRequest) (end time.Time, ends bool) {
	before := func(t time.Time) {
		if !ends || t.Before(end) {
			end, ends = t, true
		}
	}
	after := func(since metav1.Time, d time.Duration) {
		if !since.IsZero() {
			before(since.Add(d))
		}
	}
	if len(r.Status.Conditions) == 0 {
		after(r.CreationTimestamp, pending)
	}
	issued := len(r.Status.Certificate) > 0
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			after(c.LastUpdateTime, decided)
		case certificatesv1.CertificateApproved:
			if !issued {
				after(c.LastUpdateTime, pending)
				continue
			}
			after(c.LastUpdateTime, decided)
			if block, _ := pem.Decode(r.Status.Certificate); block != nil {
				if list, err := x509.ParseCertificates(block.Bytes); err == nil && len(list) > 0 {
					before(list[0].NotAfter)
				}
			}
		}
	}
	return end, ends
}
