package daemon

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/certificateapproval"
	"podo.dev/podo/internal/controllers/certificatecleaning"
	"podo.dev/podo/internal/controllers/certificatesigning"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/trustbundle"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/pki"
)

// certificateControllers answer those who ask for certificates.
func (s *server) certificateControllers() []component.Component {
	return []component.Component{
		component.Func("csr-approving", s.controller(s.newCertificateApproval)),
		component.Func("csr-signing", s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) {
			return certificatesigning.New(s.control.view, c, s.certs, s.log)
		})),
		component.Func("csr-cleaner", s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) {
			return certificatecleaning.New(s.control.view, c, s.log)
		})),
		component.Func("trust-bundle", s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) {
			return trustbundle.New(s.control.view, c, s.certs.CAPEM(), s.log)
		})),
	}
}

// newCertificateApproval: nobody but the API server serves at the names of its own certificate.
func (s *server) newCertificateApproval(_ context.Context, c client.Client) (*loop.Loop, error) {
	return certificateapproval.New(certificateapproval.Config{
		View: s.control.view, Client: c, Logger: s.log,
		Reserved: func() []string {
			leaf := s.certs.Get(pki.Serving).Leaf
			all := append([]string{}, leaf.DNSNames...)
			for _, ip := range leaf.IPAddresses {
				all = append(all, ip.String())
			}
			return all
		},
	})
}

// keepCertificates renews certificates before they expire, and when the clock was set; whoever uses one asks for it at each handshake. The
// admin kubeconfig holds a copy, and is written anew.
func (s *server) keepCertificates(ctx context.Context, ready func()) error {
	ready()
	log := s.log.With("component", "certificates")
	clock, err := linux.ClockSet(ctx)
	if err != nil {
		log.Warn("changes of the clock will be noticed late", "err", err)
	}
	s.certs.Keep(ctx, clock, func(names []pki.Name) error {
		log.Info("certificates were renewed", "names", names)
		return s.certs.WriteKubeconfig(pki.Admin, s.apiURL(), s.dirs.Kubeconfig())
	}, func(err error) {
		log.Error("certificates could not be renewed, will try again", "err", err)
	})
	return nil
}
