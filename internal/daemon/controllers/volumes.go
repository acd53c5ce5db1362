package controllers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/ephemeralvolumes"
	"podo.dev/podo/internal/controllers/localvolumes"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/pvcprotection"
	"podo.dev/podo/internal/controllers/pvprotection"
	"podo.dev/podo/internal/controllers/vacprotection"
	"podo.dev/podo/internal/controllers/volumebinder"
	"podo.dev/podo/internal/localclass"
)

// The controllers that bind claims to volumes, and protect both while they are in use.

func (c *Config) volumeBinder(_ context.Context, own client.Client) (*loop.Loop, error) {
	return volumebinder.New(volumebinder.Config{
		View: c.View, Client: own, Events: c.events("persistentvolume-controller"), Remove: os.RemoveAll, Logger: c.Logger,
	})
}

func (c *Config) claimProtection(_ context.Context, own client.Client) (*loop.Loop, error) {
	return pvcprotection.New(c.View, own, c.Logger)
}

func (c *Config) volumeProtection(_ context.Context, own client.Client) (*loop.Loop, error) {
	return pvprotection.New(c.View, own, c.Logger)
}

func (c *Config) attributesProtection(_ context.Context, own client.Client) (*loop.Loop, error) {
	return vacprotection.New(c.View, own, c.Logger)
}

func (c *Config) ephemeralVolumes(_ context.Context, own client.Client) (*loop.Loop, error) {
	return ephemeralvolumes.New(ephemeralvolumes.Config{View: c.View, Client: own, Events: c.events("ephemeral_volume"), Logger: c.Logger})
}

func (c *Config) localVolumes(_ context.Context, own client.Client) (*loop.Loop, error) {
	return localvolumes.New(localvolumes.Config{
		View: c.View, Client: own, Events: c.events(localclass.Provisioner), Logger: c.Logger, Remove: c.removeLocalVolume,
	})
}

// removeLocalVolume has a node's kubelet delete the folder of a volume.
func (c *Config) removeLocalVolume(ctx context.Context, node *v1.Node, volume string) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, err := c.Kubelet(ctx, node, http.MethodDelete, localclass.Path+url.PathEscape(volume))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	return fmt.Errorf("node %s: %s", node.Name, strings.TrimSpace(string(why)))
}
