package upkeep

import (
	"crypto"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/pki"
)

// The command line changes the file with the keys of ServiceAccount tokens; SIGHUP makes a running server read it again.

// TokenKey is a key of ServiceAccount tokens.
type TokenKey struct {
	ID    string
	Signs bool // new tokens; the others are for tokens that were made before
}

// TokenKeys are the keys of a data directory.
func TokenKeys(dataDir string) ([]TokenKey, error) {
	f, _, err := tokenKeyFile(dataDir)
	if err != nil {
		return nil, err
	}
	keys, err := f.Read()
	if err != nil {
		return nil, err
	}
	return named(keys)
}

// RotateTokenKey makes a new key that signs from now on. told says that a running server was notified.
func RotateTokenKey(dataDir string) (all []TokenKey, told bool, err error) {
	return changeTokenKeys(dataDir, pki.TokenKeyFile.Rotate)
}

// ForgetTokenKey removes a key that no longer signs: tokens that it signed become invalid.
func ForgetTokenKey(dataDir, id string) (all []TokenKey, told bool, err error) {
	return changeTokenKeys(dataDir, func(f pki.TokenKeyFile) (pki.TokenKeys, error) {
		return f.Forget(func(public crypto.PublicKey) bool {
			is, err := tokens.KeyID(public)
			return err == nil && is == id
		})
	})
}

func tokenKeyFile(dataDir string) (f pki.TokenKeyFile, pid int, err error) {
	dir, err := datadir.Existing(dataDir)
	if err != nil {
		return f, 0, err
	}
	if err := dir.ForServer(); err != nil {
		return f, 0, err
	}
	pid, err = dir.Running()
	return pki.TokenKeyFile{Dir: dir.PKI()}, pid, err
}

func changeTokenKeys(dataDir string, change func(pki.TokenKeyFile) (pki.TokenKeys, error)) (all []TokenKey, told bool, err error) {
	f, pid, err := tokenKeyFile(dataDir)
	if err != nil {
		return nil, false, err
	}
	keys, err := change(f)
	if err != nil {
		return nil, false, err
	}
	if pid != 0 {
		if err := unix.Kill(pid, unix.SIGHUP); err != nil {
			return nil, false, err
		}
	}
	all, err = named(keys)
	return all, pid != 0, err
}

func named(keys pki.TokenKeys) (out []TokenKey, err error) {
	signs, err := tokens.KeyID(keys.Signer.Public())
	if err != nil {
		return nil, err
	}
	for _, public := range keys.Verify {
		id, err := tokens.KeyID(public)
		if err != nil {
			return nil, err
		}
		out = append(out, TokenKey{ID: id, Signs: id == signs})
	}
	return out, nil
}
