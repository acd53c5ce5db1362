package podspec

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// probes checks the three probes of a container.
func (v *validator) probes(p *field.Path, c *v1.Container) {
	if c.LivenessProbe != nil {
		v.probe(child(p, "livenessProbe"), c.LivenessProbe)
		v.oneSuccess(child(p, "livenessProbe"), c.LivenessProbe)
	}
	if c.ReadinessProbe != nil {
		v.probe(child(p, "readinessProbe"), c.ReadinessProbe)
		if s := c.ReadinessProbe.TerminationGracePeriodSeconds; s != nil {
			v.Invalid(child(child(p, "readinessProbe"), "terminationGracePeriodSeconds"), *s, "must not be set for readinessProbes")
		}
	}
	if c.StartupProbe != nil {
		v.probe(child(p, "startupProbe"), c.StartupProbe)
		v.oneSuccess(child(p, "startupProbe"), c.StartupProbe)
	}
}

// oneSuccess: where a success only ends waiting, asking for more than one makes no sense.
func (v *validator) oneSuccess(p *field.Path, probe *v1.Probe) {
	if probe.SuccessThreshold != 1 {
		v.Invalid(child(p, "successThreshold"), probe.SuccessThreshold, "must be 1")
	}
}

func (v *validator) probe(p *field.Path, probe *v1.Probe) {
	v.handler(p, handler{exec: probe.Exec, http: probe.HTTPGet, tcp: probe.TCPSocket, grpc: probe.GRPC})
	v.NonNegative(child(p, "initialDelaySeconds"), int64(probe.InitialDelaySeconds))
	v.NonNegative(child(p, "timeoutSeconds"), int64(probe.TimeoutSeconds))
	v.NonNegative(child(p, "periodSeconds"), int64(probe.PeriodSeconds))
	v.NonNegative(child(p, "successThreshold"), int64(probe.SuccessThreshold))
	v.NonNegative(child(p, "failureThreshold"), int64(probe.FailureThreshold))
	if s := probe.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		v.Invalid(child(p, "terminationGracePeriodSeconds"), *s, "must be greater than 0")
	}
}

func (v *validator) lifecycle(p *field.Path, l *v1.Lifecycle) {
	if l == nil {
		return
	}
	if h := l.PostStart; h != nil {
		v.handler(child(p, "postStart"), handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep})
	}
	if h := l.PreStop; h != nil {
		v.handler(child(p, "preStop"), handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep})
	}
	if l.StopSignal != nil {
		v.stopSignal(child(p, "stopSignal"), *l.StopSignal)
	}
}

// handler is what probes and hooks have in common: exactly one of these does something.
type handler struct {
	exec  *v1.ExecAction
	http  *v1.HTTPGetAction
	tcp   *v1.TCPSocketAction
	grpc  *v1.GRPCAction
	sleep *v1.SleepAction
}

func (v *validator) handler(p *field.Path, h handler) {
	found := 0
	one := func(name string, set bool, ok func(*field.Path)) {
		if !set {
			return
		}
		if found++; found > 1 {
			v.Forbidden(child(p, name), "may not specify more than 1 handler type")
			return
		}
		ok(child(p, name))
	}
	one("exec", h.exec != nil, func(p *field.Path) {
		if len(h.exec.Command) == 0 {
			v.Required(child(p, "command"), "")
		}
	})
	one("httpGet", h.http != nil, func(p *field.Path) { v.httpGet(p, h.http) })
	one("tcpSocket", h.tcp != nil, func(p *field.Path) { v.Port(child(p, "port"), h.tcp.Port) })
	one("grpc", h.grpc != nil, func(p *field.Path) {
		v.Port(child(p, "port"), intstr.FromInt32(h.grpc.Port))
		if h.grpc.Mode != nil {
			check.OneOf(&v.Errors, child(p, "mode"), *h.grpc.Mode, v1.GRPCProbeModePlaintext, v1.GRPCProbeModeTLS)
		}
	})
	one("sleep", h.sleep != nil, func(p *field.Path) {
		// Without a grace period the spec is refused for that already.
		if g := v.spec.TerminationGracePeriodSeconds; g != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *g) {
			v.Invalid(p, h.sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *g))
		}
	})
	if found == 0 {
		v.Required(p, "must specify a handler type")
	}
}

func (v *validator) httpGet(p *field.Path, h *v1.HTTPGetAction) {
	if h.Path == "" {
		v.Required(child(p, "path"), "")
	}
	v.Port(child(p, "port"), h.Port)
	check.OneOf(&v.Errors, child(p, "scheme"), h.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)
	for _, header := range h.HTTPHeaders {
		v.Each(child(p, "httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name))
	}
	if h.Protocol == nil {
		return
	}
	check.OneOf(&v.Errors, child(p, "protocol"), *h.Protocol, v1.HTTPProtocolHTTP1, v1.HTTPProtocolHTTP2)
	switch {
	case *h.Protocol != v1.HTTPProtocolHTTP2:
	case h.Scheme != v1.URISchemeHTTP:
		v.Invalid(child(p, "protocol"), *h.Protocol, "is only supported with HTTP (H2C)")
	case h.Host != "":
		v.Invalid(child(p, "host"), h.Host, "must be empty when `protocol` is \"HTTP2\"")
	}
}

// signals are Linux's, by name; the real-time ones are counted from both ends.
var signals = func() []v1.Signal {
	out := []v1.Signal{
		"SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO", "SIGIOT",
		"SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM",
		"SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
		"SIGRTMIN", "SIGRTMAX",
	}
	for i := 1; i <= 15; i++ {
		out = append(out, v1.Signal(fmt.Sprintf("SIGRTMIN+%d", i)))
	}
	for i := 1; i <= 14; i++ {
		out = append(out, v1.Signal(fmt.Sprintf("SIGRTMAX-%d", i)))
	}
	slices.Sort(out)
	return out
}()

func (v *validator) stopSignal(p *field.Path, s v1.Signal) {
	switch {
	case v.spec.OS == nil:
		v.Forbidden(p, "may not be set for containers with empty `spec.os.name`")
	case v.spec.OS.Name == v1.Windows:
		check.OneOf(&v.Errors, p, s, v1.SIGKILL, v1.SIGTERM)
	case v.spec.OS.Name == v1.Linux:
		check.OneOf(&v.Errors, p, s, signals...)
	}
}
