package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/joined"
)

// Client verbs find the server by --kubeconfig, then KUBECONFIG, then the data directory.

func addKubeconfigFlag(cmd *cobra.Command) {
	cmd.Flags().String("kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, then the data directory's)")
}

// kubeconfigPath is the file that the verb uses, and where that comes from.
func kubeconfigPath(cmd *cobra.Command) (path, from string) {
	if f := cmd.Flags().Lookup("kubeconfig"); f != nil && f.Changed {
		return f.Value.String(), "--kubeconfig"
	}
	if env := os.Getenv("KUBECONFIG"); env != "" {
		return env, "KUBECONFIG"
	}
	return datadir.Dir{Root: dataDir(cmd)}.Kubeconfig(), "--data-dir"
}

// cluster returns how to reach the API server.
func cluster(cmd *cobra.Command) (*rest.Config, error) {
	path, from := kubeconfigPath(cmd)
	if from == "--data-dir" {
		if a, err := joined.Look(dataDir(cmd)); err == nil && a != nil {
			return nil, fmt.Errorf("%s is an agent's, whose node may not do this: ask on the server (%s), or name its kubeconfig with --kubeconfig", dataDir(cmd), a.Server)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("no cluster in %s (%w): start one with `podo up`, or name one with --kubeconfig or --data-dir", dataDir(cmd), err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // splits KUBECONFIG lists
	if from != "KUBECONFIG" {
		rules.ExplicitPath = path
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("%s names no cluster (%s is missing or empty): start one with `podo up`, or name one with --kubeconfig or --data-dir", from, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return cfg, nil
}
