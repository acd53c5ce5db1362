package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/jointoken"
	"podo.dev/podo/internal/kubelet/cert"
)

// Agent is the configuration of `podo agent`.
type Agent struct {
	Node
	Server    string // https://host:port
	Token     string // what `podo token create` printed
	TokenFile string // or the file that has it
	CAFile    string // the cluster's authority, where the token does not name it

	Address netip.AddrPort // of Server, as Complete resolves it; invalid where it cannot be resolved
}

// DefaultAgent is an agent on its defaults.
func DefaultAgent() Agent { return Agent{Node: defaultNode()} }

// Complete fills in what can be found out and checks the rest. Errors name the flag, and never the token.
func (c *Agent) Complete() error {
	if c.Server == "" {
		return errors.New("--server is needed: the API server's address, https://HOST:6443 (`podo token create` on the server prints the whole command)")
	}
	u, err := url.Parse(c.Server)
	switch {
	case err != nil || u.Hostname() == "":
		return fmt.Errorf("--server %q is no address: use https://HOST:6443", c.Server)
	case u.Scheme != "https":
		return fmt.Errorf("--server %q: use https://, nodes and servers speak TLS only", c.Server)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
		return fmt.Errorf("--server %q: give scheme, host and port and nothing else", c.Server)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "6443")
	}
	c.Server = "https://" + u.Host
	if err := c.Node.complete(); err != nil {
		return err
	}
	if err := c.completeToken(); err != nil {
		return err
	}
	// A name that cannot be resolved now may be later; features that need the address do without.
	if a, err := net.ResolveTCPAddr("tcp", u.Host); err == nil {
		c.Address = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	}
	return nil
}

func (c *Agent) completeToken() error {
	if c.TokenFile != "" {
		if c.Token != "" {
			return errors.New("--token and --token-file are two ways to say one thing: give one of them")
		}
		content, err := c.once(c.TokenFile)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		c.Token = strings.TrimSpace(string(content))
	}
	if c.Token == "" {
		return nil // sufficient for a node that has joined before
	}
	if _, err := jointoken.Parse(c.Token); err != nil {
		return fmt.Errorf("--token: %w", err)
	}
	return nil
}

// once is the content of a file that is needed only for joining: after that it may be missing.
func (c *Agent) once(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && cert.Joined((datadir.Dir{Root: c.DataDir}).Certificates()) {
		return nil, nil
	}
	return content, err
}

// Authority is the CAFile's content, nil without one.
func (c *Agent) Authority() ([]byte, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	ca, err := c.once(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	return ca, nil
}
