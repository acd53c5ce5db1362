package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"podo.dev/podo/internal/daemon/upkeep"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "Keys that sign ServiceAccounts' tokens", Long: `Keys that sign ServiceAccounts' tokens.

One key signs, all keys verify. A rotation makes a new key that signs from then on; tokens of earlier keys stay valid, and the server's
/openid/v1/jwks lists all keys. The rotation is complete when nothing uses the earlier key any more and it is forgotten: pods get new tokens
within an hour by themselves, other tokens expire when they were set to, and tokens in Secrets never do, so such Secrets must be recreated.

Run it on the server, with its data directory. Servers that share an etcd need the same keys: copy pki/service-account.pem to the others.`}
	show := func(cmd *cobra.Command, all []upkeep.TokenKey) error {
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 3, ' ', 0)
		fmt.Fprintln(w, "KEY\tUSE")
		for _, k := range all {
			use := "verifies earlier tokens"
			if k.Signs {
				use = "signs and verifies"
			}
			fmt.Fprintf(w, "%s\t%s\n", k.ID, use)
		}
		return w.Flush()
	}
	changed := func(cmd *cobra.Command, all []upkeep.TokenKey, told bool) error {
		if !told {
			fmt.Fprintln(cmd.OutOrStdout(), "The server does not run: it will have these keys when it starts.")
		}
		return show(cmd, all)
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List the keys", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := upkeep.TokenKeys(dataDir(cmd))
			if err != nil {
				return err
			}
			return show(cmd, all)
		},
	}, &cobra.Command{
		Use: "rotate", Short: "Make a new key that signs from now on; earlier tokens stay valid", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, told, err := upkeep.RotateTokenKey(dataDir(cmd))
			if err != nil {
				return err
			}
			return changed(cmd, all, told)
		},
	}, &cobra.Command{
		Use: "forget KEY", Short: "End an earlier key: tokens that it signed are refused from now on", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, told, err := upkeep.ForgetTokenKey(dataDir(cmd), args[0])
			if err != nil {
				return fmt.Errorf("%s: %w (podo keys list shows them)", args[0], err)
			}
			return changed(cmd, all, told)
		},
	})
	return cmd
}
