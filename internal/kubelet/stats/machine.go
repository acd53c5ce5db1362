package stats

import (
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Machine is what names the machine in metrics of it.
type Machine struct{ MachineID, SystemUUID, BootID string }

var (
	machineLabels  = []string{"machine_id", "system_uuid", "boot_id"}
	machineCores   = prometheus.NewDesc("machine_cpu_cores", "Number of logical CPU cores.", machineLabels, nil)
	machineReal    = prometheus.NewDesc("machine_cpu_physical_cores", "Number of physical CPU cores.", machineLabels, nil)
	machineSockets = prometheus.NewDesc("machine_cpu_sockets", "Number of CPU sockets.", machineLabels, nil)
	machineMemory  = prometheus.NewDesc("machine_memory_bytes", "Amount of memory installed on the machine.", machineLabels, nil)
	machineSwap    = prometheus.NewDesc("machine_swap_bytes", "Amount of swap memory available on the machine.", machineLabels, nil)
	machineError   = prometheus.NewDesc("machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise.", nil, nil)
)

// machine tells of the processors and the memory.
func (c runtimes) machine(out chan<- prometheus.Metric) {
	m := c.s.cfg.Machine
	tell := func(d *prometheus.Desc, n float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, m.MachineID, m.SystemUUID, m.BootID)
	}
	stat, err := c.s.cfg.Files.ReadFile("/proc/stat")
	if err == nil {
		cores := 0.0
		for line := range strings.Lines(string(stat)) {
			if strings.HasPrefix(line, "cpu") && !strings.HasPrefix(line, "cpu ") {
				cores++
			}
		}
		tell(machineCores, cores)
	}
	tell(machineReal, c.distinct("core id", "core_id"))
	tell(machineSockets, c.distinct("physical id", "physical_package_id"))
	kb, merr := c.s.meminfo()
	if merr == nil {
		tell(machineMemory, float64(kb["MemTotal"])*1024)
		tell(machineSwap, float64(kb["SwapTotal"])*1024)
	}
	failed := 0.0
	if err != nil || merr != nil {
		failed = 1
	}
	out <- prometheus.MustNewConstMetric(machineError, prometheus.GaugeValue, failed)
}

// distinct counts the distinct values of a property over all processors, as upstream does: by /proc/cpuinfo, or sysfs where that
// lacks it.
func (c runtimes) distinct(field, file string) float64 {
	seen := map[string]bool{}
	if text, err := c.s.cfg.Files.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == field {
				seen[strings.TrimSpace(value)] = true
			}
		}
	}
	if len(seen) > 0 {
		return float64(len(seen))
	}
	const cpus = "/sys/bus/cpu/devices"
	names, _ := c.s.cfg.Files.ReadDir(cpus) // 0 where nobody knows
	for _, name := range names {
		if text, err := c.s.cfg.Files.ReadFile(filepath.Join(cpus, name, "topology", file)); err == nil {
			seen[strings.TrimSpace(string(text))] = true
		}
	}
	return float64(len(seen))
}
