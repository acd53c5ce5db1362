// Package audit records who asked the API for what, and the outcome, as a policy says: with upstream's policy files, events and
// log files. Without a policy there is no Log, and a nil Log and a nil Request do nothing.
package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	pluginlog "k8s.io/apiserver/plugin/pkg/audit/log"
)

// Config follows upstream's flags.
type Config struct {
	PolicyFile    string // --audit-policy-file
	LogPath       string // --audit-log-path; "-" is standard output
	LogMaxAge     int    // --audit-log-maxage, days
	LogMaxBackups int    // --audit-log-maxbackup
	LogMaxSize    int    // --audit-log-maxsize, megabytes; 0 never rotates
	LogCompress   bool   // --audit-log-compress
}

// Validate refuses what makes no sense, naming the flag.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int
	}{{"maxage", c.LogMaxAge}, {"maxbackup", c.LogMaxBackups}, {"maxsize", c.LogMaxSize}} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("--audit-log-%s %d can't be a negative number", f.name, f.value))
		}
	}
	if c.PolicyFile != "" && c.LogPath == "" {
		errs = append(errs, errors.New("--audit-policy-file needs --audit-log-path, which says where to write"))
	}
	return errors.Join(errs...)
}

// Log is where events go.
type Log struct {
	policy audit.PolicyRuleEvaluator
	sink   audit.Sink
	closer io.Closer
}

// Open reads the policy and opens the log. Without a policy it returns nil: nothing is audited.
func Open(c Config) (*Log, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.PolicyFile == "" || c.LogPath == "" {
		return nil, nil
	}
	p, err := policy.LoadPolicyFromFile(c.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	out, err := writer(&c)
	if err != nil {
		return nil, fmt.Errorf("--audit-log-path: %w", err)
	}
	l := New(p, out)
	l.closer, _ = out.(io.Closer)
	return l, nil
}

// New makes a Log that writes a JSON line an event.
func New(p *auditinternal.Policy, out io.Writer) *Log {
	return &Log{policy: policy.NewPolicyRuleEvaluator(p), sink: pluginlog.NewBackend(out, pluginlog.FormatJson, auditv1.SchemeGroupVersion)}
}

// Close closes the log's file. Requests must have ended.
func (l *Log) Close() error {
	if l == nil || l.closer == nil {
		return nil
	}
	return l.closer.Close()
}

// writer creates the file first, so that nobody else may read it and a wrong path is reported at once.
func writer(c *Config) (io.Writer, error) {
	if c.LogPath == "-" {
		return unclosed{os.Stdout}, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.LogPath), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil || c.LogMaxSize == 0 {
		return f, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return &lumberjack.Logger{
		Filename: c.LogPath, MaxAge: c.LogMaxAge, MaxBackups: c.LogMaxBackups, MaxSize: c.LogMaxSize, Compress: c.LogCompress,
	}, nil
}

// unclosed is a writer that is not ours to close.
type unclosed struct{ io.Writer }
