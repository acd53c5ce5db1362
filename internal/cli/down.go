package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"podo.dev/podo/internal/daemon/upkeep"
)

func newDown() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the server or agent, its pods and containerd; data stays, the next start brings the pods back",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			say := func(format string, args ...any) { fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...) }
			return upkeep.Down(cmd.Context(), dataDir(cmd), grace, say)
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", 10*time.Second, "how long containers get to end after TERM")
	return cmd
}

func newReset() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove all data of a stopped server or agent",
		Long:  "Remove the data directory of a stopped server or agent: cluster state, images, volumes of pods. Refuses while a server runs on it or\nanything is mounted below it, and never deletes through a mount.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return fmt.Errorf("this removes everything in %s for good: say so with --yes", dataDir(cmd))
			}
			if err := upkeep.Reset(dataDir(cmd)); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Removed %s.\n", dataDir(cmd))
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "really remove")
	return cmd
}
