package cm

import (
	"fmt"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// What of the node's division the kernel is told (enforceNodeAllocatable).
const (
	EnforcePods                = "pods"
	EnforceNone                = "none"
	EnforceSystem              = "system-reserved"
	EnforceSystemCompressible  = "system-reserved-compressible"
	EnforceKube                = "kube-reserved"
	EnforceKubeCompressible    = "kube-reserved-compressible"
	systemReserved, kubeServed = "System Reserved", "Kube Reserved"
)

// Processes is the name by which reservations limit the number of processes. It is no resource of a Node.
const Processes = v1.ResourceName("pid")

// Share is what a part of the node is held to.
type Share struct {
	Cgroup   string // as the configuration names it, from the hierarchy's root
	Reserved v1.ResourceList
	// Compressible limits its cpu only: too little cpu slows processes down, too little memory kills them.
	Compressible bool
	what         string
}

// SystemShare and KubeShare are the system's own processes and Kubernetes' own.
func SystemShare(cgroup string, reserved v1.ResourceList, compressible bool) Share {
	return Share{cgroup, reserved, compressible, systemReserved}
}

// KubeShare is that of the node agent and the container runtime.
func KubeShare(cgroup string, reserved v1.ResourceList, compressible bool) Share {
	return Share{cgroup, reserved, compressible, kubeServed}
}

// Enforce limits cgroups that others made to what is reserved for them, and tells told about each. A missing cgroup is an error:
// the reservation would hold nobody.
func (m *Manager) Enforce(shares []Share, told func(message string)) error {
	for _, s := range shares {
		kind := s.what
		if s.Compressible {
			kind += " Compressible"
		}
		if err := m.enforce(s); err != nil {
			//lint:ignore ST1005 upstream's text
			return fmt.Errorf("Failed to enforce %s Cgroup Limits on %q: %w", kind, s.Cgroup, err)
		}
		told(fmt.Sprintf("Updated limits on %s cgroup %v", strings.ToLower(s.what), s.Cgroup))
	}
	return nil
}

func (m *Manager) enforce(s Share) error {
	p := path.Join("/", s.Cgroup)
	var missing []string
	for _, dir := range m.layout.dirs(p) {
		if _, err := m.c.Host.ChildCgroups(dir); err != nil {
			missing = append(missing, dir)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroup %q has some missing paths: %s", s.Cgroup, strings.Join(missing, ", "))
	}
	l := Limits{}
	if q, ok := s.Reserved[v1.ResourceCPU]; ok {
		l.CPUShares = ptr(MilliCPUToShares(q.MilliValue()))
	}
	if q, ok := s.Reserved[v1.ResourceMemory]; ok && !s.Compressible {
		l.Memory = ptr(q.Value())
		l.Unified = map[string]string{"memory.min": fmt.Sprint(q.Value())}
	}
	if q, ok := s.Reserved[Processes]; ok && !s.Compressible {
		l.Pids = ptr(q.Value())
	}
	return m.set(p, l)
}
