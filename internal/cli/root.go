// Package cli is podo's command line: one file for each verb. Verbs parse, call, and print; the work is in daemon and below.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Version is the version of podo, set by the build (-ldflags -X).
var Version = "dev"

// exitError carries the exit code of a child (`podo kubectl`) through cobra.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// Main runs podo with args and returns the process's exit code.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	default:
		fmt.Fprintln(errOut, "Error:", withAdvice(err))
		return 1
	}
}

// withAdvice adds general advice to an error: most of podo needs root, and its help lists its commands.
func withAdvice(err error) error {
	if os.Geteuid() != 0 && strings.Contains(err.Error(), "permission denied") {
		return fmt.Errorf("%w: run it with sudo", err)
	}
	if text := err.Error(); strings.HasPrefix(text, "unknown command") && !strings.Contains(text, "Did you mean") {
		return fmt.Errorf("%w: `podo --help` lists those that there are", err)
	}
	return err
}

// pointsToHelp makes errors about a command line mention the command's help.
func pointsToHelp(c *cobra.Command) {
	see := func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: see `%s --help`", err, c.CommandPath())
	}
	c.SetFlagErrorFunc(see)
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, all []string) error {
			if err := args(c, all); err != nil {
				return see(c, err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		pointsToHelp(sub)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "podo",
		Short: "A Kubernetes cluster in one program, which shows how each pod got where it is",
		Long: `Podo runs a Kubernetes 1.37 compatible cluster: API server, etcd, scheduler, controllers, kubelet and containerd.

  podo up                              start a cluster in the background and wait until it is ready
  podo kubectl get pods -A             use it (any stock kubectl works too: export KUBECONFIG=$(podo kubeconfig --path))
  podo timeline pod/NAME               see every stage of a pod's life, with times
  podo why pod/NAME                    see why a pod is where it is, how it got there, and what to do
  podo token create                    print the command that makes another machine a node of it
  podo agent --server ... --token ...  that command
  podo down                            stop everything; the next up brings it back`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().String("data-dir", defaultDataDir(), "folder in which the server keeps everything")
	root.AddGroup(&cobra.Group{ID: "cluster", Title: "The cluster:"}, &cobra.Group{ID: "pods", Title: "Pods and images:"})
	for _, c := range []*cobra.Command{newUp(), newDown(), newStatus(), newServer(), newAgent(), newToken(), newKeys(), newReset()} {
		c.GroupID = "cluster"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{newKubectl(), newTimeline(), newWhy(), newImage(), newKubeconfig()} {
		c.GroupID = "pods"
		root.AddCommand(c)
	}
	root.AddCommand(newVersion())
	pointsToHelp(root)
	return root
}

func dataDir(cmd *cobra.Command) string {
	dir, _ := cmd.Flags().GetString("data-dir")
	return dir
}

// defaultDataDir comes from the environment, so that a shell can work with one data directory without repeating the flag.
func defaultDataDir() string {
	if dir := os.Getenv("PODO_DATA_DIR"); dir != "" {
		return dir
	}
	return "/var/lib/podo"
}
