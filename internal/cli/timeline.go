package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func newTimeline() *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:     "timeline pod/NAME",
		Short:   "Show every stage of a pod's life, with times",
		Example: "  podo timeline pod/web\n  podo timeline pod/web -n shop -f     # and go on as things happen\n  podo timeline pod/web --json",
		Args:    cobra.ExactArgs(1),
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

func podFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("namespace", "n", "default", "the object's namespace")
	addKubeconfigFlag(cmd)
}

// podPage prints the server's page /podo/PAGE about a pod.
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
	namespace, _ := cmd.Flags().GetString("namespace")
	cfg, err := cluster(cmd)
	if err != nil {
		return err
	}
	body, err := get(cmd.Context(), cfg, "/podo/"+what+"/namespaces/"+url.PathEscape(namespace)+"/pods/"+url.PathEscape(name), query)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(cmd.OutOrStdout(), body)
	return err
}

// refusal is an answer other than 200 as an error: the server's text, which is an API Status or plain.
func refusal(status string, text []byte) error {
	var said metav1.Status
	if json.Unmarshal(text, &said) == nil && said.Message != "" {
		return errors.New(said.Message)
	}
	if words := strings.TrimSpace(string(text)); words != "" && !strings.HasPrefix(words, "[") { // the lines of /readyz come with the status
		return errors.New(words)
	} else if words != "" {
		return fmt.Errorf("%s: %s", status, words)
	}
	return errors.New(status)
}

// get reads a path of the API server; an answer other than 200 is an error with the server's text.
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
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		resp.Body.Close()
		return nil, refusal(resp.Status, text)
	}
	return resp.Body, nil
}
