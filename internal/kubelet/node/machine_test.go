package node

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadMachine(t *testing.T) {
	root := tree(t, map[string]string{
		"etc/machine-id":                 "abc\n",
		"etc/os-release":                 "NAME=\"D\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"proc/sys/kernel/random/boot_id": "boot\n",
		"proc/sys/kernel/osrelease":      "6.18.1\n",
		"proc/meminfo":                   "MemTotal:       24683620 kB\nSwapTotal:      1024 kB\n",
		"proc/self/status":               "Name:\tx\nCapEff:\t0000000001000001\n",
		"sys/devices/system/cpu/online":  "0-2,5\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "3\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
	})
	m, err := ReadMachine(root, root)
	if err != nil {
		t.Fatal(err)
	}
	if m.CPUs != 4 || m.Memory != 24683620<<10 || m.Swap != 1<<20 || m.SystemUUID != "abc" || m.OSImage != "Debian GNU/Linux 12 (bookworm)" ||
		m.Kernel != "6.18.1" || m.BootID != "boot" || m.Storage <= 0 {
		t.Errorf("%+v", m)
	}
	if _, ok := m.Capability[capSysResource]; !ok || len(m.Capability) != 2 {
		t.Errorf("capabilities %v", m.Capability)
	}
	list := m.Capacity(110)
	two, one := list["hugepages-2Mi"], list["hugepages-1Gi"]
	if two.String() != "6Mi" || one.String() != "0" {
		t.Errorf("%v", list)
	}
	if got := Allocatable(list, nil); got.Memory().Value() != m.Memory-6<<20 {
		t.Errorf("memory %v: huge pages must be taken off", got.Memory())
	}
	if _, err := ReadMachine(t.TempDir(), root); err == nil {
		t.Error("a tree without /proc is no machine")
	}
}

func TestReserved(t *testing.T) {
	capacity := Machine{CPUs: 4, Memory: 1 << 30, Storage: 1000}.Capacity(110)
	got, err := Reserved(capacity, map[string]string{"cpu": "100m", "memory": "50Mi"}, map[string]string{"cpu": "200m"},
		map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "15%"})
	if err != nil || got.Cpu().String() != "300m" || got.Memory().String() != "150Mi" || got.StorageEphemeral().Value() != 100 {
		t.Errorf("%v %v", got, err)
	}
	left := Allocatable(capacity, got)
	if left.Cpu().String() != "3700m" || left.StorageEphemeral().Value() != 900 || left.Pods().Value() != 110 {
		t.Errorf("%v", left)
	}
	if q := Allocatable(capacity, v1.ResourceList{v1.ResourceMemory: *capacity.Cpu(), v1.ResourceCPU: *capacity.Memory()}); q.Cpu().Sign() != 0 {
		t.Errorf("below zero: %v", q)
	}
	for _, bad := range []map[string]string{{"memory.available": "x"}, {"nodefs.available": "120%"}} {
		if _, err := Reserved(capacity, nil, nil, bad); err == nil {
			t.Errorf("%v accepted", bad)
		}
	}
}
