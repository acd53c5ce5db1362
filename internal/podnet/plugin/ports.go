package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"podo.dev/podo/internal/podnet"
)

// mapPorts runs the port mapper for the same call, as if it came behind this plug-in in the network list. What it prints in the place of
// an error is not looked at: it gives back the result that it was given.
func (c *call) mapPorts(prev *types100.Result) error {
	conf := map[string]any{
		"cniVersion": c.conf.CNIVersion, "name": c.conf.Name, "type": podnet.PortMapper, "backend": "nftables", "snat": true,
		"runtimeConfig": c.conf.RuntimeConfig,
	}
	if prev != nil {
		r, err := prev.GetAsVersion(c.conf.CNIVersion)
		if err != nil {
			return err
		}
		conf["prevResult"] = r
	}
	input, err := json.Marshal(conf)
	if err != nil {
		return err
	}
	program, err := find(podnet.PortMapper)
	if err != nil {
		return err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	// The runtime kills a plug-in whose call it gives up. What that one runs goes with it: a rule that came after the call that takes it
	// away would stay. The kernel means the thread that started it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		said := &types.Error{}
		if json.Unmarshal(stdout.Bytes(), said) == nil && said.Msg != "" {
			return fmt.Errorf("%s: %v", podnet.PortMapper, said) // its code is not ours
		}
		return fmt.Errorf("%s: %w: %s", podnet.PortMapper, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// find looks where the runtime says that plug-ins are.
func find(name string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("CNI_PATH")) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file, nil
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("the plug-in %s is not in CNI_PATH, %s", name, os.Getenv("CNI_PATH"))
}
