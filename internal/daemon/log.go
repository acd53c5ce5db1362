package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"k8s.io/klog/v2"

	"podo.dev/podo/internal/daemon/config"
)

// newLogger writes to out. Verbosity v shows levels down to -v, as klog counts them: 4 is slog's debug level, at which the
// timeline writes one line for each record. The verbosity may change later. Libraries that log through klog end up here too.
func newLogger(out io.Writer, c *config.Node) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(slog.Level(-c.Verbosity))
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(out, opts)
	if c.LogFormat == "json" {
		h = slog.NewJSONHandler(out, opts)
	}
	log := slog.New(h)
	klog.SetSlogLogger(slog.New(library{h}).With("component", "library"))
	return log, level
}

// library demotes libraries' errors to verbosity 2: to them, a client that hung up is an error.
type library struct{ slog.Handler }

const libraryLevel = slog.Level(-2)

func (l library) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, min(level, libraryLevel))
}

// Handle looks at the level itself: klog asks nobody before it tells of an error.
func (l library) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, libraryLevel)
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

func (l library) WithAttrs(a []slog.Attr) slog.Handler { return library{l.Handler.WithAttrs(a)} }
func (l library) WithGroup(g string) slog.Handler      { return library{l.Handler.WithGroup(g)} }

// setVerbosity changes the level from now on; a restart begins with the flag's.
func (p *process) setVerbosity(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of 0 or more", text)
	}
	p.level.Set(slog.Level(-n))
	return nil
}
