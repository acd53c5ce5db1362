package etcd

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

// zapLogger passes etcd's log on to ours, one level quieter, since etcd logs much. Where etcd would end the process (a failed
// write) or panic, died receives the reason instead and the goroutine is stopped for good: it must not go on, and its locks must
// not be released.
func zapLogger(l *slog.Logger, dir string, died chan<- error) *zap.Logger {
	stop := lastWords{dir, died}
	return zap.New(slogCore{l}, zap.WithFatalHook(stop), zap.WithPanicHook(stop))
}

type lastWords struct {
	dir  string
	died chan<- error
}

// OnWrite implements zapcore.CheckWriteHook. It does not return.
func (w lastWords) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(e.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", e.Message, cause)
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("the disk under %s is full: free some space and start podo again (running containers go on meanwhile): %w", w.dir, err)
	}
	select {
	case w.died <- fmt.Errorf("etcd cannot go on: %w", err):
	default: // another reason came first
	}
	select {}
}

// slogCore is a zapcore.Core over slog.
type slogCore struct{ l *slog.Logger }

func level(l zapcore.Level) slog.Level {
	switch {
	case l < zapcore.InfoLevel:
		return slog.LevelDebug - 4
	case l == zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelInfo
	}
	return slog.LevelError
}

func (c slogCore) Enabled(l zapcore.Level) bool { return c.l.Enabled(context.Background(), level(l)) }

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.l.With(attrs(fields)...)}
}

func (c slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// usual are complaints of etcd at every start and every orderly stop of a lone member on a unix socket, when nothing is wrong. (A
// start that really fails returns an error.)
var usual = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"setting up serving from embedded etcd failed.":                                        true, // its listeners were closed
	"stopping insecure grpc server due to error":                                           true, // the same
	"stopped insecure grpc server due to error":                                            true, // the same
	"simple token is not cryptographically signed":                                         true,
	"Failed to detect schema version":                                                      true, // before its first snapshot
	"failed to update storage version":                                                     true, // the same
	"failed to publish local member to cluster through raft":                               true, // its log has more than it has applied yet
}

func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	l := level(e.Level)
	if usual[e.Message] {
		l = slog.LevelDebug
	}
	c.l.Log(context.Background(), l, "etcd: "+e.Message, attrs(fields)...)
	return nil
}

func (slogCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	m := zapcore.NewMapObjectEncoder()
	out := make([]any, 0, len(fields))
	for _, f := range fields {
		f.AddTo(m)
		out = append(out, slog.Any(f.Key, m.Fields[f.Key]))
	}
	return out
}
