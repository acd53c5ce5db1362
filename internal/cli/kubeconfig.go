package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newKubeconfig() *cobra.Command {
	var pathOnly bool
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the admin kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, _ := kubeconfigPath(cmd)
			content, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("%w: start a cluster with `podo up`, or name its --data-dir", err)
			}
			if pathOnly {
				content = []byte(path + "\n")
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	cmd.Flags().BoolVar(&pathOnly, "path", false, "print the file's path only")
	addKubeconfigFlag(cmd)
	return cmd
}
