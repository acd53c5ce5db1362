package recorder

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"podo.dev/podo/internal/timeline"
)

// PathPrefix is where Handler expects to be mounted.
const PathPrefix = "/podo/timeline/"

// Handler serves GET /podo/timeline/namespaces/NS/pods/NAME, and /podo/timeline/ for everything. Query parameters: uid,
// since (a duration back from now, or RFC 3339), follow=true, format=json (one record a line, the default) or text. Whoever
// mounts it authorizes: a reader of a pod's timeline needs "get" on that pod.
func (r *Recorder) Handler() http.Handler {
	return http.HandlerFunc(r.serve)
}

// Follows says that a request goes on as things happen, for as long as its client wants.
func Follows(req *http.Request) bool {
	follow, _ := strconv.ParseBool(req.URL.Query().Get("follow"))
	return follow
}

func (r *Recorder) serve(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "the timeline is read only: use GET", http.StatusMethodNotAllowed)
		return
	}
	q, err := parseQuery(req, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	params := req.URL.Query()
	asText := params.Get("format") == "text"
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	if asText {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	if !Follows(req) {
		records := r.Records(q)
		if asText {
			_, _ = w.Write([]byte(timeline.Format(records)))
			return
		}
		_ = writeJSON(w, records)
		return
	}
	r.stream(w, req, q, asText)
}

func (r *Recorder) stream(w http.ResponseWriter, req *http.Request, q timeline.Query, asText bool) {
	records, follower := r.Follow(q)
	defer follower.Close()
	out := http.NewResponseController(w)
	printer := timeline.NewPrinter(w)
	for {
		var err error
		if asText {
			for _, rec := range records {
				if err = printer.Print(rec); err != nil {
					return
				}
			}
		} else if err = writeJSON(w, records); err != nil {
			return
		}
		if err = out.Flush(); err != nil {
			return
		}
		if records, err = follower.Next(req.Context()); err != nil {
			return
		}
	}
}

func writeJSON(w http.ResponseWriter, records []timeline.Record) error {
	enc := json.NewEncoder(w)
	for i := range records {
		if err := enc.Encode(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

func parseQuery(req *http.Request, now time.Time) (q timeline.Query, err error) {
	rest := strings.Trim(strings.TrimPrefix(req.URL.Path, PathPrefix), "/")
	switch parts := strings.Split(rest, "/"); {
	case rest == "":
	case len(parts) == 4 && parts[0] == "namespaces" && parts[2] == "pods":
		q.Namespace, q.Name = parts[1], parts[3]
	case len(parts) == 2 && parts[0] == "namespaces":
		q.Namespace = parts[1]
	default:
		return q, fmt.Errorf("no timeline at %s: use %snamespaces/NAMESPACE/pods/NAME", req.URL.Path, PathPrefix)
	}
	params := req.URL.Query()
	q.UID = params.Get("uid")
	if since := params.Get("since"); since != "" {
		if d, derr := time.ParseDuration(since); derr == nil {
			q.Since = now.Add(-d)
		} else if q.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return q, fmt.Errorf("since=%s: use a duration such as 10m or a time such as 2026-01-02T15:04:05Z", since)
		}
	}
	return q, nil
}
