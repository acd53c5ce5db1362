package node

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Machine is what the kernel and the system's files say about the machine. It does not change while the machine is up.
type Machine struct {
	CPUs            int
	Memory, Swap    int64             // bytes
	Storage         int64             // bytes of the file system that holds the data directory
	HugePages       map[int64]int64   // page size in bytes -> pages
	MachineID       string            // /etc/machine-id
	SystemUUID      string            // of the firmware; the machine id where there is none
	BootID          string            // new with every boot
	Kernel, OSImage string            // release; PRETTY_NAME of os-release
	Capability      map[uint]struct{} // effective capabilities of this process by number
}

// ReadMachine reads the machine's facts. root is where the system's file tree stands ("/", or a tree made by a test); dataDir is a
// real path. Only the number of CPUs, memory and the kernel's release are needed; what else is missing stays empty.
func ReadMachine(root, dataDir string) (Machine, error) {
	m := Machine{HugePages: map[int64]int64{}, Capability: map[uint]struct{}{}}
	line := func(names ...string) string {
		for _, n := range names {
			if b, err := os.ReadFile(filepath.Join(root, n)); err == nil {
				if s := strings.Trim(string(b), " \n\x00"); s != "" {
					return s
				}
			}
		}
		return ""
	}
	m.MachineID = line("etc/machine-id", "var/lib/dbus/machine-id")
	m.SystemUUID = line("sys/class/dmi/id/product_uuid", "proc/device-tree/system-id", "proc/device-tree/vm,uuid")
	if m.SystemUUID == "" {
		m.SystemUUID = m.MachineID
	}
	m.BootID = line("proc/sys/kernel/random/boot_id")
	m.Kernel = line("proc/sys/kernel/osrelease")
	m.OSImage = "Unknown"
	if v, ok := keyed(line("etc/os-release", "usr/lib/os-release"), "=")["PRETTY_NAME"]; ok {
		m.OSImage = strings.Trim(v, `"'`)
	}
	info := keyed(line("proc/meminfo"), ":")
	m.Memory, m.Swap = kilobytes(info["MemTotal"]), kilobytes(info["SwapTotal"])
	if m.Memory == 0 || m.Kernel == "" {
		return m, fmt.Errorf("node: %s says nothing of MemTotal, or there is no kernel release: is /proc mounted?", filepath.Join(root, "proc/meminfo"))
	}
	m.CPUs = countRanges(line("sys/devices/system/cpu/online"))
	if m.CPUs == 0 {
		m.CPUs = runtime.NumCPU()
	}
	m.readHugePages(root)
	if bits, err := strconv.ParseUint(keyed(line("proc/self/status"), ":")["CapEff"], 16, 64); err == nil {
		for i := range uint(64) {
			if bits&(1<<i) != 0 {
				m.Capability[i] = struct{}{}
			}
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dataDir, &fs); err != nil {
		return m, fmt.Errorf("node: the size of the file system of %s: %w", dataDir, err)
	}
	m.Storage = int64(fs.Blocks) * fs.Bsize //nolint:unconvert // the types differ between architectures
	return m, nil
}

func (m *Machine) readHugePages(root string) {
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/kernel/mm/hugepages/hugepages-*kB"))
	for _, d := range dirs {
		var kb int64
		if _, err := fmt.Sscanf(filepath.Base(d), "hugepages-%dkB", &kb); err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(d, "nr_hugepages"))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			m.HugePages[kb<<10] = n
		}
	}
}

// Capacity is what the machine has, as resources of a node.
func (m Machine) Capacity(maxPods int64) v1.ResourceList {
	list := v1.ResourceList{
		v1.ResourceCPU:              *resource.NewQuantity(int64(m.CPUs), resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(m.Memory, resource.BinarySI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(m.Storage, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	for size, pages := range m.HugePages {
		name := v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		list[v1.ResourceName(name)] = *resource.NewQuantity(size*pages, resource.BinarySI)
	}
	return list
}

// Allocatable is capacity less what is reserved, and never below zero; huge pages are taken off the memory.
func Allocatable(capacity, reserved v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range capacity {
		left := q.DeepCopy()
		if r, ok := reserved[name]; ok {
			left.Sub(r)
		}
		if left.Sign() < 0 {
			left.Set(0)
		}
		out[name] = left
	}
	memory := out[v1.ResourceMemory]
	for name, q := range out {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			memory.Sub(q)
		}
	}
	if memory.Sign() < 0 {
		memory.Set(0)
	}
	out[v1.ResourceMemory] = memory
	return out
}

// Reserved sums up what pods may not use: kube and system reservations, and the hard eviction thresholds for memory and for the
// node's file system, which keep pods away from eviction. Thresholds are quantities or percentages of the capacity.
func Reserved(capacity v1.ResourceList, kube, system, evictionHard map[string]string) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	add := func(name v1.ResourceName, q resource.Quantity) {
		sum := out[name]
		sum.Add(q)
		out[name] = sum
	}
	for _, part := range []map[string]string{kube, system} {
		for name, value := range part {
			q, err := resource.ParseQuantity(value)
			if err != nil {
				return nil, fmt.Errorf("node: reserved %s: %q: %w", name, value, err)
			}
			add(v1.ResourceName(name), q)
		}
	}
	signals := map[string]v1.ResourceName{"memory.available": v1.ResourceMemory, "nodefs.available": v1.ResourceEphemeralStorage}
	for signal, name := range signals {
		value := evictionHard[signal]
		if value == "" {
			continue
		}
		if pct, ok := strings.CutSuffix(value, "%"); ok {
			f, err := strconv.ParseFloat(pct, 64)
			if err != nil || f < 0 || f > 100 {
				return nil, fmt.Errorf("node: evictionHard %s: %q is no percentage", signal, value)
			}
			whole := capacity[name]
			add(name, *resource.NewQuantity(int64(float64(whole.Value())*f/100), resource.BinarySI))
			continue
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("node: evictionHard %s: %q: %w", signal, value, err)
		}
		add(name, q)
	}
	return out, nil
}

// keyed reads "key<sep> value" lines.
func keyed(text, sep string) map[string]string {
	out := map[string]string{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), sep); ok {
			out[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return out
}

func kilobytes(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(s, "kB")), 10, 64)
	return n << 10
}

// countRanges counts the members of a list as the kernel writes it, like "0-3,8".
func countRanges(s string) int {
	n := 0
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, ok := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			return 0
		}
		b := a
		if ok {
			if b, err = strconv.Atoi(hi); err != nil {
				return 0
			}
		}
		n += b - a + 1
	}
	return n
}
