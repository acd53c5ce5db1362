package certificatecleaning

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEnd(t *testing.T) {
	made := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	decided := metav1.NewTime(made.Add(30 * time.Minute))
	for _, c := range []struct {
		name   string
		types  []certificatesv1.RequestConditionType
		issued bool
		want   time.Duration // after it was made; 0 for never
	}{
		{"pending", nil, false, 24 * time.Hour},
		{"denied", []certificatesv1.RequestConditionType{"Denied"}, false, 90 * time.Minute},
		{"failed", []certificatesv1.RequestConditionType{"Approved", "Failed"}, false, 90 * time.Minute},
		{"approved", []certificatesv1.RequestConditionType{"Approved"}, false, 24*time.Hour + 30*time.Minute},
		{"issued", []certificatesv1.RequestConditionType{"Approved"}, true, 90 * time.Minute},
		{"something else", []certificatesv1.RequestConditionType{"Seen"}, false, 0},
	} {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: made}}
		for _, typ := range c.types {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: typ, LastUpdateTime: decided})
		}
		if c.issued {
			r.Status.Certificate = []byte("no certificate: its end is not known")
		}
		end, ends := End(r)
		if ends != (c.want != 0) || ends && end.Sub(made.Time) != c.want {
			t.Errorf("%s: %v, %v", c.name, end.Sub(made.Time), ends)
		}
	}
}
