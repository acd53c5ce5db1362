package cm

import (
	"path"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// PodsCPU is the time of processors that all pods together have used, in nanoseconds. ok is false when the kernel does not tell.
func (m *Manager) PodsCPU() (used uint64, ok bool) {
	at := m.c.Driver.Path(className(m.root, v1.PodQOSGuaranteed))
	if !m.layout.V2 {
		text, err := m.c.Host.ReadFile(path.Join(m.layout.dir("cpuacct", at), "cpuacct.usage"))
		if err != nil {
			return 0, false
		}
		used, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		return used, err == nil
	}
	text, err := m.c.Host.ReadFile(path.Join(m.layout.dir("cpu", at), "cpu.stat"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "usage_usec" {
			n, err := strconv.ParseUint(f[1], 10, 64)
			return n * 1000, err == nil
		}
	}
	return 0, false
}

// PodsMemory is the memory that all pods together use, inactive file pages excluded, and their limit, in bytes. ok is false when
// the kernel does not tell, or nothing limits them.
func (m *Manager) PodsMemory() (used, limit int64, ok bool) {
	q, ok := m.c.Pods[v1.ResourceMemory]
	if !ok {
		return 0, 0, false
	}
	usage, idle := "memory.usage_in_bytes", "total_inactive_file"
	if m.layout.V2 {
		usage, idle = "memory.current", "inactive_file"
	}
	dir := m.layout.dir("memory", m.c.Driver.Path(className(m.root, v1.PodQOSGuaranteed)))
	text, err := m.c.Host.ReadFile(path.Join(dir, usage))
	if err != nil {
		return 0, 0, false
	}
	used, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	stat, err := m.c.Host.ReadFile(path.Join(dir, "memory.stat"))
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(stat)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == idle {
			n, _ := strconv.ParseInt(f[1], 10, 64) // a missing figure makes the sum too large rather than too small
			used = max(0, used-n)
		}
	}
	return used, q.Value(), true
}

// Figures is the directory where the kernel accounts a pod, or all pods together for nil: everything on v2, memory on v1.
func (m *Manager) Figures(pod *v1.Pod) (dir string, v2 bool) {
	name := className(m.root, v1.PodQOSGuaranteed)
	if pod != nil {
		name = podName(m.root, QOS(pod), pod.UID)
	}
	return m.layout.dir("memory", m.c.Driver.Path(name)), m.layout.V2
}
