// Package pulled remembers with which credentials each image of the node was pulled. An image that one Secret opened is thereby not free
// for every pod once it is present: another pod uses it when the same credentials, Secret or ServiceAccount are among its own;
// otherwise it has to pull the image again, and the registry decides.
//
//	Begin ──► image in pulling/ ── pulled ──► image in pulled/ with its credentials, gone from pulling/
//	                              └ failed ─► gone from pulling/
//
// What the kubelet never began to pull, such as an imported image, has no record and is subject to the policy alone. A crash between the
// runtime's success and the record leaves the intent in pulling/: the next start turns it into a record without credentials.
package pulled

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/kubelet/images/keyring"
)

// mostLearnt bounds how many credentials a record learns from pods that merely use the image, however many namespaces come and
// go.
const mostLearnt = 100

// Records are the node's. They live in memory and on disk alike; nobody else writes the files.
type Records struct {
	// Checked is called with the result of each check whether a pod may use an image that is present, in upstream's words; may be
	// nil.
	Checked func(result string)

	policy          Policy
	pulling, pulled folder
	log             *slog.Logger
	now             func() time.Time

	mu      sync.Mutex // held over file writes too: they are small, and only pulls and new credentials cause them
	intents map[string]*intent
	images  map[string]*v1beta1.ImagePulledRecord // by the runtime's reference
	damaged map[string]bool                       // names of files in pulled that cannot be read
}

// intent is of an image whose pull was begun.
type intent struct {
	under int // how many pulls are under way; none for what a crash left
	// free is the image of that name that nobody had pulled when the first of them began. It stays so meanwhile: a pull that fails again
	// and again, as of an imported image without its registry, would otherwise take it from the pods that have it.
	free string
}

// Open reads the records. A damaged file is reported and stays until its image is pulled again: until then every pod has to prove
// that it may use the image.
func Open(dir string, policy Policy, log *slog.Logger) (*Records, error) {
	r := &Records{
		policy: policy, pulling: folder(dir + "/pulling"), pulled: folder(dir + "/pulled"), log: log, now: time.Now,
		intents: map[string]*intent{}, images: map[string]*v1beta1.ImagePulledRecord{}, damaged: map[string]bool{},
	}
	err := r.pulling.read(func(name string, b []byte, err error) {
		var i v1beta1.ImagePullIntent
		if err == nil {
			err = decode(b, &i, &i.TypeMeta, "ImagePullIntent")
		}
		if err != nil || fileName(i.Image) != name {
			log.Warn("a record of a pull that was under way cannot be read and is left alone", "file", r.pulling.path(i.Image), "err", err)
			return
		}
		r.intents[i.Image] = &intent{}
	})
	if err != nil {
		return nil, fmt.Errorf("records of image pulls: %w", err)
	}
	err = r.pulled.read(func(name string, b []byte, err error) {
		p := &v1beta1.ImagePulledRecord{}
		if err == nil {
			err = decode(b, p, &p.TypeMeta, "ImagePulledRecord")
		}
		if err == nil && fileName(p.ImageRef) != name {
			err = errors.New("it is of another image than its name says")
		}
		if err != nil {
			r.damaged[name] = true
			log.Warn("the record of who may use an image is damaged: pods will have to pull it anew", "folder", string(r.pulled), "file", name, "err", err)
			return
		}
		r.images[p.ImageRef] = p
	})
	if err != nil {
		return nil, fmt.Errorf("records of image pulls: %w", err)
	}
	return r, nil
}

// Unfinished tells whether Recover has something to do.
func (r *Records) Unfinished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.intents) > 0
}

// Recover finishes what a crash left: a begun pull whose image is present gets its record.
func (r *Records) Recover(images []*runtimev1.Image, whole func(image string) string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for image, begun := range r.intents {
		name := whole(image)
		i := slices.IndexFunc(images, func(i *runtimev1.Image) bool {
			return slices.Contains(i.RepoTags, name) || slices.Contains(i.RepoDigests, name)
		})
		if begun.under > 0 || i < 0 {
			continue // the runtime may still be pulling it: the intent stays
		}
		if err := r.record(image, images[i].Id, nil); err != nil {
			r.log.Error("a finished pull cannot be recorded", "image", image, "err", err)
			continue
		}
		r.forgetIntent(image)
	}
}

// Begin says that an image is about to be pulled, where the name had this image, or none. Nothing may be pulled when it fails.
func (r *Records) Begin(image, had string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := r.intents[image]
	if begun == nil {
		if err := r.pulling.write(image, v1beta1.ImagePullIntent{TypeMeta: typeMeta("ImagePullIntent"), Image: image}); err != nil {
			return fmt.Errorf("failed to record image pull intent: %w", err)
		}
		begun = &intent{}
		if r.images[had] == nil && !r.damaged[fileName(had)] {
			begun.free = had
		}
		r.intents[image] = begun
	}
	begun.under++
	return nil
}

// Pulled ends what Begin began with success: the image was pulled with this credential, or none.
func (r *Records) Pulled(image, ref string, c *keyring.Credential) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.record(image, ref, with(c)); err != nil {
		// The intent stays on disk: in memory the image counts as pulled, and the next start records it.
		r.log.Error("a pull cannot be recorded", "image", image, "err", err)
		return
	}
	r.end(image)
}

// Failed ends what Begin began. ref is the image when the runtime has it all the same, its answer lost or late: then it is
// recorded as pulled with unknown credentials.
func (r *Records) Failed(image, ref string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref != "" {
		if err := r.record(image, ref, nil); err != nil {
			r.log.Error("a pull cannot be recorded", "image", image, "err", err)
			return
		}
	}
	r.end(image)
}

func (r *Records) end(image string) {
	begun := r.intents[image]
	if begun.under--; begun.under <= 0 {
		r.forgetIntent(image)
	}
}

func (r *Records) forgetIntent(image string) {
	if err := r.pulling.remove(image); err != nil {
		r.log.Error("a record of a pull cannot be removed", "image", image, "err", err)
		return
	}
	delete(r.intents, image)
}

// MustPull tells whether a pod that wants an image that is there must pull it, to show that it may. named says that the runtime has it
// under this very name, and does not only know its content or id. mine are the pod's credentials for the image; they are asked for only
// when they matter.
//
// A name that the kubelet never pulled is one that somebody else gave the image (podo image import), also when the same content was
// pulled under another: it stays theirs. Upstream goes by the content alone, so that a pull elsewhere takes an imported image from
// the pods that have it.
func (r *Records) MustPull(image, ref string, named bool, mine func() ([]keyring.Credential, error)) (bool, error) {
	result, err := r.check(image, ref, named, mine)
	if r.Checked != nil {
		r.Checked(result)
	}
	return result == mustAuthenticate || result == checkFailed, err
}

// What comes of a look, in upstream's words.
const (
	policyAllows     = "credentialPolicyAllowed"
	recordFound      = "credentialRecordFound"
	mustAuthenticate = "mustAuthenticate"
	checkFailed      = "error"
)

func (r *Records) check(image, ref string, named bool, mine func() ([]keyring.Credential, error)) (string, error) {
	name, err := bare(image)
	r.mu.Lock()
	known := r.images[ref]
	begun := r.intents[image]
	unsure := begun != nil && begun.free != ref
	damaged := r.damaged[fileName(ref)]
	r.mu.Unlock()
	var by v1beta1.ImagePullCredentials
	ok := false
	if known != nil && err == nil {
		by, ok = known.CredentialMapping[name]
	}
	if !r.policy.verifies(image, ok || unsure || damaged || known != nil && !named) {
		return policyAllows, nil
	}
	switch {
	case known == nil:
		return mustAuthenticate, nil
	case err != nil:
		return checkFailed, nil
	}
	switch {
	case ok && by.NodePodsAccessible:
		return recordFound, nil
	case !ok, len(by.KubernetesSecrets) == 0 && len(by.KubernetesServiceAccounts) == 0:
		return mustAuthenticate, nil
	}
	have, err := mine()
	if err != nil {
		return checkFailed, err
	}
	c, isNew := opens(by, have)
	if c == nil {
		return mustAuthenticate, nil
	}
	if isNew && len(by.KubernetesSecrets) < mostLearnt {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.record(image, ref, with(c)); err != nil {
			r.log.Error("a credential cannot be recorded", "image", image, "err", err)
		}
	}
	return recordFound, nil
}

// Count is how many pulls are noted as under way, and how many images as pulled.
func (r *Records) Count() (pulling, pulled int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.intents), len(r.images)
}

// opens finds among a pod's credentials one that has opened the image before: the same user and password from any Secret, the
// same Secret with any content, or the same ServiceAccount. isNew tells that the record does not have it in this form yet.
func opens(by v1beta1.ImagePullCredentials, have []keyring.Credential) (c *keyring.Credential, isNew bool) {
	for i := range have {
		if s := secretOf(&have[i]); s != nil {
			for _, k := range by.KubernetesSecrets {
				sameHash := k.CredentialHash != "" && k.CredentialHash == s.CredentialHash
				sameSecret := k.UID == s.UID && k.Namespace == s.Namespace && k.Name == s.Name
				if sameHash || sameSecret && len(by.KubernetesSecrets) < mostLearnt {
					return &have[i], !sameHash || !sameSecret
				}
			}
		}
	}
	// The audience does not matter: a pod has one account.
	for i := range have {
		if a := have[i].Account; a != nil {
			if slices.Contains(by.KubernetesServiceAccounts, *a) {
				return &have[i], false
			}
			break
		}
	}
	return nil, false
}

// Keep forgets the records of images that are gone, unless the record changed after the images were listed.
func (r *Records) Keep(refs []string, listed time.Time) {
	there := map[string]bool{}
	for _, ref := range refs {
		there[ref] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, p := range r.images {
		if there[ref] || !p.LastUpdatedTime.Time.Before(listed) {
			continue
		}
		if err := r.pulled.remove(ref); err != nil {
			r.log.Error("the record of an image that has gone cannot be removed", "image", ref, "err", err)
			continue
		}
		delete(r.images, ref)
	}
}

// record merges what an image was opened with into its record. nil means that nobody knows: every pod then has to prove that it
// may use the image.
func (r *Records) record(image, ref string, by *v1beta1.ImagePullCredentials) error {
	name, err := bare(image)
	if err != nil {
		return fmt.Errorf("invalid image name %q: %w", image, err)
	}
	known := r.images[ref]
	next := &v1beta1.ImagePulledRecord{TypeMeta: typeMeta("ImagePulledRecord"), ImageRef: ref}
	if known != nil {
		next = known.DeepCopy()
	}
	if by == nil {
		by = &v1beta1.ImagePullCredentials{}
	}
	if next.CredentialMapping == nil {
		next.CredentialMapping = map[string]v1beta1.ImagePullCredentials{}
	}
	old, pulled := next.CredentialMapping[name]
	merged, changed := merge(old, *by)
	if pulled && !changed {
		return nil
	}
	next.CredentialMapping[name] = merged
	next.LastUpdatedTime = metav1.Time{Time: r.now()}
	if err := r.pulled.write(ref, next); err != nil {
		return err
	}
	r.images[ref] = next
	delete(r.damaged, fileName(ref))
	return nil
}
