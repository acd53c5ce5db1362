package cli

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/jointoken"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Tokens with which other machines join the cluster as nodes"}
	cmd.AddCommand(newTokenCreate(), newTokenList(), newTokenDelete())
	for _, c := range cmd.Commands() {
		addKubeconfigFlag(c)
	}
	return cmd
}

func newTokenCreate() *cobra.Command {
	o := jointoken.Options{}
	var tokenOnly bool
	var server string
	cmd := &cobra.Command{
		Use:   "create [ID.SECRET]",
		Short: "Make a token, and print the command that another machine joins with",
		Long: `Make a token, and print the command that another machine joins with.

The token permits joining, and contains the hash of the cluster's authority: the machine trusts no other server. It is needed only until
the node has its certificate. Whoever has it can become any node of the cluster until it expires: treat it like a password.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			cfg, err := cluster(cmd)
			if err != nil {
				return err
			}
			token, err := makeToken(cmd.Context(), cfg, args, o)
			if err != nil {
				return err
			}
			if tokenOnly {
				fmt.Fprintln(cmd.OutOrStdout(), token.Text())
				return nil
			}
			if server == "" {
				if server, err = reachable(cmd.Context(), cfg); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "podo agent --server %s --token %s\n", server, token.Text())
			return nil
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.TTL, "ttl", 24*time.Hour, "how long it can be used; 0 for no end")
	f.StringSliceVar(&o.Usages, "usages", []string{"authentication"}, "what it is for: "+strings.Join(jointoken.Usages, ", "))
	f.StringSliceVar(&o.Groups, "groups", nil, "further groups of who shows it, each system:bootstrappers:NAME")
	f.StringVar(&o.Description, "description", "", "what it is for, in words")
	f.StringVar(&server, "server", "", "address of the server as the other machine reaches it (default: the one that the cluster says)")
	f.BoolVarP(&tokenOnly, "quiet", "q", false, "print the token alone")
	return cmd
}

func makeToken(ctx context.Context, cfg *rest.Config, args []string, o jointoken.Options) (token jointoken.Token, err error) {
	if len(args) > 0 {
		token, err = jointoken.Parse(args[0])
	} else {
		token, err = jointoken.New(rand.Reader)
	}
	if err != nil {
		return token, err
	}
	hash, err := authorityHash(cfg)
	if err != nil {
		return token, err
	}
	if token.CAHash != "" && token.CAHash != hash {
		return token, errors.New("the token that was given is of another cluster")
	}
	token.CAHash = hash
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return token, err
	}
	_, err = api.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, token.ToSecret(o, time.Now()), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = fmt.Errorf("there is a token %s already: `podo token delete %s` removes it", token.ID, token.ID)
	}
	return token, err
}

// authorityHash is of the authority that the kubeconfig trusts.
func authorityHash(cfg *rest.Config) (string, error) {
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return "", err
	}
	block, _ := pem.Decode(cfg.CAData)
	if block == nil {
		return "", errors.New("the kubeconfig names no authority, of which the token needs the hash: give it certificate-authority-data, or use the server's own kubeconfig")
	}
	return jointoken.HashDER(block.Bytes)
}

// reachable is the server's address for other machines: the kubeconfig's, or where that is this machine alone, what the Service kubernetes
// leads to.
func reachable(ctx context.Context, cfg *rest.Config) (string, error) {
	if u, err := url.Parse(cfg.Host); err == nil && u.Host != "" {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return "https://" + u.Host, nil
		}
	}
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	slice, err := api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("the server's address is not known (give it with --server): %w", err)
	}
	for _, e := range slice.Endpoints {
		for _, p := range slice.Ports {
			if p.Port != nil && len(e.Addresses) > 0 {
				return "https://" + net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))), nil
			}
		}
	}
	return "", errors.New("the server's address is not known: give it with --server")
}

func newTokenList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens that there are, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := cluster(cmd)
			if err != nil {
				return err
			}
			api, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return err
			}
			secrets, err := api.CoreV1().Secrets(metav1.NamespaceSystem).List(cmd.Context(), metav1.ListOptions{
				FieldSelector: fields.OneTermEqualSelector("type", string(jointoken.SecretType)).String(),
			})
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 3, ' ', 0)
			fmt.Fprintln(w, "ID\tTTL\tEXPIRES\tUSAGES\tGROUPS\tDESCRIPTION")
			for i := range secrets.Items {
				if k, ok := jointoken.FromSecret(&secrets.Items[i]); ok {
					fmt.Fprintln(w, strings.Join(tokenRow(k, time.Now()), "\t"))
				}
			}
			return w.Flush()
		},
	}
}

func tokenRow(k jointoken.Known, now time.Time) []string {
	or := func(text, none string) string {
		if text == "" {
			return none
		}
		return text
	}
	left, end := "<forever>", "<never>"
	if !k.End.IsZero() {
		left, end = "<over>", k.End.Format(time.RFC3339)
		if d := k.End.Sub(now); d > 0 {
			left = duration.HumanDuration(d)
		}
	}
	return []string{k.ID, left, end, or(strings.Join(k.Usages, ","), "<none>"), or(strings.Join(k.Groups, ","), "<none>"), or(k.Description, "<none>")}
}

func newTokenDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID...",
		Short: "Delete tokens, by their ids or whole; nodes that joined with them stay",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := cluster(cmd)
			if err != nil {
				return err
			}
			api, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return err
			}
			var errs []error
			for _, arg := range args {
				id, _, _ := strings.Cut(arg, ".")
				err := api.CoreV1().Secrets(metav1.NamespaceSystem).Delete(cmd.Context(), jointoken.SecretPrefix+id, metav1.DeleteOptions{})
				if apierrors.IsNotFound(err) {
					err = fmt.Errorf("there is no token %q: `podo token list` shows those that there are", id)
				}
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), "deleted", id)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}
