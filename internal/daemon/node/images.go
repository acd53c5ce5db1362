package node

import (
	"context"
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

// buildImages makes the image manager, with the pull records of earlier runs and the configured plug-ins.
func (k *run) buildImages(ctx context.Context, objs objects.Reader) (err error) {
	c := k.c.Kubelet
	if err := k.openRecords(ctx); err != nil {
		return err
	}
	var plugins *provider.Plugins
	if k.c.CredentialProviders.Config != "" {
		plugins, err = provider.New(provider.Config{
			Path: k.c.CredentialProviders.Config, BinDir: k.c.CredentialProviders.BinDir, Accounts: accounts{k.client}, Logger: k.log().of("images"),
		})
		if err != nil {
			return err
		}
	}
	// As upstream: the kubelet's own folder, then homes.
	dirs := []string{k.c.Dir}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, home)
	}
	k.images, err = images.New(images.Config{
		Runtime: k.c.Runtime, Secrets: objs, Event: k.event, Append: k.append, Logger: k.log().of("images"),
		MaxParallel: config.ParallelPulls(c), PullsPerSecond: int(*c.RegistryPullQPS), Burst: int(c.RegistryBurst),
		Records: k.pulled, Plugins: plugins, NodeDirs: append(dirs, "/"),
		Fetching: k.c.Runtime.Fetching,
		Wanted:   func(image string) { k.imageGC.Wanted(image) },
		Pulled:   k.counts.ImagePulled, Asked: k.counts.ImageAsked,
	})
	return err
}

// openRecords opens the records of pulls, and finishes what a crash interrupted.
func (k *run) openRecords(ctx context.Context) error {
	policy, err := config.ImagePolicy(k.c.Kubelet)
	if err != nil {
		return err
	}
	if k.pulled, err = pulled.Open(filepath.Join(k.c.Dir, "image_manager"), policy, k.log().of("images")); err != nil {
		return err
	}
	k.pulled.Checked = k.counts.ImageChecked
	if !k.pulled.Unfinished() {
		return nil
	}
	there, err := k.c.Runtime.ListImages(ctx)
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
	r.UID = account.UID // the UID refuses another account of that name
	out, err := a.client.RequestToken(ctx, client.ServiceAccounts.At(pod.Namespace, account.Name), r)
	if err != nil {
		return "", err
	}
	return out.Status.Token, nil
}

var _ provider.Accounts = accounts{}
