package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/upkeep"
)

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir DIR] ARGS...",
		Short: "Run the built-in kubectl against the cluster",
		// Everything after `kubectl` is kubectl's, except a --data-dir in front.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, args := splitDataDir(args, dataDir(cmd))
			kubectl, err := upkeep.Kubectl(dir)
			if err != nil {
				return err
			}
			config, from := os.Getenv("KUBECONFIG"), "KUBECONFIG"
			if config == "" {
				config, from = datadir.Dir{Root: dir}.Kubeconfig(), "--data-dir"
			}
			env := kubectlEnv(os.Environ(), config)
			lost := noneExists(config) && !namesCluster(args)
			if !lost && standardFiles(cmd) {
				// It replaces this process, so that signals, SIGKILL too, reach kubectl and no process waits for it.
				return unix.Exec(kubectl, append([]string{kubectl}, args...), env)
			}
			child := exec.Command(kubectl, args...)
			child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			child.Env = env
			err = child.Run() // it is in our process group, so signals reach it by themselves
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				// Only now, since much of kubectl needs no cluster; kubectl itself would only mention localhost:8080.
				if lost {
					cmd.PrintErrf("podo: no cluster: %s (from %s) does not exist: start one with `podo up`, or name one with --kubeconfig or --data-dir\n", config, from)
				}
				return exitError{exit.ExitCode()}
			}
			return err
		},
	}
}

// kubectlEnv is our environment with the kubeconfig, unless one is set, and with rare garbage collections: kubectl is short-lived
// and keeps most of what it allocates. A list of 5,000 pods takes a fifth less time and an eighth to a quarter more memory.
func kubectlEnv(own []string, config string) []string {
	env := slices.Clone(own)
	for _, kv := range [][2]string{{"KUBECONFIG=", config}, {"GOGC=", "400"}} {
		// The first of two with one name would count, so an empty one is removed.
		env = slices.DeleteFunc(env, func(have string) bool { return have == kv[0] })
		if !slices.ContainsFunc(env, func(have string) bool { return strings.HasPrefix(have, kv[0]) }) {
			env = append(env, kv[0]+kv[1])
		}
	}
	return env
}

// standardFiles says whether the command's files are the process's own.
func standardFiles(cmd *cobra.Command) bool {
	return cmd.InOrStdin() == os.Stdin && cmd.OutOrStdout() == os.Stdout && cmd.ErrOrStderr() == os.Stderr
}

// splitDataDir takes a --data-dir in front of kubectl's own arguments.
func splitDataDir(args []string, dir string) (string, []string) {
	if len(args) > 1 && args[0] == "--data-dir" {
		return args[1], args[2:]
	}
	if len(args) > 0 {
		if v, ok := strings.CutPrefix(args[0], "--data-dir="); ok {
			return v, args[1:]
		}
	}
	return dir, args
}

// noneExists tells whether no file of a kubeconfig list exists.
func noneExists(list string) bool {
	for _, f := range filepath.SplitList(list) {
		if _, err := os.Stat(f); err == nil {
			return false
		}
	}
	return true
}

// namesCluster tells whether kubectl's own arguments name the cluster.
func namesCluster(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return name == "--kubeconfig" || name == "--server" || name == "-s"
	})
}
