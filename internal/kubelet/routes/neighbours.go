package routes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Path is where the API server tells nodes of each other: a kubelet may read no Node but its own, and a route needs only the
// name, the address and the pod range of the others. An answer is held until it differs from the one whose digest the request
// names by "known", or for Hold.
const Path = "/podo/network/nodes"

// Hold bounds how long an answer waits for a change.
const Hold = 45 * time.Second

// answer is what is told.
type answer struct {
	Digest string `json:"digest"`
	Nodes  []Node `json:"nodes"`
}

func answerOf(nodes []Node) (answer, error) {
	text, err := json.Marshal(nodes)
	if err != nil {
		return answer{}, err
	}
	h := fnv.New64a()
	_, _ = h.Write(text)
	return answer{fmt.Sprintf("%016x", h.Sum64()), nodes}, nil
}

// Serve answers, from a source, until ctx ends. Whoever mounts it authorizes.
func Serve(ctx context.Context, s Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hold := time.NewTimer(Hold)
		defer hold.Stop()
		for wait := true; ; {
			changed := s.Changed()
			nodes, _ := s.Nodes()
			a, err := answerOf(nodes)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if !wait || a.Digest != r.URL.Query().Get("known") {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(a)
				return
			}
			select {
			case <-changed:
			case <-hold.C:
				wait = false
			case <-ctx.Done():
				wait = false
			case <-r.Context().Done():
				return
			}
		}
	})
}

// Told is a Source that the API server tells.
type Told struct {
	// Get asks Path with a digest.
	get func(ctx context.Context, known string) ([]byte, error)
	log *slog.Logger

	mu      sync.Mutex
	now     answer
	changed chan struct{}
}

// NewTold makes one; Run asks.
func NewTold(get func(ctx context.Context, known string) ([]byte, error), log *slog.Logger) *Told {
	return &Told{get: get, log: log, changed: make(chan struct{})}
}

// Nodes implements Source.
func (t *Told) Nodes() (all []Node, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now.Nodes, t.now.Digest != ""
}

// Changed implements Source.
func (t *Told) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// Pauses between attempts, and how long an answer may take that is not held.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 15 * time.Second
)

// Run asks until ctx ends. What was told last holds while nobody answers.
func (t *Told) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		t.mu.Lock()
		known := t.now.Digest
		t.mu.Unlock()
		err := t.ask(ctx, known)
		if err == nil {
			pause = firstPause
			continue
		}
		if ctx.Err() == nil {
			t.log.Info("the server does not tell of the other nodes, it is asked again", "in", pause, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

func (t *Told) ask(ctx context.Context, known string) error {
	ctx, cancel := context.WithTimeout(ctx, Hold+10*time.Second)
	defer cancel()
	body, err := t.get(ctx, known)
	if err != nil {
		return err
	}
	var a answer
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&a); err != nil {
		return fmt.Errorf("the server's answer about nodes: %w", err)
	}
	if a.Digest == known {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = a
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}
