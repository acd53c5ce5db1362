package pulled

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/kubelet/images/keyring"
)

const image, ref = "reg.example/a:1", "sha256:a"

func open(t *testing.T, dir string, kind v1beta1.ImagePullCredentialsVerificationPolicy, allowed ...string) *Records {
	t.Helper()
	p, err := NewPolicy(kind, allowed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, p, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func secret(ns, name, uid, hash string) keyring.Credential {
	return keyring.Credential{Hash: hash, Source: keyring.Source{Secret: &v1beta1.ImagePullSecret{Namespace: ns, Name: name, UID: uid}}}
}

func account(ns, name, uid string) keyring.Credential {
	return keyring.Credential{Hash: "changes", Source: keyring.Source{Account: &v1beta1.ImagePullServiceAccount{Namespace: ns, Name: name, UID: uid}}}
}

func must(t *testing.T, r *Records, mine ...keyring.Credential) bool {
	t.Helper()
	pull, err := r.MustPull(image, ref, true, func() ([]keyring.Credential, error) { return mine, nil })
	if err != nil {
		t.Fatal(err)
	}
	return pull
}

func pull(t *testing.T, r *Records, c *keyring.Credential) {
	t.Helper()
	if err := r.Begin(image, ""); err != nil {
		t.Fatal(err)
	}
	r.Pulled(image, ref, c)
}

func TestASecretsImageIsNotFreeForAll(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, v1beta1.NeverVerifyPreloadedImages)
	if must(t, r) {
		t.Error("an image that the kubelet did not pull needs nothing")
	}
	mine := secret("ns", "s", "1", "h1")
	pull(t, r, &mine)
	for again, r := range []*Records{r, open(t, dir, v1beta1.NeverVerifyPreloadedImages)} {
		for name, tc := range map[string]struct {
			mine []keyring.Credential
			must bool
		}{
			"none":                        {nil, true},
			"another":                     {[]keyring.Credential{secret("other", "s", "2", "h2")}, true},
			"the node's own":              {[]keyring.Credential{{Hash: "h1"}}, true},
			"an account":                  {[]keyring.Credential{account("ns", "s", "1")}, true},
			"the same":                    {[]keyring.Credential{mine}, false},
			"the same after some other":   {[]keyring.Credential{secret("ns", "t", "3", "h3"), mine}, false},
			"no hash is not the same one": {[]keyring.Credential{secret("other", "s", "2", "")}, true},
		} {
			if got := must(t, r, tc.mine...); got != tc.must {
				t.Errorf("%s (opened again: %d): must pull %v", name, again, got)
			}
		}
	}
	// The same user and password in another namespace's Secret is as good, and is known from then on, whatever becomes of its content.
	if must(t, r, secret("copy", "c", "9", "h1")) {
		t.Error("the same credentials must do")
	}
	if must(t, open(t, dir, v1beta1.NeverVerifyPreloadedImages), secret("copy", "c", "9", "h9")) {
		t.Error("what was learnt is not on disk")
	}
	// Another name of the same image has other rules.
	if other, _ := r.MustPull("mirror.example/a:1", ref, false, func() ([]keyring.Credential, error) { return []keyring.Credential{mine}, nil }); !other {
		t.Error("another registry's name, or an id, of the same image must be pulled")
	}
	if imported, _ := r.MustPull("imported/a:1", ref, true, nil); imported {
		t.Error("a name that somebody imported the same image under is still theirs")
	}
	// Pulled without credentials it is everyone's.
	pull(t, r, nil)
	if must(t, r) {
		t.Error("a public image is everyone's")
	}
	pull(t, r, &mine)
	if must(t, r) {
		t.Error("and stays so")
	}
}

func TestAnAccountsImage(t *testing.T) {
	r := open(t, t.TempDir(), v1beta1.NeverVerifyPreloadedImages)
	mine := account("ns", "sa", "1")
	pull(t, r, &mine)
	if must(t, r, mine) || !must(t, r, account("ns", "sa", "2")) || !must(t, r, secret("ns", "sa", "1", "changes")) {
		t.Error("an account's image is for that account")
	}
}

func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		kind               v1beta1.ImagePullCredentialsVerificationPolicy
		allowed            []string
		preloaded, secrets bool // must be pulled
	}{
		{v1beta1.NeverVerify, nil, false, false},
		{v1beta1.NeverVerifyPreloadedImages, nil, false, true},
		{v1beta1.AlwaysVerify, nil, true, true},
		{v1beta1.NeverVerifyAllowlistedImages, []string{"reg.example/a"}, false, false},
		{v1beta1.NeverVerifyAllowlistedImages, []string{"reg.example/*"}, false, false},
		{v1beta1.NeverVerifyAllowlistedImages, []string{"reg.example/b", "reg.exam/*"}, true, true},
	} {
		r := open(t, t.TempDir(), tc.kind, tc.allowed...)
		if got := must(t, r); got != tc.preloaded {
			t.Errorf("%s %v: a preloaded image: %v", tc.kind, tc.allowed, got)
		}
		mine := secret("ns", "s", "1", "h")
		pull(t, r, &mine)
		if got := must(t, r); got != tc.secrets {
			t.Errorf("%s %v: a Secret's image: %v", tc.kind, tc.allowed, got)
		}
	}
	for want, in := range map[string][]string{
		"must contain at least one item":                        {"NeverVerifyAllowlistedImages"},
		"imagePullCredentialsVerificationPolicy: \"Sometimes\"": {"Sometimes"},
		"can't set for \"NeverVerify\"":                         {"NeverVerify", "a"},
		"leading/trailing spaces are not allowed":               {"NeverVerifyAllowlistedImages", " a"},
		"the supplied pattern is too short":                     {"NeverVerifyAllowlistedImages", ""},
		"at least registry hostname is required":                {"NeverVerifyAllowlistedImages", "/*"},
		"not a valid wildcard pattern":                          {"NeverVerifyAllowlistedImages", "a*"},
		"neither tag nor digest is accepted":                    {"NeverVerifyAllowlistedImages", "a:1"},
		"failed to parse as an image name":                      {"NeverVerifyAllowlistedImages", "A B"},
	} {
		if _, err := NewPolicy(v1beta1.ImagePullCredentialsVerificationPolicy(in[0]), in[1:]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

func TestACrashBetweenPullAndRecord(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, v1beta1.NeverVerifyPreloadedImages)
	for _, name := range []string{image, "reg.example/later:1"} {
		if err := r.Begin(name, ""); err != nil {
			t.Fatal(err)
		}
	}
	r = open(t, dir, v1beta1.NeverVerifyPreloadedImages) // the process has ended here
	if !must(t, r) {
		t.Error("an image whose pull was begun is not a preloaded one")
	}
	r.Recover([]*runtimev1.Image{{Id: ref, RepoTags: []string{"whole:" + image}}}, func(image string) string { return "whole:" + image })
	if !must(t, r) || !must(t, open(t, dir, v1beta1.NeverVerifyPreloadedImages)) {
		t.Error("nobody knows with which credentials it was pulled: everyone must show his")
	}
	left, err := os.ReadDir(filepath.Join(dir, "pulling"))
	if err != nil || len(left) != 1 || left[0].Name() != fileName("reg.example/later:1") {
		t.Errorf("%v %v: the pull that may still go on is to stay, and that alone", left, err)
	}
}

func TestTheRuntimeHasItAllTheSame(t *testing.T) {
	r := open(t, t.TempDir(), v1beta1.NeverVerifyPreloadedImages)
	if err := r.Begin(image, ""); err != nil {
		t.Fatal(err)
	}
	r.Failed(image, "")
	if must(t, r) {
		t.Error("a failed pull makes a preloaded image no one else's")
	}
	if err := r.Begin(image, ""); err != nil {
		t.Fatal(err)
	}
	r.Failed(image, ref)
	if !must(t, r) {
		t.Error("an image that came although its pull failed was pulled")
	}
}

// An imported image is pulled in vain, as where there is no registry: the pods that only need it have it all the while.
func TestAnImportedImageIsPulledInVain(t *testing.T) {
	r := open(t, t.TempDir(), v1beta1.NeverVerifyPreloadedImages)
	for range 2 { // by two pods
		if err := r.Begin(image, ref); err != nil {
			t.Fatal(err)
		}
		if must(t, r) {
			t.Error("an image that nobody pulled is to be proven while somebody tries to")
		}
	}
	r.Failed(image, "")
	r.Pulled(image, "sha256:new", nil)
	if must(t, r) {
		t.Error("another image than the imported one was pulled")
	}
	if err := r.Begin(image, ref); err != nil {
		t.Fatal(err)
	}
	if pull, err := r.MustPull(image, "sha256:newer", true, nil); err != nil || !pull {
		t.Errorf("the image that comes by a pull under way is free for all: %v", err)
	}
	mine := secret("ns", "s", "1", "h")
	r.Pulled(image, ref, &mine)
	if err := r.Begin(image, ref); err != nil {
		t.Fatal(err)
	}
	if !must(t, r) || must(t, r, mine) {
		t.Error("an image that a Secret opened is that Secret's, also while it is pulled again")
	}
}

func TestDamagedRecords(t *testing.T) {
	dir := t.TempDir()
	mine := secret("ns", "s", "1", "h")
	pull(t, open(t, dir, v1beta1.NeverVerifyPreloadedImages), &mine)
	path := filepath.Join(dir, "pulled", fileName(ref))
	for _, content := range []string{"", "{", `{"kind":"Pod","apiVersion":"v1"}`, `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"x"}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+unfinished, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir, v1beta1.NeverVerifyPreloadedImages)
		if !must(t, r, mine) {
			t.Errorf("%q: a damaged record must open nothing", content)
		}
		if _, err := os.Stat(path + unfinished); err == nil {
			t.Error("a write that was cut short is still there")
		}
		pull(t, r, &mine)
		if must(t, r, mine) || must(t, open(t, dir, v1beta1.NeverVerifyPreloadedImages), mine) {
			t.Errorf("%q: pulled again, its record is whole", content)
		}
	}
}

func TestRecordsGoWithTheirImages(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, v1beta1.NeverVerifyPreloadedImages)
	mine := secret("ns", "s", "1", "h")
	pull(t, r, &mine)
	r.Keep([]string{ref}, time.Now().Add(time.Hour))
	r.Keep(nil, time.Now().Add(-time.Hour)) // listed before the pull
	if !must(t, r) {
		t.Error("the record went although its image is there")
	}
	r.Keep([]string{"sha256:b"}, time.Now().Add(time.Hour))
	if must(t, r) || must(t, open(t, dir, v1beta1.NeverVerifyPreloadedImages)) {
		t.Error("the record outlived its image")
	}
}

// The form is upstream's, which reads its own strictly.
func TestForm(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, v1beta1.NeverVerifyPreloadedImages)
	r.now = func() time.Time { return time.Unix(1e9, 0).UTC() }
	mine := secret("ns", "s", "1", "h")
	pull(t, r, &mine)
	b, err := os.ReadFile(filepath.Join(dir, "pulled", "sha256-"+strings.TrimPrefix(fileName(ref), prefix)))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"kubelet.config.k8s.io/v1beta1","credentialMapping":{"reg.example/a":{"kubernetesSecrets":[{"credentialHash":"h","name":"s","namespace":"ns","uid":"1"}]}},"imageRef":"sha256:a","kind":"ImagePulledRecord","lastUpdatedTime":"2001-09-09T01:46:40Z"}`
	if again, _ := json.Marshal(got); string(again) != want {
		t.Errorf("%s\nwant\n%s", again, want)
	}
}

// Every look is told by what came of it, and what is on record is counted.
func TestLooksAreTold(t *testing.T) {
	r := open(t, t.TempDir(), v1beta1.NeverVerifyPreloadedImages)
	var told []string
	r.Checked = func(result string) { told = append(told, result) }
	mine := secret("ns", "s", "1", "h1")
	must(t, r)
	pull(t, r, &mine)
	must(t, r)
	must(t, r, mine)
	if pull, err := r.MustPull(image, ref, true, func() ([]keyring.Credential, error) { return nil, errors.New("no") }); !pull || err == nil {
		t.Errorf("must pull %v, %v", pull, err)
	}
	want := []string{"credentialPolicyAllowed", "mustAuthenticate", "credentialRecordFound", "error"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if err := r.Begin("another/image:1", ""); err != nil {
		t.Fatal(err)
	}
	if under, done := r.Count(); under != 1 || done != 1 {
		t.Errorf("%d under way and %d pulled are on record", under, done)
	}
}
