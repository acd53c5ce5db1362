package control

import "context"

// reloadTokenKeys reads the keys again on each signal. A file that cannot be read changes nothing.
func (p *Plane) reloadTokenKeys(ctx context.Context, ready func()) error {
	log := p.log("token-keys")
	reload := func() error {
		keys, err := p.cfg.Certs.TokenKeys()
		if err != nil {
			return err
		}
		return p.identity.keys.Replace(keys.Signer, keys.Verify...)
	}
	if err := reload(); err != nil { // what was missed before
		return err
	}
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.cfg.Hangup:
			if err := reload(); err != nil {
				log.Error("the keys of ServiceAccount tokens could not be read anew: those of before go on", "err", err)
				continue
			}
			log.Info("the keys of ServiceAccount tokens were read anew")
		}
	}
}
