package cli

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"podo.dev/podo/internal/daemon"
)

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir DIR] ARGS...",
		Short: "Run the built-in kubectl against the cluster",
		// Everything behind `kubectl` is kubectl's, but for --data-dir in front.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, args := splitDataDir(args, dataDir(cmd))
			kubectl, err := daemon.Kubectl(dir)
			if err != nil {
				return err
			}
			child := exec.Command(kubectl, args...)
			child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			child.Env = os.Environ()
			if os.Getenv("KUBECONFIG") == "" {
				child.Env = append(child.Env, "KUBECONFIG="+daemon.Dirs{Root: dir}.Kubeconfig())
			}
			err = child.Run() // signals reach it by itself: it is in our process group
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return exitError{exit.ExitCode()}
			}
			return err
		},
	}
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
