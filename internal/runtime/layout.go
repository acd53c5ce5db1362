package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// Layout is where the runtime keeps things. Durable things are below the data directory; what a reboot ends (sockets, mounts, network
// namespaces, address leases) is below /run/podo in a folder named after the data directory, for two reasons: a Unix socket's path
// has at most 107 bytes, a shim's 64 of them a digest; and state of processes that a reboot ended must not outlive them.
type Layout struct {
	ID  string // 8 hexadecimal digits that stand for the data directory in names of interfaces and tables
	Bin string // unpacked programs, CNI plug-ins too

	Root   string // containerd's durable state: images, snapshots, metadata
	Certs  string // registry hosts: <host>/hosts.toml
	Config string // containerd's configuration files
	Log    string // containerd's log
	CNI    string // the network list

	Run     string // volatile, 0711
	State   string // containerd's volatile state: bundles, mounts, network namespaces
	Socket  string // containerd's gRPC socket
	TTRPC   string // the shims' way back to containerd
	Shims   string // shims' sockets
	RuncDir string // runc's state
	Leases  string // which pod has which address (podnet/lease)
	Lock    string // held by the podo that supervises
	Notify  string // where containerd says that it is ready
	Ready   string // which one was seen ready

	Bridge string // the pod network's bridge, 15 bytes at most
	Table  string // nftables table
}

// runRoot is where volatile state goes.
const runRoot = "/run/podo"

// LayoutFor gives the layout of a data directory, an absolute path without symbolic links: the same directory must always give the
// same layout, or a restarted podo would not find its containers.
func LayoutFor(dataDir string) Layout {
	dataDir = filepath.Clean(dataDir)
	sum := sha256.Sum256([]byte(dataDir))
	id := hex.EncodeToString(sum[:4])
	data := filepath.Join(dataDir, "containerd")
	run := filepath.Join(runRoot, id)
	return Layout{
		ID:  id,
		Bin: filepath.Join(dataDir, "bin"),

		Root:   filepath.Join(data, "root"),
		Certs:  filepath.Join(data, "certs.d"),
		Config: filepath.Join(data, "config"),
		Log:    filepath.Join(data, "containerd.log"),
		CNI:    filepath.Join(dataDir, "cni", "net.d"),

		Run:     run,
		State:   filepath.Join(run, "containerd"),
		Socket:  filepath.Join(run, "containerd.sock"),
		TTRPC:   filepath.Join(run, "containerd.sock.ttrpc"),
		Shims:   filepath.Join(run, "s"),
		RuncDir: filepath.Join(run, "runc"),
		Leases:  filepath.Join(run, "ipam"),
		Lock:    filepath.Join(run, "lock"),
		Notify:  filepath.Join(run, "notify"),
		Ready:   filepath.Join(run, "ready"),

		Bridge: "podo" + id,
		Table:  "podo_" + id,
	}
}

// bridgeMAC is the bridge's hardware address, locally administered.
func (l Layout) bridgeMAC() string {
	mac := "0a:58"
	for i := 0; i < len(l.ID); i += 2 {
		mac += ":" + l.ID[i:i+2]
	}
	return mac
}
