package control

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/etcd"
)

// stored is the store with its election.
type stored interface {
	component.Component
	store.Store
	Election(id string, log *slog.Logger) *etcd.Election
}

// serverID identifies this server among those on one store: by its node's name, and a part that only its data directory has.
func (p *Plane) serverID() (string, error) {
	path := p.cfg.Dir.ServerID()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text() + "\n")
		err = pki.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return "", err
	}
	return p.cfg.Server.NodeName + "_" + strings.TrimSpace(string(b)), nil
}

// masters reports, under upstream's metric, whether this server leads. The scheduler and the controllers share one election.
func masters(e *etcd.Election) (out []prometheus.Collector) {
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "leader_election_master_status", Help: "1 while this server leads, 0 while it stands by.", ConstLabels: prometheus.Labels{"name": name},
		}, func() float64 {
			if e.Leads() {
				return 1
			}
			return 0
		}))
	}
	return out
}

// led has components run on one server only.
func led(e *etcd.Election, all []component.Component) []component.Component {
	out := make([]component.Component, len(all))
	for i, c := range all {
		out[i] = e.Led(c)
	}
	return out
}
