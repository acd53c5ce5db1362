package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/images"
	"podo.dev/podo/internal/kubelet/images/provider"
	"podo.dev/podo/internal/kubelet/images/pulled"
	"podo.dev/podo/internal/kubelet/objects"
)

// completeProviders: the server's working directory need not be where it was started.
func (c *NodeConfig) completeProviders() (err error) {
	if (c.CredentialProviderConfig == "") != (c.CredentialProviderBinDir == "") {
		return errors.New("--image-credential-provider-config and --image-credential-provider-bin-dir need each other: give both")
	}
	if c.CredentialProviderConfig == "" {
		return nil
	}
	if c.CredentialProviderConfig, err = filepath.Abs(c.CredentialProviderConfig); err != nil {
		return fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	if c.CredentialProviderBinDir, err = filepath.Abs(c.CredentialProviderBinDir); err != nil {
		return fmt.Errorf("--image-credential-provider-bin-dir: %w", err)
	}
	if err := provider.Check(c.CredentialProviderConfig, c.CredentialProviderBinDir); err != nil {
		return fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	return nil
}

// buildImages makes the image manager, with the records of earlier runs and the plug-ins that are configured.
func (k *kubeletRun) buildImages(ctx context.Context, objs objects.Reader) (err error) {
	p, c := k.p, k.p.node.config
	if err := k.openRecords(ctx); err != nil {
		return err
	}
	var plugins *provider.Plugins
	if p.cfg.CredentialProviderConfig != "" {
		plugins, err = provider.New(provider.Config{
			Path: p.cfg.CredentialProviderConfig, BinDir: p.cfg.CredentialProviderBinDir, Accounts: accounts{k.client}, Logger: k.log().of("images"),
		})
		if err != nil {
			return err
		}
	}
	// As upstream: the kubelet's own folder, then homes.
	dirs := []string{p.dirs.Kubelet()}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, home)
	}
	k.images, err = images.New(images.Config{
		Runtime: p.node.runtime, Secrets: objs, Event: k.event, Append: k.append, Logger: k.log().of("images"),
		MaxParallel: config.ParallelPulls(c), PullsPerSecond: int(*c.RegistryPullQPS), Burst: int(c.RegistryBurst),
		Records: k.pulled, Plugins: plugins, NodeDirs: append(dirs, "/"),
		Fetching: p.node.runtime.Fetching,
		Wanted:   func(image string) { k.imageGC.Wanted(image) },
	})
	return err
}

// openRecords opens the records of what opened each image, and finishes what a crash left.
func (k *kubeletRun) openRecords(ctx context.Context) error {
	policy, err := config.ImagePolicy(k.p.node.config)
	if err != nil {
		return err
	}
	if k.pulled, err = pulled.Open(filepath.Join(k.p.dirs.Kubelet(), "image_manager"), policy, k.log().of("images")); err != nil {
		return err
	}
	if !k.pulled.Unfinished() {
		return nil
	}
	there, err := k.p.node.runtime.ListImages(ctx)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	k.pulled.Recover(there, images.WholeName)
	return nil
}

// accounts are the pods' ServiceAccounts as the API has them.
type accounts struct{ client client.Client }

func (a accounts) Account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	obj, err := a.client.Get(ctx, client.ServiceAccounts.At(namespace, name))
	if err != nil {
		return nil, err
	}
	account, ok := obj.(*v1.ServiceAccount)
	if !ok {
		return nil, fmt.Errorf("the account is a %T", obj)
	}
	return account, nil
}

func (a accounts) AccountToken(ctx context.Context, pod *v1.Pod, account *v1.ServiceAccount, audience string) (string, error) {
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:      []string{audience},
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	r.UID = account.UID // another account of that name gets none
	out, err := a.client.RequestToken(ctx, client.ServiceAccounts.At(pod.Namespace, account.Name), r)
	if err != nil {
		return "", err
	}
	return out.Status.Token, nil
}

var _ provider.Accounts = accounts{}
