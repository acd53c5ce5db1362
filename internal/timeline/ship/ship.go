// Package ship brings the timeline of a node that runs its pods away from the API server to the server's timeline, so that a pod's whole
// story is told in one place.
//
//	recorder ──► Sender ── POST, JSON lines ──► Receiver ──► the server's recorder
//
// A record is sent until the server has it: what was acknowledged last is remembered on disk, so that a cut, or an end, of either side
// loses nothing that the recorder still keeps. It may be sent twice; it is told once.
package ship

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
)

// Path is where the records of a node's pods are taken: PATH/NODE.
const Path = "/podo/timeline/nodes/"

// Bounds of one request.
const (
	maxRecords = 500
	maxBytes   = 4 << 20
)

// Pauses between attempts, and how long the end waits for the last records.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 15 * time.Second
	tryFor     = 20 * time.Second
	lastCall   = 5 * time.Second
)

// SenderConfig is what a Sender needs.
type SenderConfig struct {
	Recorder *recorder.Recorder
	// Post sends records. An error means: again.
	Post func(ctx context.Context, records []timeline.Record) error
	// File remembers how far the server has been told.
	File string
	Log  *slog.Logger
}

// Sender sends what a recorder gets.
type Sender struct{ c SenderConfig }

// NewSender makes a Sender.
func NewSender(c SenderConfig) (*Sender, error) {
	if c.Recorder == nil || c.Post == nil || c.File == "" || c.Log == nil {
		return nil, errors.New("ship: Recorder, Post, File and Log must be set")
	}
	return &Sender{c}, nil
}

// Run sends until ctx ends, and then what is left, for a few seconds at most.
func (s *Sender) Run(ctx context.Context, ready func()) error {
	ready()
	select {
	case <-s.c.Recorder.Loaded():
	case <-ctx.Done():
		// Told to end before it began: what is there is sent all the same.
		select {
		case <-s.c.Recorder.Loaded():
		default:
			return nil
		}
	}
	after, err := s.position()
	if err != nil {
		return err
	}
	waiting, follower := s.c.Recorder.Follow(timeline.Query{After: after})
	defer follower.Close()
	for {
		if waiting = s.deliver(ctx, waiting); ctx.Err() != nil {
			break
		}
		next, err := follower.Next(ctx)
		if err != nil {
			break
		}
		waiting = append(waiting, next...)
	}
	// Orderly: who appends has stopped before us.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCall)
	defer cancel()
	if next, err := follower.Next(ended); err == nil {
		waiting = append(waiting, next...)
	}
	if left := s.deliver(end, waiting); len(left) > 0 {
		s.c.Log.Info("the last records could not be told to the server; the next start does", "records", len(left))
	}
	return nil
}

// ended is a context that has: a follower then gives what it has and does not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// deliver sends records, in order, until all are there or ctx ends, and returns the others.
func (s *Sender) deliver(ctx context.Context, records []timeline.Record) []timeline.Record {
	pause := firstPause
	for len(records) > 0 && ctx.Err() == nil {
		batch := records[:min(len(records), maxRecords)]
		try, cancel := context.WithTimeout(ctx, tryFor)
		err := s.c.Post(try, batch)
		cancel()
		if err == nil {
			err = s.told(batch[len(batch)-1].Seq)
		}
		if err == nil {
			records, pause = records[len(batch):], firstPause
			continue
		}
		if ctx.Err() == nil && pause >= time.Second {
			s.c.Log.Debug("the server does not take the timeline, it is sent again", "in", pause, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
		// While nobody listens they pile up in the recorder, which has its bounds, and not here.
	}
	return records
}

func (s *Sender) position() (uint64, error) {
	content, err := os.ReadFile(s.c.File)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	seq, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		s.c.Log.Warn("how far the timeline was told is not known: it is told again", "file", s.c.File, "err", err)
		return 0, nil
	}
	return seq, nil
}

func (s *Sender) told(seq uint64) error {
	if err := pki.WriteFile(s.c.File, []byte(strconv.FormatUint(seq, 10)+"\n"), 0o600); err != nil {
		return fmt.Errorf("remembering how far the timeline was told: %w", err)
	}
	return nil
}
