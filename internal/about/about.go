// Package about is what each program of Kubernetes tells of itself, whatever it does: at /metrics which version it is, which features are on
// and how many metrics there are, at /metrics/slis how its health checks went. Names, labels and values are upstream's.
package about

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"
)

// Program is what a server says it is; gitVersion is Kubernetes', as in v1.37.2.
func Program(gitVersion string) version.Info {
	return version.Info{
		Major: "1", Minor: "37", GitVersion: gitVersion, GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// Metrics are for r, whose metrics are counted.
func Metrics(program version.Info, r *prometheus.Registry) []prometheus.Collector {
	none := func(name, help string) prometheus.Collector {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "[BETA] " + help})
	}
	return []prometheus.Collector{
		buildInfo(program),
		gates{},
		registered{r},
		none("hidden_metrics_total", "Metrics that are not told since they have been deprecated for long: there are none."),
		none("disabled_metrics_total", "Metrics that are not told since somebody wanted that: nobody can."),
	}
}

func buildInfo(program version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "[BETA] Always 1: its labels say which version runs, and what it was built with.",
		ConstLabels: prometheus.Labels{
			"major": program.Major, "minor": program.Minor, "git_version": program.GitVersion, "git_commit": program.GitCommit,
			"git_tree_state": program.GitTreeState, "build_date": program.BuildDate, "go_version": program.GoVersion,
			"compiler": program.Compiler, "platform": program.Platform,
		},
	}, func() float64 { return 1 })
}

// VersionInfo is told by the API server, the scheduler and the controllers, of which versions they are like: a program that emulates none but
// its own is like itself, and goes together with the one before.
func VersionInfo(program version.Info) prometheus.Collector {
	binary, _, _ := strings.Cut(strings.TrimPrefix(program.GitVersion, "v"), "+")
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "version_info", Help: "[ALPHA] Always 1: its labels say which versions of Kubernetes this one is like.",
		ConstLabels: prometheus.Labels{"component": "kube", "binary": binary, "emulation": "1.37", "min_compat": "1.36"},
	}, func() float64 { return 1 })
}
