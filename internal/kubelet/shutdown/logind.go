package shutdown

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	login     = "org.freedesktop.login1"
	loginPath = dbus.ObjectPath("/org/freedesktop/login1")
	manager   = login + ".Manager"
	prepare   = "PrepareForShutdown"

	systemd     = "org.freedesktop.systemd1"
	systemdPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// dropIn is the folder of logind's configuration in which the kubelet's wish lies, under upstream's name.
const dropIn = "/etc/systemd/logind.conf.d"

// bus is logind as it is reached by D-Bus.
type bus struct {
	conn *dbus.Conn
	dir  string // of the drop-in
}

// ConnectSystem connects to the machine's logind.
func ConnectSystem() (Logind, error) {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return nil, fmt.Errorf("the system's D-Bus does not answer: %w", err)
	}
	return &bus{conn, dropIn}, nil
}

func (b *bus) Close() error { return b.conn.Close() }

func (b *bus) logind() dbus.BusObject { return b.conn.Object(login, loginPath) }

func (b *bus) Delay() (time.Duration, error) {
	v, err := b.logind().GetProperty(manager + ".InhibitDelayMaxUSec")
	if err != nil {
		return 0, fmt.Errorf("systemd-logind does not answer: %w", err)
	}
	µs, ok := v.Value().(uint64)
	if !ok {
		return 0, fmt.Errorf("systemd-logind says that it waits for %v", v)
	}
	return time.Duration(µs) * time.Microsecond, nil
}

// settled is how long logind has to read its configuration anew.
const settled = 2 * time.Second

// Raise writes logind's configuration and has it read again, which it does by itself at some time after the signal.
func (b *bus) Raise(d time.Duration) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# Written by podo for the kubelet's shutdownGracePeriod\n[Login]\nInhibitDelayMaxSec=%.0f\n", d.Seconds())
	if err := os.WriteFile(filepath.Join(b.dir, "99-kubelet.conf"), []byte(text), 0o644); err != nil {
		return err
	}
	const hangup = int32(1)
	if err := b.conn.Object(systemd, systemdPath).Call(systemd+".Manager.KillUnit", 0, "systemd-logind.service", "all", hangup).Err; err != nil {
		return fmt.Errorf("systemd-logind cannot be told to read its configuration: %w", err)
	}
	for end := time.Now().Add(settled); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if has, err := b.Delay(); err != nil || has >= d {
			return err
		}
	}
	return nil
}

func (b *bus) Inhibit() (io.Closer, error) {
	var fd dbus.UnixFD
	err := b.logind().Call(manager+".Inhibit", 0, "shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay").Store(&fd)
	if err != nil {
		return nil, fmt.Errorf("systemd-logind does not wait for us: %w", err)
	}
	return os.NewFile(uintptr(fd), "shutdown-inhibitor"), nil
}

func (b *bus) Shutdowns() (<-chan bool, error) {
	err := b.conn.AddMatchSignal(dbus.WithMatchObjectPath(loginPath), dbus.WithMatchInterface(manager), dbus.WithMatchMember(prepare))
	if err != nil {
		return nil, err
	}
	signals, out := make(chan *dbus.Signal, 4), make(chan bool, 4)
	b.conn.Signal(signals)
	if !b.conn.Connected() {
		return nil, errors.New("the connection was lost")
	}
	go func() { // ends with the connection, which closes the channel
		defer close(out)
		for s := range signals {
			if s.Name != manager+"."+prepare || len(s.Body) != 1 {
				continue
			}
			down, ok := s.Body[0].(bool)
			if !ok {
				continue
			}
			select {
			case out <- down:
			case <-b.conn.Context().Done():
				return
			}
		}
	}()
	return out, nil
}
