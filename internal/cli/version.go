package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"podo.dev/podo/internal/release"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print versions",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "podo %s\nKubernetes %s\n%s %s/%s\n", Version, release.Kubernetes, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
