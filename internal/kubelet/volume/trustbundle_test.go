package volume

import (
	"context"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/kubelet/objects"
)

func bundle(name, signer string, anchors ...string) *certificatesv1.ClusterTrustBundle {
	b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"n": name[len(name)-1:]}}}
	b.Spec.SignerName = signer
	for _, a := range anchors {
		b.Spec.TrustBundle += "in words\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(a)}))
	}
	return b
}

// setBundle writes a bundle and tells.
func (a *api) setBundle(b *certificatesv1.ClusterTrustBundle) {
	a.mu.Lock()
	if a.bundles == nil {
		a.bundles = map[string]*certificatesv1.ClusterTrustBundle{}
	}
	a.bundles[b.Name] = b
	told := a.told
	a.mu.Unlock()
	if told != nil {
		told([]objects.Ref{{Kind: objects.TrustBundle}})
	}
}

// shown are the trust anchors of a file, sorted.
func (n *testNode) shown(t *testing.T, p *v1.Pod, file string) (out []string) {
	t.Helper()
	text := []byte(n.read(t, p, "proj", file))
	if strings.Contains(string(text), "words") {
		t.Error("it shows more than trust anchors")
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		out = append(out, string(block.Bytes))
	}
	slices.Sort(out)
	return out
}

func TestTrustBundles(t *testing.T) {
	source := func(change func(*v1.ClusterTrustBundleProjection)) v1.VolumeProjection {
		s := &v1.ClusterTrustBundleProjection{}
		change(s)
		return v1.VolumeProjection{ClusterTrustBundle: s}
	}
	const signer = "example.com/a"
	p := pod("u1", vol("proj", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		source(func(s *v1.ClusterTrustBundleProjection) { s.Path, s.Name = "named", ptr("plain") }),
		source(func(s *v1.ClusterTrustBundleProjection) {
			s.Path, s.SignerName, s.LabelSelector = "all", ptr(signer), &metav1.LabelSelector{}
		}),
		source(func(s *v1.ClusterTrustBundleProjection) {
			s.Path, s.SignerName, s.LabelSelector = "one", ptr(signer), &metav1.LabelSelector{MatchLabels: map[string]string{"n": "2"}}
		}),
		source(func(s *v1.ClusterTrustBundleProjection) {
			s.Path, s.SignerName, s.Optional = "nothing", ptr(signer), ptr(true)
		}),
		source(func(s *v1.ClusterTrustBundleProjection) {
			s.Path, s.Name, s.Optional = "missing", ptr("none"), ptr(true)
		}),
	}}}))
	n := newTest(t)
	n.api.setBundle(bundle("example.com:a:1", signer, "x", "y"))
	n.api.setBundle(bundle("example.com:a:2", signer, "y", "z"))
	n.api.setBundle(bundle("example.com:b:1", "example.com/b", "w"))
	if err := n.Mount(context.Background(), p); err == nil || !strings.Contains(err.Error(), `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "plain" not found`) {
		t.Fatalf("without a bundle that must be there: %v", err)
	}
	n.api.setBundle(bundle("plain", "", "v", "u", "v"))
	n.mount(t, p)
	for file, want := range map[string][]string{"named": {"u", "v"}, "all": {"x", "y", "z"}, "one": {"y", "z"}, "nothing": nil, "missing": nil} {
		if got := n.shown(t, p, file); !slices.Equal(got, want) {
			t.Errorf("%s shows %q, want %q", file, got, want)
		}
	}
	n.api.setBundle(bundle("example.com:a:3", signer, "new"))
	if got := n.shown(t, p, "all"); !slices.Equal(got, []string{"new", "x", "y", "z"}) {
		t.Errorf("a new bundle is not shown: %q", got)
	}
	none := pod("u2", vol("proj", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		source(func(s *v1.ClusterTrustBundleProjection) { s.Path, s.SignerName = "all", ptr("example.com/c") }),
	}}}))
	if err := n.Mount(context.Background(), none); err == nil || !strings.Contains(err.Error(), "combination of signerName and labelSelector matched zero ClusterTrustBundles") {
		t.Errorf("of a signer without bundles: %v", err)
	}
}
