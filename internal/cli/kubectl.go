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
		// Everything behind `kubectl` is kubectl's, but for --data-dir in front.
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
				// In this process's place: what is sent to it, SIGKILL too, reaches kubectl, and nothing waits beside it.
				return unix.Exec(kubectl, append([]string{kubectl}, args...), env)
			}
			child := exec.Command(kubectl, args...)
			child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			child.Env = env
			err = child.Run() // signals reach it by itself: it is in our process group
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				// Afterwards, since much of kubectl needs no cluster. Alone it would only speak of localhost:8080.
				if lost {
					cmd.PrintErrf("podo: no cluster: %s (from %s) does not exist: start one with `podo up`, or name one with --kubeconfig or --data-dir\n", config, from)
				}
				return exitError{exit.ExitCode()}
			}
			return err
		},
	}
}

// kubectlEnv is our own environment with the kubeconfig, where none is set, and with seldom collections: kubectl ends soon and keeps most of
// what it allocates, so that a list of 5,000 pods takes a fifth less time and an eighth to a quarter more memory.
func kubectlEnv(own []string, config string) []string {
	env := slices.Clone(own)
	for _, kv := range [][2]string{{"KUBECONFIG=", config}, {"GOGC=", "400"}} {
		// Of two with one name the first would count, so that an empty one goes.
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

// splitDataDir takes a --data-dir that stands in front of kubectl's own words.
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

// noneExists says whether no file of a kubeconfig list is there.
func noneExists(list string) bool {
	for _, f := range filepath.SplitList(list) {
		if _, err := os.Stat(f); err == nil {
			return false
		}
	}
	return true
}

// namesCluster says whether kubectl's own arguments say where the cluster is.
func namesCluster(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return name == "--kubeconfig" || name == "--server" || name == "-s"
	})
}
