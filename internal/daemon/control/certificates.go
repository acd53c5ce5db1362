package control

import (
	"context"

	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/pki"
)

// keepCertificates renews certificates before they expire, and when the clock was set. Their users fetch them at each handshake;
// the admin kubeconfig holds a copy and is written again.
func (p *Plane) keepCertificates(ctx context.Context, ready func()) error {
	ready()
	log := p.log("certificates")
	clock, err := linux.ClockSet(ctx)
	if err != nil {
		log.Warn("changes of the clock will be noticed late", "err", err)
	}
	p.cfg.Certs.Keep(ctx, clock, func(names []pki.Name) error {
		log.Info("certificates were renewed", "names", names)
		return p.cfg.Certs.WriteKubeconfig(pki.Admin, p.cfg.Server.LocalURL(), p.cfg.Dir.Kubeconfig())
	}, func(err error) {
		log.Error("certificates could not be renewed, will try again", "err", err)
	})
	return nil
}
