package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podo.dev/podo/internal/daemon"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/datadir"
)

// tokenEnv is the token in the environment, where it is in nobody's list of processes.
const tokenEnv = "PODO_TOKEN"

func newAgent() *cobra.Command {
	cfg := config.DefaultAgent()
	var background bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run a further node of a cluster whose server is on another machine",
		Long: `Run a further node of a cluster whose server is on another machine, in the foreground until interrupted, or with --background.

` + "`podo token create`" + ` on the server prints the command for a new node. It has the server's address, and a token by which node and
server authenticate each other. The token is needed once: after that the node has a certificate of its own.

Stopping an agent never stops containers, and neither does losing the server: the next start takes the containers over. ` + "`podo down`" + `
stops them too, ` + "`podo reset`" + ` forgets the cluster. Every flag can be set in a YAML file under its name (--config).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.DataDir = dataDir(cmd)
			if err := readConfigFile(cmd); err != nil {
				return err
			}
			cfg.Flags = told(cmd.Flags())
			if cfg.Token == "" {
				cfg.Token = os.Getenv(tokenEnv)
			}
			if err := cfg.Complete(); err != nil {
				return err
			}
			if background {
				return joinInBackground(cmd, cfg, wait)
			}
			os.Unsetenv(tokenEnv) // no child of ours needs it
			report, err := begin()
			if err != nil {
				return err
			}
			return daemon.RunAgent(cmd.Context(), cfg, Version, report, cmd.ErrOrStderr())
		},
	}
	agentFlags(cmd.Flags(), &cfg)
	cmd.Flags().BoolVar(&background, "background", false, "start it in the background, show each stage of its boot, and wait until its node is Ready")
	cmd.Flags().DurationVar(&wait, "wait", 2*time.Minute, "how long --background waits for the node to be Ready")
	return cmd
}

func agentFlags(f *pflag.FlagSet, c *config.Agent) {
	f.StringVar(&c.Server, "server", c.Server, "address of the server, https://HOST:6443")
	f.StringVar(&c.Token, "token", c.Token, "token that 'podo token create' printed on the server, or $"+tokenEnv+"; needed for the first start")
	f.StringVar(&c.TokenFile, "token-file", c.TokenFile, "file that holds the token")
	f.StringVar(&c.CAFile, "ca-file", c.CAFile, "certificate of the cluster's authority, for a token without its hash")
	nodeFlags(f, &c.Node)
}

// joinInBackground starts `podo agent` in a session of its own and follows its boot.
func joinInBackground(cmd *cobra.Command, cfg config.Agent, wait time.Duration) error {
	out := cmd.OutOrStdout()
	dir := datadir.Dir{Root: cfg.DataDir}
	running, err := runsAlready(out, dir)
	if err != nil {
		return err
	}
	if running {
		return nil
	}
	fmt.Fprintf(out, "Joining %s as node %s, in %s\n", cfg.Server, cfg.NodeName, cfg.DataDir)
	if err := inBackground(cmd, "agent", dir, wait); err != nil {
		return err
	}
	agentNextSteps(out, cfg)
	return nil
}

func agentNextSteps(out io.Writer, cfg config.Agent) {
	flag := ""
	if cfg.DataDir != config.DefaultDataDir {
		flag = " --data-dir " + cfg.DataDir
	}
	fmt.Fprintf(out, `
On the server:
  podo kubectl get node %[2]s
Here:
  podo status%[1]s
  podo down%[1]s
`, flag, cfg.NodeName)
}
