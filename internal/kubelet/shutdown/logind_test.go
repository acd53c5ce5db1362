package shutdown

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// privateBus starts a D-Bus of the test's own and returns a function that connects to it.
func privateBus(t *testing.T) func() *dbus.Conn {
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	address := "unix:path=" + filepath.Join(dir, "bus")
	text := `<busconfig><type>session</type><listen>` + address + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(program, "--config-file="+config, "--nofork", "--print-address")
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	if _, err := out.Read(make([]byte, 256)); err != nil { // it listens
		t.Fatal(err)
	}
	return func() *dbus.Conn {
		c, err := dbus.Connect(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// fakeLogind is logind and systemd of a private bus. It reads its configuration when it is told to, as logind does.
type fakeLogind struct {
	dir   string
	props *prop.Properties

	mu   sync.Mutex
	asks []string
	lock *os.File // the other end of who inhibits
}

func (f *fakeLogind) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks, f.lock = append(f.asks, strings.Join([]string{what, who, mode}, " ")), r
	fd, err := syscall.Dup(int(w.Fd()))
	w.Close()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	time.AfterFunc(time.Second, func() { _ = syscall.Close(fd) }) // it has been sent
	return dbus.UnixFD(fd), nil
}

func (f *fakeLogind) KillUnit(unit, whom string, signal int32) *dbus.Error {
	text, err := os.ReadFile(filepath.Join(f.dir, "99-kubelet.conf"))
	if err != nil {
		return dbus.MakeFailedError(err)
	}
	if unit != "systemd-logind.service" || whom != "all" || signal != 1 || !strings.Contains(string(text), "[Login]\nInhibitDelayMaxSec=30\n") {
		return dbus.NewError("org.freedesktop.DBus.Error.Failed", []any{unit, whom, signal, string(text)})
	}
	f.props.SetMust(manager, "InhibitDelayMaxUSec", uint64(30_000_000))
	return nil
}

// The adapter against a bus that is real: what is asked of logind, a lock that is let go of, and a shutdown that is told.
func TestLogindOnABus(t *testing.T) {
	connect := privateBus(t)
	f := &fakeLogind{dir: t.TempDir()}
	server := connect()
	var err error
	f.props, err = prop.Export(server, loginPath, prop.Map{manager: {"InhibitDelayMaxUSec": {Value: uint64(5_000_000)}}})
	if err != nil {
		t.Fatal(err)
	}
	for path, iface := range map[dbus.ObjectPath]string{loginPath: manager, systemdPath: systemd + ".Manager"} {
		if err := server.Export(f, path, iface); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{login, systemd} {
		if _, err := server.RequestName(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	b := &bus{connect(), f.dir}
	if d, err := b.Delay(); err != nil || d != 5*time.Second {
		t.Fatal(d, err)
	}
	if err := b.Raise(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Delay(); err != nil || d != 30*time.Second {
		t.Fatal(d, err)
	}
	shutdowns, err := b.Shutdowns()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := b.Inhibit()
	f.mu.Lock()
	asks, held := f.asks, f.lock
	f.mu.Unlock()
	if err != nil || len(asks) != 1 || asks[0] != "shutdown kubelet delay" {
		t.Fatal(asks, err)
	}
	for _, down := range []bool{true, false} {
		if err := server.Emit(loginPath, manager+"."+prepare, down); err != nil {
			t.Fatal(err)
		}
		if got := <-shutdowns; got != down {
			t.Errorf("told %v, want %v", got, down)
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := held.Read(make([]byte, 1)); n != 0 { // ends when nobody holds the lock any more
		t.Error("the lock is still held")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-shutdowns; open {
		t.Error("a lost connection is not told")
	}
}
