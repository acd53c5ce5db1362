package cli

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"podo.dev/podo/internal/daemon/upkeep"
)

func newImage() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: "The node's images"}
	cmd.AddCommand(&cobra.Command{
		Use:   "import FILE...",
		Short: "Load images from OCI or docker archives into the node",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			for _, file := range files {
				names, err := upkeep.ImportImage(cmd.Context(), dataDir(cmd), file)
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				for _, name := range names {
					fmt.Fprintln(cmd.OutOrStdout(), "imported", name)
				}
			}
			return nil
		},
	}, &cobra.Command{
		Use:     "remove IMAGE...",
		Aliases: []string{"rm"},
		Short:   "Remove images that no pod uses, by name or id",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, images []string) error {
			var errs []error
			for _, image := range images {
				names, err := upkeep.RemoveImage(cmd.Context(), dataDir(cmd), image)
				errs = append(errs, err)
				for _, name := range names {
					fmt.Fprintln(cmd.OutOrStdout(), "removed", name)
				}
			}
			return errors.Join(errs...)
		},
	}, &cobra.Command{
		Use:   "list",
		Short: "List the node's images",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			images, err := upkeep.ListImages(cmd.Context(), dataDir(cmd))
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 3, ' ', 0)
			fmt.Fprintln(w, "IMAGE\tID\tSIZE")
			for _, i := range images {
				fmt.Fprintf(w, "%s\t%s\t%.1f MB\n", i.Name, i.ID, float64(i.Bytes)/1e6)
			}
			return w.Flush()
		},
	})
	return cmd
}
