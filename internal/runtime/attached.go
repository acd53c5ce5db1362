package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
)

// This file is about the sandboxes that libcni, within containerd, remembers as attached to the pod network, in a folder that all
// networks of a machine share. libcni forgets a sandbox when it is stopped. One that is never stopped, because containerd came
// back without its data, would keep its address, and its host ports their rules.

// attachments are those of a network that can be read.
func attachments(network string) ([]*libcni.NetworkAttachment, error) {
	all, err := libcni.NewCNIConfig(nil, nil).GetCachedAttachments("")
	return slices.DeleteFunc(all, func(a *libcni.NetworkAttachment) bool { return a.Network != network }), err
}

// detachForgotten detaches the sandboxes in r.forgotten that containerd does not know. Those that cannot be detached stay in it.
func (r *Runtime) detachForgotten(ctx context.Context) {
	if len(r.forgotten) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forgetLimit) // for all of them together: meanwhile nobody would notice containerd's end
	defer cancel()
	known, err := r.known(ctx)
	if err != nil {
		r.cfg.Log.Warn("cannot find out which sandboxes containerd has forgotten", "err", err)
		return
	}
	r.forgotten = slices.DeleteFunc(r.forgotten, func(a *libcni.NetworkAttachment) bool {
		if known[a.ContainerID] {
			return true
		}
		if err := r.detach(ctx, a); err != nil {
			r.cfg.Log.Warn("cannot detach a sandbox that containerd has forgotten from the pod network", "sandbox", a.ContainerID, "err", err)
			return false
		}
		r.cfg.Log.Info("detached a sandbox that containerd has forgotten from the pod network", "sandbox", a.ContainerID)
		return true
	})
}

// closePorts removes the rules for host ports of all sandboxes that are still attached. Their network namespaces are gone.
func (r *Runtime) closePorts(ctx context.Context) error {
	list, err := attachments(r.layout.Bridge)
	for _, a := range list {
		if a.NetNS = ""; a.CapabilityArgs["portMappings"] != nil {
			err = errors.Join(err, r.detach(ctx, a))
		}
	}
	return err
}

// detach does what stopping the sandbox would have done: it gives back host ports, interface, address and network namespace. What
// is gone already is no error.
func (r *Runtime) detach(ctx context.Context, a *libcni.NetworkAttachment) error {
	list, err := libcni.NetworkConfFromBytes(a.Config)
	if err != nil {
		return fmt.Errorf("the configuration with which the sandbox %s was attached: %w", a.ContainerID, err)
	}
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = libcni.NewCNIConfig([]string{r.layout.Bin}, &plugins{}).DelNetworkList(ctx, list, &libcni.RuntimeConf{
		ContainerID: a.ContainerID, NetNS: a.NetNS, IfName: a.IfName, Args: a.CniArgs, CapabilityArgs: a.CapabilityArgs,
	})
	if err != nil || !strings.HasPrefix(a.NetNS, r.layout.State+"/") {
		return err
	}
	return errors.Join(unmountBelow(a.NetNS), os.RemoveAll(a.NetNS))
}

// plugins runs CNI plug-ins as containerd does. They find nft even where podo's PATH lacks it.
type plugins struct {
	invoke.RawExec
	version.PluginDecoder
}

func (p *plugins) ExecPlugin(ctx context.Context, program string, stdin []byte, environ []string) ([]byte, error) {
	return p.RawExec.ExecPlugin(ctx, program, stdin, append(environ, "PATH="+os.Getenv("PATH")+":"+systemPath))
}

// forgetAttachments removes what is remembered of a network's sandboxes, readable or not.
func forgetAttachments(network string) error {
	results, err := filepath.Glob(filepath.Join(libcni.CacheDir, "results", network+"-*"))
	for _, r := range results {
		if e := os.Remove(r); !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
