package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// KubernetesVersion is the version whose behaviour podo follows.
const KubernetesVersion = "v1.37.2"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print versions",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "podo %s\nKubernetes %s\n%s %s/%s\n", Version, KubernetesVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
