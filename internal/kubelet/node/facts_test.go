package node

import (
	"io/fs"
	"testing"
	"time"

	"podo.dev/podo/internal/host"
)

type files map[string]string

var _ host.Files = files{}

func (f files) ReadFile(path string) ([]byte, error) {
	if s, ok := f[path]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

func (f files) ReadDir(string) ([]string, error) { return nil, fs.ErrNotExist }

func TestReadFacts(t *testing.T) {
	h := files{
		"/var/lib/dbus/machine-id":        "abc\n",
		"/etc/os-release":                 "NAME=\"D\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"/proc/sys/kernel/random/boot_id": "boot\n",
		"/proc/sys/kernel/osrelease":      "6.18.1\n",
		"/proc/stat":                      "cpu  1 2 3\nbtime 1767225600\n",
		"/proc/meminfo":                   "MemTotal: 1 kB\nSwapTotal:      1024 kB\n",
		"/proc/self/status":               "Name:\tx\nCapEff:\t0000000001000000\n",
		"/proc/self/uid_map":              "         0          0 4294967295\n",
	}
	got, err := ReadFacts(h)
	want := Facts{
		MachineID: "abc", SystemUUID: "abc", BootID: "boot", Kernel: "6.18.1", OSImage: "Debian GNU/Linux 12 (bookworm)",
		Booted: time.Unix(1767225600, 0), Swap: 1 << 20, SysResource: true,
	}
	if err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	h["/sys/class/dmi/id/product_uuid"] = "UUID\n"
	h["/proc/self/status"] = "CapEff:\t000001fffeffffff\n" // the machines we are tested on
	h["/proc/self/uid_map"] = "         0       1000          1\n"
	if got, _ = ReadFacts(h); got.SystemUUID != "UUID" || got.SysResource || !got.UserNS {
		t.Errorf("%+v", got)
	}
	delete(h, "/proc/sys/kernel/osrelease")
	if _, err := ReadFacts(h); err == nil {
		t.Error("a host without /proc is no machine")
	}
}

func TestStorageBytes(t *testing.T) {
	if n, err := StorageBytes(t.TempDir()); err != nil || n <= 0 {
		t.Errorf("%d %v", n, err)
	}
	if _, err := StorageBytes("/does/not/exist"); err == nil {
		t.Error("a directory that is not there has a size")
	}
}
