package daemon

import (
	"io"
	"log/slog"

	"k8s.io/klog/v2"
)

// newLogger writes to out. Verbosity v shows levels down to -v, as klog counts them: 4 is slog's debug level, at which the
// timeline writes a line a record. Libraries that log through klog end up here too.
func newLogger(out io.Writer, c Config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.Level(-c.Verbosity)}
	var h slog.Handler = slog.NewTextHandler(out, opts)
	if c.LogFormat == "json" {
		h = slog.NewJSONHandler(out, opts)
	}
	log := slog.New(h)
	klog.SetSlogLogger(log.With("component", "library"))
	return log
}

// logger makes loggers of parts.
type logger struct{ *slog.Logger }

func (l logger) of(component string) *slog.Logger { return l.With("component", component) }
