package explain

import (
	"fmt"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// killedByProbe explains that the kubelet ended a container because of a probe.
func (f Facts) killedByProbe(out *Finding, container, kind string, p *v1.Probe) {
	out.Why = fmt.Sprintf("The kubelet killed container %s because its %s", container, f.probe(container, kind, p))
	out.Do = f.mendProbe(container, kind, p)
	if kind == "liveness" {
		out.Do = joined(out.Do, "One that only starts slowly wants a startupProbe")
	}
}

// probe says what a probe does, that it failed, and what it last returned.
func (f Facts) probe(container, kind string, p *v1.Probe) string {
	words := kind + " probe failed"
	if p != nil {
		words = kind + " probe (" + probeAction(p) + ") failed"
		if n := p.FailureThreshold; n > 1 {
			words += fmt.Sprintf(" %d times in a row", n)
		}
	}
	if said := f.probeSaid(container, kind); said != "" {
		words += ": " + said
	}
	return words
}

func probeAction(p *v1.Probe) string {
	switch {
	case p.HTTPGet != nil:
		return fmt.Sprintf("GET :%s%s", p.HTTPGet.Port.String(), p.HTTPGet.Path)
	case p.TCPSocket != nil:
		return "connects to :" + p.TCPSocket.Port.String()
	case p.GRPC != nil:
		return fmt.Sprintf("gRPC :%d", p.GRPC.Port)
	case p.Exec != nil:
		return "exec " + shell(p.Exec.Command)
	}
	return "does nothing"
}

// shell is a command as it is typed: words that a shell would split or change are quoted.
func shell(command []string) string {
	var out []string
	for _, word := range command {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:=,@%+", r)
		}) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// quoted is a word for a command. A name may have been chosen to make somebody else's shell do more.
func quoted(word string) string { return shell([]string{word}) }

// probeSaid is the last output of a failing probe.
func (f Facts) probeSaid(container, kind string) string {
	r, ok := f.last(timeline.Probe, func(r timeline.Record) bool { return r.Subject == container+"/"+kind && r.To == "failed" })
	if !ok {
		return ""
	}
	return strings.Join(strings.Fields(r.Cause), " ")
}

// mendProbe tells what to do about a probe that fails.
func (f Facts) mendProbe(container, kind string, p *v1.Probe) string {
	if p == nil {
		return ""
	}
	if kind == "startup" {
		return joined(fmt.Sprintf("It has %d s to start (failureThreshold times periodSeconds): raise failureThreshold if it needs longer", max(p.FailureThreshold, 1)*max(p.PeriodSeconds, 1)), f.mendAnswer(container, kind, p))
	}
	return f.mendAnswer(container, kind, p)
}

// mendAnswer says what to look at, by what the probe does and returned.
func (f Facts) mendAnswer(container, kind string, p *v1.Probe) string {
	said := f.probeSaid(container, kind)
	at := fmt.Sprintf("-n %s %s -c %s", f.Pod.Namespace, f.Pod.Name, container)
	switch {
	case strings.Contains(said, "connection refused"):
		return fmt.Sprintf("Nothing listens there: correct the %s probe's port, or let the program listen on all addresses of the pod, not on localhost alone", kind)
	case strings.Contains(said, "deadline exceeded") || strings.Contains(said, "timed out") || strings.Contains(said, "timeout"):
		return fmt.Sprintf("It did not answer within %d s: raise timeoutSeconds, or find what the program waits for", max(p.TimeoutSeconds, 1))
	case strings.Contains(said, "statuscode"):
		return fmt.Sprintf("Find out why the program answers so: `podo kubectl logs %s`; or correct the probe's path", at)
	case p.Exec != nil:
		return fmt.Sprintf("Try it: `podo kubectl exec %s -- %s`", at, shell(p.Exec.Command))
	}
	return fmt.Sprintf("Read what the program says: `podo kubectl logs %s`", at)
}

// notReady tells of a running container why it is not ready.
func (f Facts) notReady(s v1.ContainerStatus) (why, do string) {
	spec := f.container(s.Name)
	kind, p := "readiness", spec.ReadinessProbe
	if spec.StartupProbe != nil && (s.Started == nil || !*s.Started) {
		kind, p = "startup", spec.StartupProbe
	}
	switch {
	case p == nil:
		why = fmt.Sprintf("Container %s is not ready", s.Name)
		if said := f.probeSaid(s.Name, kind); said != "" {
			why += ", as its " + kind + " probe said: " + said
		}
		return why, ""
	}
	if said := f.probeBroken(s.Name, kind); said != "" {
		why = fmt.Sprintf("The %s probe (%s) of container %s cannot be run: %s", kind, probeAction(p), s.Name, said)
		if p.Exec != nil && (strings.Contains(said, "no such file") || strings.Contains(said, "not found")) {
			return why, fmt.Sprintf("The image of container %s has no such program: correct the %s probe's command, or the image", s.Name, kind)
		}
		return why, fmt.Sprintf("Correct the %s probe of container %s", kind, s.Name)
	}
	if !f.hasFailed(s.Name, kind) {
		return fmt.Sprintf("Container %s waits for its %s probe (%s), which has not succeeded yet", s.Name, kind, probeAction(p)), f.mendProbe(s.Name, kind, p)
	}
	why = fmt.Sprintf("The %s probe (%s) of container %s fails", kind, probeAction(p), s.Name)
	if said := f.probeSaid(s.Name, kind); said != "" {
		why += ": " + said
	}
	return why, f.mendProbe(s.Name, kind, p)
}

// probeBroken is why a probe cannot be run; "" when it can.
func (f Facts) probeBroken(container, kind string) string {
	r, ok := f.last(timeline.Probe, func(r timeline.Record) bool { return r.Subject == container+"/"+kind })
	if !ok || r.To != "error" {
		return ""
	}
	return strings.Join(strings.Fields(short(r.Cause)), " ")
}

func (f Facts) hasFailed(container, kind string) bool {
	r, ok := f.last(timeline.Probe, func(r timeline.Record) bool { return r.Subject == container+"/"+kind })
	return ok && r.To == "failed"
}
