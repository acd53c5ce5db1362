package probe

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"podo.dev/podo/internal/kubelet/expand"
)

// maxOutput bounds what is kept of a probe's output, in bytes.
const maxOutput = 10 << 10

// Target is a container that is probed.
type Target struct {
	Pod       *v1.Pod
	Container *v1.Container
	ID        string // of the container in the runtime
	IP        string // the pod's
}

// Result is what one run of a probe found.
type Result struct {
	OK     bool
	Output string // what to tell users when it failed
	Warn   string // what to tell users although the probe succeeded
	Began  bool   // with an error: an answer began and broke off
}

// Checker runs a probe once. An error says that the probe itself could not be run: that is no result.
type Checker interface {
	Check(ctx context.Context, p *v1.Probe, t Target) (Result, error)
}

// Runtime is what exec probes ask of the container runtime.
type Runtime interface {
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)
}

// NewChecker returns the Checker that runs commands in containers and speaks HTTP, TCP and gRPC to their pods.
func NewChecker(rt Runtime) Checker { return &checker{rt: rt} }

type checker struct{ rt Runtime }

func (k *checker) Check(ctx context.Context, p *v1.Probe, t Target) (Result, error) {
	timeout := time.Duration(max(p.TimeoutSeconds, 1)) * time.Second
	switch {
	case p.Exec != nil:
		return k.exec(ctx, expanded(p.Exec.Command, t.Container), t, timeout)
	case p.HTTPGet != nil:
		return get(ctx, p.HTTPGet, t, timeout)
	case p.TCPSocket != nil:
		port, err := Port(p.TCPSocket.Port, t.Container)
		if err != nil {
			return Result{}, err
		}
		return dial(ctx, net.JoinHostPort(cmp.Or(p.TCPSocket.Host, t.IP), port), timeout), nil
	case p.GRPC != nil:
		service := ""
		if p.GRPC.Service != nil {
			service = *p.GRPC.Service
		}
		return askHealth(ctx, net.JoinHostPort(t.IP, strconv.Itoa(int(p.GRPC.Port))), service, timeout), nil
	}
	return Result{}, fmt.Errorf("missing probe handler for %s:%s", t.Pod.Namespace+"/"+t.Pod.Name, t.Container.Name)
}

// expanded is a command with $(NAME) replaced by the values that the container's spec states; variables that come from elsewhere
// count as empty.
func expanded(cmd []string, c *v1.Container) []string {
	values := make(map[string]string, len(c.Env))
	for _, v := range c.Env {
		values[v.Name] = v.Value
	}
	out := make([]string, len(cmd))
	for i, s := range cmd {
		out[i] = expand.Refs(s, func(name string) (string, bool) { v, ok := values[name]; return v, ok })
	}
	return out
}

func (k *checker) exec(ctx context.Context, cmd []string, t Target, timeout time.Duration) (Result, error) {
	// The runtime enforces the timeout; ours is for one that does not answer.
	outer, cancel := context.WithTimeout(ctx, timeout+5*time.Second)
	defer cancel()
	stdout, stderr, code, err := k.rt.ExecSync(outer, t.ID, cmd, timeout)
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case status.Code(err) == codes.DeadlineExceeded:
		return Result{Output: fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(cmd, " "), timeout)}, nil
	case err != nil:
		return Result{}, err
	}
	return Result{OK: code == 0, Output: cut(string(stdout) + string(stderr))}, nil
}

func dial(ctx context.Context, addr string, timeout time.Duration) Result {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return Result{Output: err.Error()}
	}
	reset(conn)
	return Result{OK: true}
}

// reset closes a probe's connection without leaving it in TIME_WAIT: many probes would use up the ports.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Port resolves a port that may be named among a container's ports.
func Port(p intstr.IntOrString, c *v1.Container) (string, error) {
	n := p.IntVal
	if p.Type == intstr.String {
		i := slices.IndexFunc(c.Ports, func(cp v1.ContainerPort) bool { return cp.Name == p.StrVal })
		if i < 0 {
			return "", fmt.Errorf("port %q not found", p.StrVal)
		}
		n = c.Ports[i].ContainerPort
	}
	if n <= 0 || n > 65535 {
		return "", fmt.Errorf("invalid port number: %d", n)
	}
	return strconv.Itoa(int(n)), nil
}

// cut shortens s to what is kept, not inside of a character.
func cut(s string) string {
	if len(s) <= maxOutput {
		return s
	}
	n := maxOutput
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
