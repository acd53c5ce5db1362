package daemon

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
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/ephemeralvolumes"
	"podo.dev/podo/internal/controllers/localvolumes"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/pvcprotection"
	"podo.dev/podo/internal/controllers/pvprotection"
	"podo.dev/podo/internal/controllers/vacprotection"
	"podo.dev/podo/internal/controllers/volumebinder"
	"podo.dev/podo/internal/localclass"
)

// volumeControllers bind claims of storage to volumes and keep both while they are in use.
func (s *server) volumeControllers() []component.Component {
	v, log := s.control.view, s.log
	return []component.Component{
		component.Func("persistent-volume-binder", s.controller(s.newVolumeBinder)),
		component.Func("pvc-protection", s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) { return pvcprotection.New(v, c, log) })),
		component.Func("pv-protection", s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) { return pvprotection.New(v, c, log) })),
		component.Func("vac-protection", s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) { return vacprotection.New(v, c, log) })),
		component.Func("ephemeral-volumes", s.controller(s.newEphemeralVolumes)),
		component.Func("local-volumes", s.controller(s.newLocalVolumes)),
	}
}

func (s *server) newLocalVolumes(_ context.Context, c client.Client) (*loop.Loop, error) {
	return localvolumes.New(localvolumes.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder(localclass.Provisioner, ""), Logger: s.log, Remove: s.removeLocalVolume,
	})
}

// removeLocalVolume has a node's kubelet delete the folder of a volume.
func (s *server) removeLocalVolume(ctx context.Context, node *v1.Node, volume string) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, err := s.callKubelet(ctx, node, http.MethodDelete, localclass.Path+url.PathEscape(volume))
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

func (s *server) newVolumeBinder(_ context.Context, c client.Client) (*loop.Loop, error) {
	return volumebinder.New(volumebinder.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder("persistentvolume-controller", ""), Remove: os.RemoveAll, Logger: s.log,
	})
}

func (s *server) newEphemeralVolumes(_ context.Context, c client.Client) (*loop.Loop, error) {
	return ephemeralvolumes.New(ephemeralvolumes.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder("ephemeral_volume", ""), Logger: s.log,
	})
}
