package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
)

func newTimeline() *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "timeline pod/NAME",
		Short: "Show every stage of a pod's life, with times",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"format": {"text"}}
			if asJSON {
				query.Set("format", "json")
			}
			if follow {
				query.Set("follow", "true")
			}
			return podPage(cmd, "timeline", args[0], query)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as things happen")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON record a line")
	podFlags(cmd)
	return cmd
}

func newWhy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Say why a pod, or what has pods made, is where it is, and what to do",
		Long: `Says why a pod is where it is, since when, and what to do about it.

Of a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or ReplicationController it tells how that stands, and below it what
holds its pods up: those that are in the same state for the same reason together.`,
		Example: "  podo why pod/web\n  podo why deployment/web -n shop",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, ok := strings.Cut(args[0], "/")
			if !ok {
				kind, name = "pod", args[0]
			}
			return page(cmd, "why", kind, name, nil)
		},
	}
	podFlags(cmd)
	return cmd
}

func podFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("namespace", "n", "default", "the object's namespace")
	addKubeconfigFlag(cmd)
}

// podPage prints what the server's /podo/PAGE says of a pod.
func podPage(cmd *cobra.Command, what, arg string, query url.Values) error {
	name := arg
	for _, prefix := range []string{"pod/", "pods/", "po/"} {
		if rest, ok := strings.CutPrefix(arg, prefix); ok {
			name = rest
		}
	}
	if name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q: name a pod, as pod/NAME", arg)
	}
	return page(cmd, what, "pods", name, query)
}

// page prints what the server's /podo/WHAT says of an object.
func page(cmd *cobra.Command, what, resource, name string, query url.Values) error {
	if resource == "" || name == "" || strings.Contains(name, "/") {
		return errors.New("name one object, as pod/NAME or deployment/NAME")
	}
	namespace, _ := cmd.Flags().GetString("namespace")
	cfg, err := cluster(cmd)
	if err != nil {
		return err
	}
	path := "/podo/" + what + "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(resource) + "/" + url.PathEscape(name)
	body, err := get(cmd.Context(), cfg, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(cmd.OutOrStdout(), body)
	return err
}

// get reads a path of the API server; an answer other than 200 is an error with the server's words.
func get(ctx context.Context, cfg *rest.Config, path string, query url.Values) (io.ReadCloser, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(cfg.Host, "/")+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the server does not answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return resp.Body, nil
}
