package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/daemon/joined"
)

func newStatus() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the server and its nodes, or an agent, are ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, from := kubeconfigPath(cmd); from == "--data-dir" {
				if a, err := joined.Look(dataDir(cmd)); err != nil || a != nil {
					return printAgent(cmd.OutOrStdout(), a, err)
				}
			}
			cfg, err := cluster(cmd)
			if err != nil {
				return err
			}
			if wait > 0 {
				ctx, cancel := context.WithTimeout(cmd.Context(), wait)
				defer cancel()
				if err := waitReady(ctx, cfg); err != nil {
					return fmt.Errorf("not ready after %s: %w", wait, err)
				}
			}
			return printStatus(cmd.Context(), cmd.OutOrStdout(), cfg)
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait this long for a node to be Ready (60s)")
	addKubeconfigFlag(cmd)
	return cmd
}

// waitReady returns once a node is Ready. It watches nodes, and polls only a server that does not answer yet.
func waitReady(ctx context.Context, cfg *rest.Config) error {
	for {
		err := watchReady(ctx, cfg)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func watchReady(ctx context.Context, cfg *rest.Config) error {
	body, err := get(ctx, cfg, "/api/v1/nodes", url.Values{"watch": {"true"}})
	if err != nil {
		return err
	}
	defer body.Close()
	events := json.NewDecoder(body)
	for {
		var event struct {
			Type   string
			Object v1.Node
		}
		if err := events.Decode(&event); err != nil {
			return fmt.Errorf("no node is Ready yet (%w)", err)
		}
		if event.Type != "DELETED" && nodeCondition(&event.Object, v1.NodeReady).Status == v1.ConditionTrue {
			return nil
		}
	}
}

func printStatus(ctx context.Context, out io.Writer, cfg *rest.Config) error {
	body, err := get(ctx, cfg, "/readyz", url.Values{"verbose": {"true"}})
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(out, body); err != nil {
		return err
	}
	list, err := get(ctx, cfg, "/api/v1/nodes", nil)
	if err != nil {
		return err
	}
	defer list.Close()
	var nodes v1.NodeList
	if err := json.NewDecoder(list).Decode(&nodes); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NODE\tREADY\tSINCE\tMESSAGE")
	ready := 0
	for i := range nodes.Items {
		c := nodeCondition(&nodes.Items[i], v1.NodeReady)
		if c.Status == v1.ConditionTrue {
			ready++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", nodes.Items[i].Name, c.Status, since(c.LastTransitionTime), c.Message)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if ready == 0 {
		return fmt.Errorf("no node is Ready")
	}
	return nil
}

// printAgent prints the state of an agent's data directory; the error says that it does not work.
func printAgent(out io.Writer, a *joined.Status, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "agent of %s, node %s\n", a.Server, a.Node)
	if a.PID == 0 {
		return fmt.Errorf("the agent does not run: start it with `podo agent`; its pods may run on")
	}
	fmt.Fprintf(out, "process %d\n", a.PID)
	if a.Unhealthy != nil {
		return fmt.Errorf("the kubelet is not well: %w", a.Unhealthy)
	}
	fmt.Fprintln(out, "the kubelet is well; `podo kubectl get node "+a.Node+"` on the server says what the cluster thinks of it")
	return nil
}

func nodeCondition(n *v1.Node, t v1.NodeConditionType) v1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1.NodeCondition{Type: t, Status: v1.ConditionUnknown, Message: "not reported yet"}
}

func since(t metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return time.Since(t.Time).Round(time.Second).String()
}
