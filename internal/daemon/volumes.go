package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/ephemeralvolumes"
	"podo.dev/podo/internal/controllers/localvolumes"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/pvcprotection"
	"podo.dev/podo/internal/controllers/pvprotection"
	"podo.dev/podo/internal/controllers/vacprotection"
	"podo.dev/podo/internal/controllers/volumebinder"
	"podo.dev/podo/internal/localclass"
	"podo.dev/podo/internal/pki"
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

func (s *server) newLocalVolumes(ctx context.Context, c client.Client) (*loop.Loop, error) {
	return localvolumes.New(localvolumes.Config{
		View: s.control.view, Client: c, Events: events.New(ctx, c, localclass.Provisioner, "", s.log), Logger: s.log, Remove: s.removeLocalVolume,
	})
}

// removeLocalVolume has a node's kubelet delete the folder of a volume.
func (s *server) removeLocalVolume(ctx context.Context, node *v1.Node, volume string) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	i := slices.IndexFunc(node.Status.Addresses, func(a v1.NodeAddress) bool { return a.Type == v1.NodeInternalIP })
	if i < 0 {
		return fmt.Errorf("node %s has no InternalIP address yet", node.Name)
	}
	at := net.JoinHostPort(node.Status.Addresses[i].Address, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "https://"+at+localclass.Path+url.PathEscape(volume), nil)
	if err != nil {
		return err
	}
	// Volumes are deleted now and then: no connection is kept.
	t := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: s.certs.Pool(), MinVersion: tls.VersionTLS12, GetClientCertificate: s.certs.Client(pki.KubeletClient),
	}}
	res, err := (&http.Client{Transport: t}).Do(req)
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

func (s *server) newVolumeBinder(ctx context.Context, c client.Client) (*loop.Loop, error) {
	return volumebinder.New(volumebinder.Config{
		View: s.control.view, Client: c, Events: events.New(ctx, c, "persistentvolume-controller", "", s.log), Remove: os.RemoveAll, Logger: s.log,
	})
}

func (s *server) newEphemeralVolumes(ctx context.Context, c client.Client) (*loop.Loop, error) {
	return ephemeralvolumes.New(ephemeralvolumes.Config{
		View: s.control.view, Client: c, Events: events.New(ctx, c, "ephemeral_volume", "", s.log), Logger: s.log,
	})
}
