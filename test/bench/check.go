package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"podo.dev/podo/test/bench/usage"
)

// Memory in MB without which a run would measure swapping, or be killed.
const (
	memoryForPodo = 1500
	memoryForPeer = 2500
)

func cpus() int { return runtime.NumCPU() }

// check says everything that is missing, and what to do about it.
func check(o options) error {
	var problems []error
	need := 0
	file := func(name, remedy string) {
		if _, err := os.Stat(name); err != nil {
			problems = append(problems, fmt.Errorf("%w: %s", err, remedy))
		}
	}
	if o.podo != "" {
		need += memoryForPodo
		file(o.podo, "make build")
	}
	if o.peer != "" {
		need += memoryForPeer
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
			file(filepath.Join(o.peer, name), "make peer")
		}
	}
	if o.podo != "" || o.peer != "" {
		file(filepath.Join(o.images, "busybox.tar"), "make images")
		if os.Geteuid() != 0 {
			problems = append(problems, errors.New("containers need root: run it with sudo"))
		}
		if _, err := exec.LookPath("nft"); err != nil {
			problems = append(problems, errors.New("the pod network needs nft: apt-get install nftables"))
		}
	}
	if o.kubeconfig != "" {
		file(o.kubeconfig, "give another -kubeconfig")
	}
	if o.podo == "" && o.peer == "" && o.kubeconfig == "" {
		problems = append(problems, errors.New("nothing to measure: give -podo, -peer or -kubeconfig"))
	}
	if free, err := usage.Available(); err == nil && free < need {
		problems = append(problems, fmt.Errorf("%d MB of memory are available and %d needed: end other programs, or measure less at a time (PEER=)", free, need))
	}
	return errors.Join(problems...)
}
