// Package observe asks the runtime what it has of a pod, and says it in podlife's words. Everything is asked anew; nothing is
// remembered here.
package observe

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/kubelet/logs"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/words"
)

// Runtime is what is asked.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error)
	PodSandboxStatus(ctx context.Context, id string) (*runtimev1.PodSandboxStatusResponse, error)
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
}

// Observer asks.
type Observer struct {
	Runtime Runtime
	reader  logs.Reader
}

// New returns an observer of r.
func New(r Runtime) *Observer { return &Observer{Runtime: r} }

// Pod is everything that the runtime has of a pod. What vanishes between two questions is left out.
func (o *Observer) Pod(ctx context.Context, uid types.UID) (podlife.Observed, error) {
	out := podlife.Observed{At: time.Now()}
	mine := map[string]string{labels.PodUID: string(uid)}
	boxes, err := o.Runtime.ListPodSandbox(ctx, &runtimev1.PodSandboxFilter{LabelSelector: mine})
	if err != nil {
		return out, err
	}
	for _, b := range boxes {
		info, err := o.Sandbox(ctx, b.GetId())
		if cri.IsNotFound(err) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.Sandboxes = append(out.Sandboxes, info)
	}
	cons, err := o.Runtime.ListContainers(ctx, &runtimev1.ContainerFilter{LabelSelector: mine})
	if err != nil {
		return out, err
	}
	for _, c := range cons {
		in, err := o.Container(ctx, c.GetId(), c.GetPodSandboxId())
		if cri.IsNotFound(err) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.Containers = append(out.Containers, *in)
	}
	return out, nil
}

// Sandbox is one sandbox.
func (o *Observer) Sandbox(ctx context.Context, id string) (podlife.SandboxInfo, error) {
	r, err := o.Runtime.PodSandboxStatus(ctx, id)
	if err != nil {
		return podlife.SandboxInfo{}, err
	}
	return sandboxInfo(r.GetStatus()), nil
}

func sandboxInfo(s *runtimev1.PodSandboxStatus) podlife.SandboxInfo {
	info := podlife.SandboxInfo{ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), Ready: s.GetState() == runtimev1.PodSandboxState_SANDBOX_READY}
	if ip := s.GetNetwork().GetIp(); ip != "" {
		info.IPs = append(info.IPs, ip)
		for _, more := range s.GetNetwork().GetAdditionalIps() {
			info.IPs = append(info.IPs, more.GetIp())
		}
	}
	return info
}

// Event is what a runtime event says of a pod: the sandbox that it happened in, with all its containers. It says nothing of the
// pod's other sandboxes, so At is zero.
func (o *Observer) Event(ctx context.Context, e *runtimev1.ContainerEventResponse) podlife.Observed {
	var out podlife.Observed
	box := e.GetPodSandboxStatus()
	if box == nil {
		return out
	}
	out.Sandboxes = append(out.Sandboxes, sandboxInfo(box))
	for _, st := range e.GetContainersStatuses() {
		out.Containers = append(out.Containers, *o.instance(ctx, st, box.GetId()))
	}
	return out
}

// Container is one container, with its termination message when it has ended.
func (o *Observer) Container(ctx context.Context, id, sandbox string) (*podlife.Instance, error) {
	st, err := o.Runtime.ContainerStatus(ctx, id)
	if err != nil {
		return nil, err
	}
	return o.instance(ctx, st, sandbox), nil
}

func (o *Observer) instance(ctx context.Context, st *runtimev1.ContainerStatus, sandbox string) *podlife.Instance {
	in := &podlife.Instance{
		ID: st.GetId(), SandboxID: sandbox, Name: words.Once(st.GetLabels()[labels.ContainerName]), Attempt: attempt(st),
		Hash: words.Once(st.GetAnnotations()[labels.ContainerHash]), CreatedAt: at(st.GetCreatedAt()), StartedAt: at(st.GetStartedAt()),
		FinishedAt: at(st.GetFinishedAt()), ExitCode: st.GetExitCode(), Reason: st.GetReason(), Image: words.Once(st.GetImage().GetImage()),
		ImageRef: words.Once(st.GetImageRef()), User: user(st.GetUser()), Resources: resources(st.GetResources().GetLinux()),
	}
	switch st.GetState() {
	case runtimev1.ContainerState_CONTAINER_CREATED:
		in.State = podlife.InstanceCreated
	case runtimev1.ContainerState_CONTAINER_RUNNING:
		in.State = podlife.InstanceRunning
	case runtimev1.ContainerState_CONTAINER_EXITED:
		in.State = podlife.InstanceExited
		in.Message = o.message(ctx, st)
	}
	return in
}

func attempt(st *runtimev1.ContainerStatus) uint32 {
	if n, err := strconv.ParseUint(st.GetAnnotations()[labels.RestartCount], 10, 32); err == nil {
		return uint32(n)
	}
	return st.GetMetadata().GetAttempt()
}

func at(nano int64) time.Time {
	if nano == 0 {
		return time.Time{}
	}
	return time.Unix(0, nano)
}

func user(u *runtimev1.ContainerUser) *v1.ContainerUser {
	l := u.GetLinux()
	if l == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: l.GetUid(), GID: l.GetGid(), SupplementalGroups: l.GetSupplementalGroups()}}
}

// resources are what the runtime says that a container runs with, in the API's units. nil: it says nothing.
func resources(r *runtimev1.LinuxContainerResources) *podlife.InstanceResources {
	const perCPU, sharesPerCPU = 1000, 1024
	var out podlife.InstanceResources
	if milli := r.GetCpuQuota() * perCPU; milli > 0 && r.GetCpuPeriod() > 0 {
		out.CPULimit = resource.NewMilliQuantity(milli/r.GetCpuPeriod(), resource.DecimalSI)
	}
	if n := r.GetCpuShares(); n > 0 {
		out.CPURequest = resource.NewMilliQuantity((n*perCPU+sharesPerCPU-1)/sharesPerCPU, resource.DecimalSI)
	}
	if n := r.GetMemoryLimitInBytes(); n > 0 {
		out.MemoryLimit = resource.NewQuantity(n, resource.BinarySI)
	}
	if out == (podlife.InstanceResources{}) {
		return nil
	}
	return &out
}

// message is what the container left as its last words: the end of its file, or of its log where the policy says so.
func (o *Observer) message(ctx context.Context, st *runtimev1.ContainerStatus) string {
	policy := v1.TerminationMessagePolicy(st.GetAnnotations()[labels.TerminationMessagePolicy])
	file := tailOfFile(messageFile(st))
	var log []byte
	if len(file) == 0 && policy == v1.TerminationMessageFallbackToLogsOnError && st.GetExitCode() != 0 && st.GetLogPath() != "" {
		log = o.tailOfLog(ctx, st.GetLogPath())
	}
	return podlife.TerminationMessage(policy, st.GetExitCode(), file, log, st.GetMessage())
}

func messageFile(st *runtimev1.ContainerStatus) string {
	if p := st.GetAnnotations()[labels.TerminationMessageHostPath]; p != "" {
		return p
	}
	if want := st.GetAnnotations()[labels.TerminationMessagePath]; want != "" {
		for _, m := range st.GetMounts() {
			if m.GetContainerPath() == want {
				return m.GetHostPath()
			}
		}
	}
	return ""
}

// tailOfFile reads no more than what is wanted of a file that a container wrote: it may be of any size.
func tailOfFile(path string) []byte {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-podlife.MessageFileBytes), podlife.MessageFileBytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return b
}

func (o *Observer) tailOfLog(ctx context.Context, path string) []byte {
	ended := make(chan struct{})
	close(ended)
	var w tail
	if err := o.reader.Read(ctx, path, logs.Options{Tail: podlife.MessageLogLines, Limit: -1}, ended, &w, &w); err != nil {
		return nil
	}
	return []byte(w.String())
}

// tail keeps the end of what is written to it.
type tail struct{ strings.Builder }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if t.Len()+n > 2*podlife.MessageLogBytes {
		keep := t.String() + string(p)
		t.Reset()
		t.WriteString(keep[max(0, len(keep)-podlife.MessageLogBytes):])
		return n, nil
	}
	return t.Builder.Write(p)
}
