package source

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// URL is the source of the static pods that a web server describes: a Pod or a list of them, polled, since HTTP reports no
// changes. While the server does not answer, or answers nonsense, its pods stay as they are.
type URL struct {
	URL, Node string
	Header    http.Header
	Every     time.Duration
	// Problem is told when the answer cannot be used, once for each reason.
	Problem func(origin string, err error)
	// Twice is called for each pod that is skipped because an earlier one has its name, each time. May be nil.
	Twice func(pod *v1.Pod, source string)
	Log   *slog.Logger
}

// Run reports changes on out until ctx ends. It counts as synced after the first request, answered or not.
func (u URL) Run(ctx context.Context, out chan<- Change) error {
	s := &set{source: "http", twice: u.Twice, out: out, pods: map[types.UID]*v1.Pod{}}
	client := &http.Client{Timeout: 10 * time.Second}
	every := time.NewTicker(u.Every)
	defer every.Stop()
	told := ""
	for synced := false; ; {
		pods, err := u.ask(ctx, client)
		switch {
		case err == nil:
			told = ""
			if !s.become(ctx, s.unnamed(pods, u.Log)) {
				return nil
			}
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			u.Problem(u.URL, err)
		}
		if !synced && !s.send(ctx, Synced, nil) {
			return nil
		}
		synced = true
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

func (u URL) ask(ctx context.Context, client *http.Client) ([]*v1.Pod, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URL, nil)
	if err != nil {
		return nil, err
	}
	if u.Header != nil {
		req.Header = u.Header
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", resp.Status)
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("the answer is empty: an empty list of pods is {\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[]}")
	}
	return manifest{Source: "http", Node: u.Node, Origin: u.URL, Now: time.Now()}.pods(text)
}
