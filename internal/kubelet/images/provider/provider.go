// Package provider asks credential provider plug-ins for credentials: programs that a CredentialProviderConfig names, called with
// the image on their standard input. Their answers are cached for as long and for as many images as they say.
package provider

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"
	"k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"podo.dev/podo/internal/kubelet/images/keyring"
)

// Accounts are the pods' ServiceAccounts, for plug-ins that want their tokens.
type Accounts interface {
	Account(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	// AccountToken makes a token that is bound to the pod; account is the one that the pod has.
	AccountToken(ctx context.Context, pod *corev1.Pod, account *corev1.ServiceAccount, audience string) (string, error)
}

// Config is what Plugins are made of.
type Config struct {
	Path     string // a CredentialProviderConfig file, or a folder of such
	BinDir   string // where the plug-ins are
	Accounts Accounts
	Logger   *slog.Logger
	Now      func() time.Time // nil: time.Now
}

// Plugins are all that are configured, in the configuration's order.
type Plugins struct {
	log *slog.Logger
	all []*plugin
}

// Check says what is wrong with a configuration and its plug-ins.
func Check(path, binDir string) error {
	_, err := read(path, binDir)
	return err
}

// New reads the configuration. It runs nothing.
func New(c Config) (*Plugins, error) {
	if c.Accounts == nil || c.Logger == nil {
		return nil, errors.New("provider: Accounts and Logger are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	configured, err := read(c.Path, c.BinDir)
	if err != nil {
		return nil, err
	}
	out := &Plugins{log: c.Logger}
	for _, p := range configured {
		out.all = append(out.all, &plugin{
			CredentialProvider: p, program: filepath.Join(c.BinDir, p.Name), accounts: c.Accounts, now: c.Now, cache: map[key]answer{},
		})
	}
	return out, nil
}

// Lookup asks every plug-in whose patterns match the repository, on behalf of a pod. A plug-in that fails is reported and
// contributes nothing. p may be nil: then there are none.
func (p *Plugins) Lookup(ctx context.Context, pod *corev1.Pod, repo string) []keyring.Credential {
	if p == nil {
		return nil
	}
	var ring keyring.Ring
	for _, one := range p.all {
		config, from, err := one.ask(ctx, pod, repo)
		if err != nil {
			p.log.Error("a credential provider gave no credentials", "provider", one.Name, "image", repo, "pod", pod.Namespace+"/"+pod.Name, "err", err)
			continue
		}
		ring.Add(from, config)
	}
	return ring.Lookup(repo)
}

// plugin is one program with what it has answered.
type plugin struct {
	kubeletv1.CredentialProvider
	program  string
	accounts Accounts
	now      func() time.Time
	running  singleflight.Group

	mu    sync.Mutex
	cache map[key]answer
}

// key is the scope of an answer: an image, a registry or everything, and the account that it is for ("" without one).
type key struct{ images, account string }

// everything is no possible name of an image or registry.
const everything = "<global>"

type answer struct {
	config keyring.Config
	ends   time.Time
}

// identity is as whom a plug-in is asked.
type identity struct {
	token       string
	annotations map[string]string
	account     string // the part of the cache key that is its own account's
	source      keyring.Source
}

func (p *plugin) ask(ctx context.Context, pod *corev1.Pod, repo string) (keyring.Config, keyring.Source, error) {
	if !p.matches(repo) {
		return nil, keyring.Source{}, nil
	}
	as, ok, err := p.identify(ctx, pod)
	if err != nil || !ok {
		return nil, keyring.Source{}, err
	}
	if config, ok := p.known(repo, as.account); ok {
		return config, as.source, nil
	}
	same := fmt.Sprintf("%q %q %q", repo, sum(as.token), as.annotations)
	// Pods that wait for the same answer share it: it is no single pod's to cancel.
	v, err, _ := p.running.Do(same, func() (any, error) {
		return execute(context.WithoutCancel(ctx), p.program, p.CredentialProvider, v1.CredentialProviderRequest{
			Image: repo, ServiceAccountToken: as.token, ServiceAccountAnnotations: as.annotations,
		})
	})
	if err != nil {
		return nil, keyring.Source{}, fmt.Errorf("failed to get credential from external registry credential provider: %w", err)
	}
	config, err := p.remember(v.(*v1.CredentialProviderResponse), repo, as)
	return config, as.source, err
}

func (p *plugin) matches(repo string) bool {
	for _, m := range p.MatchImages {
		if keyring.Matches(m, repo) {
			return true
		}
	}
	return false
}

// identify looks up the pod's account when the plug-in wants it. It returns false when the plug-in is not to be asked.
func (p *plugin) identify(ctx context.Context, pod *corev1.Pod) (as identity, ok bool, err error) {
	t, name := p.TokenAttributes, pod.Spec.ServiceAccountName
	if t == nil {
		return as, true, nil
	}
	if name == "" {
		return as, !*t.RequireServiceAccount, nil
	}
	account, err := p.accounts.Account(ctx, pod.Namespace, name)
	if err != nil {
		return as, false, fmt.Errorf("failed to get service account: %w", err)
	}
	as.annotations = map[string]string{}
	for _, k := range t.RequiredServiceAccountAnnotationKeys {
		v, ok := account.Annotations[k]
		if !ok {
			return as, false, nil // an account opts in by it
		}
		as.annotations[k] = v
	}
	for _, k := range t.OptionalServiceAccountAnnotationKeys {
		if v, ok := account.Annotations[k]; ok {
			as.annotations[k] = v
		}
	}
	if as.token, err = p.accounts.AccountToken(ctx, pod, account, t.ServiceAccountTokenAudience); err != nil {
		return as, false, fmt.Errorf("failed to get service account token: %w", err)
	}
	as.account = fmt.Sprintf("%q %q %q %q", pod.Namespace, name, account.UID, as.annotations) // maps print in order
	if t.CacheType == kubeletv1.TokenServiceAccountTokenCacheType {
		as.account += " " + sum(as.token)
	}
	as.source.Account = &v1beta1.ImagePullServiceAccount{UID: string(account.UID), Namespace: pod.Namespace, Name: name}
	return as, true, nil
}

func sum(token string) string {
	if token == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token)))
}

func (p *plugin) known(repo, account string) (keyring.Config, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, images := range []string{repo, registry(repo), everything} {
		if a, ok := p.cache[key{images, account}]; ok && !p.now().After(a.ends) {
			return a.config, true
		}
	}
	return nil, false
}

// remember caches an answer for as long as the plug-in says or else the configuration; 0 means not at all.
func (p *plugin) remember(r *v1.CredentialProviderResponse, repo string, as identity) (keyring.Config, error) {
	config := keyring.Config{}
	for server, a := range r.Auth {
		if as.token != "" && a.Password == as.token && p.TokenAttributes.CacheType != kubeletv1.TokenServiceAccountTokenCacheType {
			return nil, errors.New("credential provider plugin returned the service account token as the password which is not allowed when service account cache type is not set to 'Token'")
		}
		config[server] = keyring.Entry{Username: a.Username, Password: a.Password}
	}
	k := key{account: as.account}
	switch r.CacheKeyType {
	case v1.ImagePluginCacheKeyType:
		k.images = repo
	case v1.RegistryPluginCacheKeyType:
		k.images = registry(repo)
	case v1.GlobalPluginCacheKeyType:
		k.images = everything
	default:
		return nil, fmt.Errorf("credential provider plugin did not return a valid cacheKeyType: %s", r.CacheKeyType)
	}
	life := p.DefaultCacheDuration.Duration
	if r.CacheDuration != nil {
		life = r.CacheDuration.Duration
	}
	if life <= 0 {
		return config, nil
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, a := range p.cache { // there are few, and this runs only after a plug-in ran
		if now.After(a.ends) {
			delete(p.cache, old)
		}
	}
	p.cache[k] = answer{config, now.Add(life)}
	return config, nil
}

func registry(repo string) string {
	host, _, _ := strings.Cut(repo, "/")
	return host
}
