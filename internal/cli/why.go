package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/explain"
)

// question is what `podo why` is asked.
type question struct {
	kind, name string // no name: all of the kind
	namespace  string
	all        bool
	selector   string
	since      time.Duration
}

func newWhy() *cobra.Command {
	var q question
	var output string
	cmd := &cobra.Command{
		Use:   "why [KIND[/NAME]]",
		Short: "Say why a pod, or what has pods made, is where it is, how it got there, and what to do",
		Long: `Explains why a pod is in the state that it is in, since when, what to do about it, and how it got there; also for a pod that is gone.

For a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or ReplicationController it shows the state of the object and what
holds its pods up; pods in the same state for the same reason are shown together. For a node, service, ingress, pvc, pv, quota, hpa,
pdb, csr or namespace it says what is wrong, and for any object why its deletion does not end. A kind without a name means all objects
of that kind, those in trouble first. Without arguments it explains the namespace's pods, and whatever else is in trouble there.

The end of a container's log is shown with its diagnosis if you may read that log.`,
		Example: `  podo why                             # what is wrong in the namespace
  podo why pod/web
  podo why deployment/web -n shop
  podo why pods -l app=web             # all pods with a label, grouped by what is wrong
  podo why pods -A --since 1h          # all pods, and those deleted within the last hour
  podo why node/n1 -o json             # for programs`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.parse(args); err != nil {
				return err
			}
			if output != "" && output != "json" && output != "text" {
				return fmt.Errorf("-o %s: use text or json", output)
			}
			cfg, err := cluster(cmd)
			if err != nil {
				return err
			}
			reports, err := q.ask(cmd.Context(), cfg)
			if err != nil {
				if do := explain.Allow(err.Error()); do != "" {
					err = fmt.Errorf("%w\n%s", err, do)
				}
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(map[string]any{"reports": reports})
			}
			if len(reports) == 0 {
				cmd.PrintErrln(q.nothing())
			}
			return printReports(cmd.OutOrStdout(), reports)
		},
	}
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "default", "the object's namespace")
	cmd.Flags().BoolVarP(&q.all, "all-namespaces", "A", false, "look into all namespaces")
	cmd.Flags().StringVarP(&q.selector, "selector", "l", "", "only objects with these labels (key=value,...)")
	cmd.Flags().DurationVar(&q.since, "since", 0, "tell also of pods that were deleted within this time (1h)")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	addKubeconfigFlag(cmd)
	return cmd
}

// parse takes KIND/NAME, KIND NAME, KIND or nothing; the server takes one word that is no kind for a pod's name.
func (q *question) parse(args []string) error {
	q.kind, q.name = "all", ""
	switch len(args) {
	case 1:
		kind, name, both := strings.Cut(args[0], "/")
		q.kind, q.name = kind, name
		if both && (kind == "" || name == "" || strings.Contains(name, "/")) {
			return fmt.Errorf("%q: name one object as KIND/NAME, such as pod/web or deployment/web", args[0])
		}
	case 2:
		q.kind, q.name = args[0], args[1]
		if strings.Contains(args[0], "/") {
			return errors.New("name one object, as KIND/NAME or KIND NAME, or all of a kind with -l")
		}
	}
	switch {
	case q.name != "" && (q.selector != "" || q.all):
		return errors.New("a name goes with neither -l nor -A: leave one of them out")
	case q.name != "" && q.since != 0:
		return errors.New("--since is for lists; of one pod all that is known is told, also when it is gone")
	}
	return nil
}

func (q *question) path() string {
	path := "/podo/why/"
	if !q.all {
		path += "namespaces/" + url.PathEscape(q.namespace) + "/"
	}
	path += url.PathEscape(q.kind)
	if q.name != "" {
		path += "/" + url.PathEscape(q.name)
	}
	return path
}

func (q *question) nothing() string {
	where := "in namespace " + q.namespace
	if q.all {
		where = "in any namespace"
	}
	if q.selector != "" {
		where += " with the labels " + q.selector
	}
	if q.kind == "all" {
		return fmt.Sprintf("There are no pods %s, and nothing else is in trouble there that you may see.", where)
	}
	return fmt.Sprintf("There are no %s %s.", q.kind, where)
}

// ask asks the server, and reads the last words of containers that have something to say.
func (q *question) ask(ctx context.Context, cfg *rest.Config) ([]explain.Report, error) {
	query := url.Values{"format": {"json"}}
	if q.selector != "" {
		query.Set("labelSelector", q.selector)
	}
	if q.since != 0 {
		query.Set("since", q.since.String())
	}
	body, err := get(ctx, cfg, q.path(), query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var answer struct{ Reports []explain.Report }
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	left := mostLogs
	listen(ctx, cfg, answer.Reports, &left)
	return answer.Reports, nil
}

const (
	mostLogs = 5 // logs that one answer reads
	words    = 3 // lines of each
)

// listen adds the last lines of the logs that reports name, as far as they can be read.
func listen(ctx context.Context, cfg *rest.Config, reports []explain.Report, left *int) {
	for i := range reports {
		r := &reports[i]
		if r.Log != nil && *left > 0 {
			*left--
			r.Hear(lastWords(ctx, cfg, r.Namespace, *r.Log))
		}
		listen(ctx, cfg, r.Below, left)
	}
}

func lastWords(ctx context.Context, cfg *rest.Config, namespace string, l explain.Log) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	query := url.Values{"container": {l.Container}, "tailLines": {fmt.Sprint(words)}, "limitBytes": {"65536"}}
	if l.Previous {
		query.Set("previous", "true")
	}
	body, err := get(ctx, cfg, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/pods/"+url.PathEscape(l.Pod)+"/log", query)
	if err != nil {
		return nil
	}
	defer body.Close()
	for lines := bufio.NewScanner(io.LimitReader(body, 64<<10)); lines.Scan() && len(out) < words; {
		if line := printable(lines.Text()); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// longest is how much of a line is shown.
const longest = 300

// printable is a line of a log without what could steer a terminal.
func printable(line string) string {
	line = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r == 0xfffd || 0x80 <= r && r < 0xa0 {
			return -1
		}
		return r
	}, strings.TrimSpace(line))
	if runes := []rune(line); len(runes) > longest {
		line = string(runes[:longest]) + "…"
	}
	return line
}

func printReports(out io.Writer, reports []explain.Report) error {
	now := time.Now()
	for i, r := range reports {
		if i > 0 && (len(r.Below) > 0 || len(r.How) > 0) {
			fmt.Fprintln(out)
		}
		if _, err := fmt.Fprintln(out, r.Text(now)); err != nil {
			return err
		}
	}
	return nil
}
