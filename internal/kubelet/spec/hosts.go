package spec

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxHostname = 63 // the kernel allows 64; upstream keeps one back
	maxFQDN     = 64
	etcHosts    = "/etc/hosts"
)

// hostname is the pod's short name and, in a subdomain, its domain.
func (b *Builder) hostname(pod *v1.Pod) (name, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil {
		if msgs := validation.IsDNS1123Subdomain(*o); len(msgs) != 0 {
			return "", "", fmt.Errorf("pod HostnameOverride %q is not a valid DNS subdomain: %s", *o, strings.Join(msgs, ";"))
		}
		return shorten(*o), "", nil
	}
	name = pod.Name
	if h := pod.Spec.Hostname; h != "" {
		if msgs := validation.IsDNS1123Label(h); len(msgs) != 0 {
			return "", "", fmt.Errorf("pod Hostname %q is not a valid DNS label: %s", h, strings.Join(msgs, ";"))
		}
		name = h
	}
	if s := pod.Spec.Subdomain; s != "" {
		if msgs := validation.IsDNS1123Label(s); len(msgs) != 0 {
			return "", "", fmt.Errorf("pod Subdomain %q is not a valid DNS label: %s", s, strings.Join(msgs, ";"))
		}
		domain = fmt.Sprintf("%s.%s.svc.%s", s, pod.Namespace, b.c.DNS.Domain)
	}
	return shorten(name), domain, nil
}

// shorten cuts a name to what the kernel takes; it must not end in a separator.
func shorten(name string) string {
	if len(name) <= maxHostname {
		return name
	}
	return strings.TrimRight(name[:maxHostname], "-.")
}

// kernelHostname is what the kernel tells the pod's containers.
func (b *Builder) kernelHostname(pod *v1.Pod) (string, error) {
	name, domain, err := b.hostname(pod)
	if err != nil || domain == "" || pod.Spec.SetHostnameAsFQDN == nil || !*pod.Spec.SetHostnameAsFQDN {
		return name, err
	}
	fqdn := name + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			fqdn, maxFQDN, len(fqdn))
	}
	return fqdn, nil
}

// hostsFile writes the pod's /etc/hosts and returns where it is.
func (b *Builder) hostsFile(pod *v1.Pod, ips []string) (string, error) {
	var text string
	if pod.Spec.HostNetwork {
		own, err := b.c.Files.ReadFile(etcHosts)
		if err != nil {
			return "", err
		}
		text = "# Kubernetes-managed hosts file (host network).\n" + string(own)
	} else {
		name, domain, err := b.hostname(pod)
		if err != nil {
			return "", err
		}
		text = managedHosts(ips, name, domain)
	}
	text += hostAliases(pod.Spec.HostAliases)
	path := filepath.Join(b.c.Volumes.Layout().Pod(pod.UID), "etc-hosts")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", err
	}
	// It is written in place, since running containers have this very file mounted, and only when it changes, since a reader may
	// see it empty meanwhile.
	if !holds(path, text) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return path, os.Chmod(path, 0o644)
}

// holds tells whether a file is this text. Containers write to it and may make it larger than memory: such a file is not read.
func holds(path, text string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // read only
	have, err := io.ReadAll(io.LimitReader(f, int64(len(text))+1))
	return err == nil && string(have) == text
}

func managedHosts(ips []string, name, domain string) string {
	var s strings.Builder
	s.WriteString("# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n")
	for _, ip := range ips {
		if domain != "" {
			fmt.Fprintf(&s, "%s\t%s.%s\t%s\n", ip, name, domain, name)
		} else {
			fmt.Fprintf(&s, "%s\t%s\n", ip, name)
		}
	}
	return s.String()
}

func hostAliases(aliases []v1.HostAlias) string {
	if len(aliases) == 0 {
		return ""
	}
	var s strings.Builder
	s.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range aliases {
		fmt.Fprintf(&s, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return s.String()
}
