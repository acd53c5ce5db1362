package cm

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/host"
)

// Machine is what the node has.
type Machine struct {
	CPUs      int
	Memory    int64            // bytes
	Swap      int64            // bytes
	HugePages map[string]int64 // page size as the kernel names it ("2MB") -> bytes reserved for pages of that size
	Processes int64            // that there may be at once; 0: it is not known
}

// ReadMachine asks the host.
func ReadMachine(h host.Files) (Machine, error) {
	m := Machine{HugePages: map[string]int64{}}
	online, err := h.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return m, fmt.Errorf("count the cpus: %w", err)
	}
	if m.CPUs, err = countList(strings.TrimSpace(string(online))); err != nil {
		return m, fmt.Errorf("/sys/devices/system/cpu/online: %w", err)
	}
	mem, err := h.ReadFile("/proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("read the memory's size: %w", err)
	}
	for line := range strings.Lines(string(mem)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemTotal:" && f[0] != "SwapTotal:" {
			continue
		}
		kb, err := strconv.ParseInt(f[1], 10, 64)
		switch {
		case err != nil:
			return m, fmt.Errorf("/proc/meminfo: %s %q is no number", f[0], f[1])
		case f[0] == "MemTotal:":
			m.Memory = kb << 10
		default:
			m.Swap = kb << 10
		}
	}
	if m.Memory == 0 {
		return m, fmt.Errorf("/proc/meminfo has no MemTotal")
	}
	m.Processes = mostProcesses(h)
	const dir = "/sys/kernel/mm/hugepages"
	sizes, err := h.ReadDir(dir)
	if err != nil {
		return m, nil // a kernel without huge pages
	}
	for _, s := range sizes {
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(s, "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		b, err := h.ReadFile(dir + "/" + s + "/nr_hugepages")
		if err != nil {
			return m, fmt.Errorf("count the huge pages: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return m, fmt.Errorf("%s/%s/nr_hugepages: %w", dir, s, err)
		}
		m.HugePages[pageUnit(kb<<10)] = n * kb << 10
	}
	return m, nil
}

// mostProcesses is how many tasks the kernel has numbers and room for.
func mostProcesses(h host.Files) (least int64) {
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := h.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// ForPods is what all pods together are limited to by their common cgroup: the node's capacity, and the machine's processes, less what is
// reserved for the system and the agent. What eviction keeps free is not taken off: eviction, not the kernel, defends it.
func (m Machine) ForPods(capacity v1.ResourceList, r Reserved) v1.ResourceList {
	out := capacity.DeepCopy()
	if m.Processes > 0 {
		out[Processes] = *resource.NewQuantity(m.Processes, resource.DecimalSI)
	}
	subtract(out, r.Kube)
	subtract(out, r.System)
	return out
}

// PageSizes are the page sizes that the kernel has, sorted, as it names them.
func (m Machine) PageSizes() []string { return sortedKeys(m.HugePages) }

// Capacity is the machine as resources of a node, storage and pods excepted.
func (m Machine) Capacity() v1.ResourceList {
	out := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(int64(m.CPUs)*milliPerCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(m.Memory, resource.BinarySI),
	}
	for size, b := range m.HugePages {
		out[v1.ResourceName(v1.ResourceHugePagesPrefix+strings.TrimSuffix(size, "B")+"i")] = *resource.NewQuantity(b, resource.BinarySI)
	}
	return out
}

// countList counts the numbers of a kernel list like "0-3,8".
func countList(s string) (int, error) {
	n := 0
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(hi)
		}
		if err != nil || b < a {
			return 0, fmt.Errorf("%q is no list of numbers", s)
		}
		n += b - a + 1
	}
	return n, nil
}

// HugePageUnit is the kernel's name for the page size in a resource name: hugepages-2Mi is 2MB.
func HugePageUnit(name v1.ResourceName) (string, bool) {
	s, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !ok {
		return "", false
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return "", false
	}
	return pageUnit(q.Value()), true
}

// pageUnit writes a page size as the kernel does: the largest unit that divides it, KB, MB or GB.
func pageUnit(bytes int64) string {
	unit, units := bytes>>10, []string{"KB", "MB", "GB"}
	i := 0
	for i < len(units)-1 && unit >= 1024 && unit%1024 == 0 {
		unit, i = unit>>10, i+1
	}
	return strconv.FormatInt(unit, 10) + units[i]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
