package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/podnet"
)

// Cleanup ends everything that the runtime started and takes away all that it made outside the data directory: containerd, containers,
// shims, mounts, network namespaces, the bridge and our nftables table, what is remembered of pods' attachments, /run/podo/<id>. It
// needs no working containerd, and what is gone already is no error. It is the second half of stopping a node for good: pods should
// have been stopped through the CRI before, in order and with their grace.
//
// It refuses to go on while another podo supervises. It deletes nothing below a mount: a mount that does not go away is an error.
func (r *Runtime) Cleanup(ctx context.Context) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.Shutdown(ctx); err != nil {
		return err
	}
	l := r.layout
	left, err := r.leftRunning()
	if err == nil {
		err = errors.Join(r.deleteContainers(ctx, left.containers), r.endShims(ctx, left.shims), r.endPlugins(ctx))
	}
	if err != nil {
		return err
	}
	for _, dir := range []string{l.Run, l.Root} {
		if err := unmountBelow(dir); err != nil {
			return err
		}
	}
	return errors.Join(sweepChecks(r.cfg.DataDir), r.closePorts(ctx), removeLink(l.Bridge), removeTable(ctx, l.Table), forgetAttachments(l.Bridge), os.RemoveAll(l.Run))
}

// endPlugins waits for network plug-ins that outlived their caller. containerd kills the plug-in of a call that was given up, but
// not the port mapper that the plug-in runs, which may be in the middle of a rule. Waiting keeps it from remaking what is cleaned
// up.
func (r *Runtime) endPlugins(ctx context.Context) error {
	own := []string{filepath.Join(r.layout.Bin, podnet.Type), filepath.Join(r.layout.Bin, podnet.PortMapper)}
	left, err := findArgs(func(args []string) (string, bool) { return "", slices.Contains(own, args[0]) })
	for _, p := range left {
		err = errors.Join(err, p.outlast(ctx, stopGrace))
		p.release()
	}
	return err
}

// unmountBelow takes away all mounts below dir, the innermost first.
func unmountBelow(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		if err := unix.Unmount(m, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			if err := unix.Unmount(m, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmounting %s: %w", m, err)
			}
		}
	}
	left, err := mountsBelow(dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still mounted: %s: end what uses it", strings.Join(left, ", "))
	}
	return err
}

// mountsBelow lists mount points at or below dir in the order they were made.
func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var mounts []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		fields := strings.Fields(s.Text())
		if len(fields) < 5 {
			continue
		}
		m := unescapeMount(fields[4])
		if m == dir || strings.HasPrefix(m, dir+"/") {
			mounts = append(mounts, m)
		}
	}
	return mounts, s.Err()
}

// unescapeMount undoes mountinfo's octal escapes of blanks and backslashes.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

func removeTable(ctx context.Context, table string) error {
	if _, err := findNFT(); err != nil {
		return nil // then there was no table
	}
	return nft(ctx, fmt.Sprintf("add table inet %s\ndelete table inet %s\n", table, table), false)
}
