// Package stats measures what the node, its pods and their containers use, for the summary API and for metrics under upstream's
// names. It measures when it is asked. Between requests it keeps only the last cpu times, whose difference is the load, and the
// sizes of volumes, since walking them takes time.
package stats

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"podo.dev/podo/internal/host"
)

// Runtime is what the statistics come from.
type Runtime interface {
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ListPodSandboxStats(ctx context.Context, filter *runtimev1.PodSandboxStatsFilter) ([]*runtimev1.PodSandboxStats, error)
	ImageFsInfo(ctx context.Context) (*runtimev1.ImageFsInfoResponse, error)
	ListMetricDescriptors(ctx context.Context) ([]*runtimev1.MetricDescriptor, error)
	ListPodSandboxMetrics(ctx context.Context) ([]*runtimev1.PodSandboxMetrics, error)
}

// Config is what a Source needs.
type Config struct {
	Node    string
	Runtime Runtime
	Files   host.Files
	DataDir string // whose file system is the node's
	// Pod returns a pod of the node, for its start time and its volumes; nil when unknown.
	Pod func(namespace, name string) *v1.Pod
	// Volumes is the folder of a pod's volumes (TYPE/NAME below it), Logs that of its logs (a folder for each container); nil:
	// not measured.
	Volumes func(uid types.UID) string
	Logs    func(namespace, name string, uid types.UID) string
	// Cgroup is where the kernel accounts a pod, or all pods together for nil (on cgroup v1 their memory only); "" when unknown.
	// nil: only the runtime is asked.
	Cgroup func(pod *v1.Pod) (dir string, v2 bool)
	// Machine is what metrics of the machine name it by.
	Machine Machine
	// Pods is what all pods together use of the processors, in nanoseconds, and of the memory; ok is false when it cannot be told.
	Pods func() (cpu, memory uint64, ok bool)
	Now  func() time.Time // nil: time.Now
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Node == "" || c.Runtime == nil || c.Files == nil || c.DataDir == "" || c.Pod == nil {
		return errors.New("stats: Node, Runtime, Files, DataDir and Pod must be set")
	}
	if c.Pods == nil {
		c.Pods = func() (uint64, uint64, bool) { return 0, 0, false }
	}
	if c.Cgroup == nil {
		c.Cgroup = func(*v1.Pod) (string, bool) { return "", false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Source measures.
type Source struct {
	cfg     Config
	started time.Time
	loads   loads
	volumes volumes

	mu      sync.Mutex
	imageFS string // where the runtime keeps images; it does not move
}

// New makes a Source.
func New(cfg Config) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Source{cfg: cfg, started: cfg.Now(), loads: loads{last: map[string]sample{}}, volumes: volumes{known: map[types.UID]*measured{}}}, nil
}

// Summary is what everything uses now, without what cannot be measured. brief leaves out all but cpu and memory.
func (s *Source) Summary(ctx context.Context, brief bool) (*v1alpha1.Summary, error) {
	node, err := s.node(ctx, brief)
	if err != nil {
		return nil, err
	}
	pods, err := s.pods(ctx, brief)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Summary{Node: node, Pods: pods}, nil
}

// ServeSummary serves /stats/summary, for GET and POST as upstream.
func (s *Source) ServeSummary(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	sum, err := s.Summary(r.Context(), r.FormValue("only_cpu_and_memory") == "true")
	if err != nil {
		http.Error(w, "Internal Error: "+err.Error(), http.StatusInternalServerError)
		return
	}
	writeIndented(w, sum)
}
