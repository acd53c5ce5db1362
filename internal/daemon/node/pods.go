package node

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/admit"
	"podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/hook"
	"podo.dev/podo/internal/kubelet/logs"
	"podo.dev/podo/internal/kubelet/mirror"
	"podo.dev/podo/internal/kubelet/objects"
	"podo.dev/podo/internal/kubelet/podcert"
	"podo.dev/podo/internal/kubelet/probe"
	"podo.dev/podo/internal/kubelet/resize"
	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/kubelet/spec"
	"podo.dev/podo/internal/kubelet/state"
	"podo.dev/podo/internal/kubelet/token"
	"podo.dev/podo/internal/kubelet/volume"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// recursiveReadOnly tells what the embedded runtime can do.
const recursiveReadOnly = true

func (k *run) buildPodModules(ctx context.Context) (err error) {
	c := k.c.Kubelet
	objs := objects.New(k.cluster.View)
	k.tokens, err = token.New(token.Config{
		Client: k.client, Due: func(ctx context.Context, pod types.UID) { k.volumes.Refresh(ctx, pod) }, Logger: k.log().of("token"),
	})
	if err != nil {
		return err
	}
	k.certs, err = podcert.New(podcert.Config{
		API: k.client, Request: objs.PodCertificateRequest, Node: k.thisNode, Event: k.event, Logger: k.log().of("podcert"),
		Due: func(ctx context.Context, pod types.UID) { k.volumes.Refresh(ctx, pod) },
	})
	if err != nil {
		return err
	}
	k.volumes, err = volume.New(volume.Config{
		Root: k.c.Dir, Host: k.c.Host, Objects: objs, Follow: objs.Follow, Facts: k.facts,
		MemoryAllocatable: func() int64 { return k.allocate.Memory().Value() },
		NodeLabels: func() map[string]string {
			if n := k.thisNode(); n != nil {
				return n.Labels
			}
			return nil
		},
		Token: k.tokens.Token, Certificate: k.certs.Bundle, Folder: k.localFolders().Ensure, Operated: k.counts.VolumeOperated,
		Wake:  func(uid types.UID) { k.kubelet.Signal(uid, podlife.VolumesChanged{}) },
		Event: k.event, Swapped: k.swapped,
		Logger: k.log().of("volume"),
	})
	if err != nil {
		return err
	}
	if err := k.buildImages(ctx, objs); err != nil {
		return err
	}
	if err := k.buildUsers(); err != nil {
		return err
	}
	var resolv string
	if c.ResolverConfig != nil && *c.ResolverConfig != *config.Defaults().ResolverConfig {
		resolv = *c.ResolverConfig
	}
	k.specs, err = spec.New(spec.Config{
		Node: k.c.Name, LogDir: c.PodLogsDir, LogList: k.logList(), Files: k.c.Host, Objects: objs, Volumes: k.volumes, Images: k.c.Runtime,
		Facts: k.facts, Machine: k.machine, Services: objs.Services, Users: k.usersOf, Handler: objs.RuntimeHandler, Volume: k.imageVolume, Event: k.event, NodeEvent: k.nodeEvent, Logger: k.log().of("spec"),
		DNS:        spec.DNS{Cluster: c.ClusterDNS, Domain: cmp.Or(c.ClusterDomain, "cluster.local"), ResolvConf: resolv, Off: c.ResolverConfig != nil && *c.ResolverConfig == ""},
		SeccompDir: filepath.Join(k.c.Dir, "seccomp"), SandboxSeccomp: k.c.SandboxSeccomp,
		NoCPUQuota:  c.CPUCFSQuota != nil && !*c.CPUCFSQuota,
		QuotaPeriod: c.CPUCFSQuotaPeriod.Duration,
		SwapLimited: k.cgroups.SwapLimited(), CgroupV2: k.cgroups.Layout().V2,
		LimitedSwap: c.MemorySwap.SwapBehavior == config.LimitedSwap, ThrottlingFactor: c.MemoryThrottlingFactor,
		SingleProcessOOMKill: config.SingleProcessOOMKill(c, !k.cgroups.Layout().V2), SeccompDefault: *c.SeccompDefault,
		RecursiveReadOnly: recursiveReadOnly,
	})
	if err == nil {
		k.specs.CheckResolvConf()
	}
	return err
}

func (k *run) imageVolume(ctx context.Context, pod *v1.Pod, as *v1.Container, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	ref, err := k.images.EnsureVolume(ctx, pod, as, sandbox)
	k.counts.ImageVolume(err)
	return ref, err
}

func (k *run) buildProbes(ctx context.Context) (err error) {
	k.probes, err = probe.New(ctx, probe.Config{
		Checker: probe.NewChecker(k.c.Runtime),
		Turned:  func(uid types.UID, e podlife.ProbeTurned) { k.kubelet.Signal(uid, e) },
		Event:   k.event, Append: k.append, Log: k.log().of("probe"),
	})
	return err
}

func (k *run) buildKubelet() error {
	c := k.c.Kubelet
	checkpoints, err := state.Open(filepath.Join(k.c.Dir, "state"))
	if err != nil {
		return err
	}
	life := podlife.Defaults()
	life.HostIPs = []string{k.c.IP.String()}
	life.RecursiveReadOnly = recursiveReadOnly
	life.NoCPUQuota = c.CPUCFSQuota != nil && !*c.CPUCFSQuota
	if p := c.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		life.BackoffMax = p.Duration
	}
	k.kubelet, err = kubelet.New(kubelet.Config{
		Node: k.c.Name, Sources: k.sources(), Checkpoints: checkpoints, Reporter: k.status,
		Mirror:    func(name types.NamespacedName) { k.mirrors.Wake(name) },
		NodeEvent: k.nodeEvent, Relisted: k.counts.Relisted, Inspected: k.counts.Inspected, Swept: k.counts.Swept,
		Logged: func(p *v1.Pod) map[string]uint32 {
			return logs.Attempts(k.logsOf(p.Namespace, p.Name, p.UID))
		},
		Config: worker.Config{
			Life: life, Runtime: k.linking(),
			Admission: admit.Checker{
				Node: k.anyNode, Pressure: k.pressures, Down: k.goesOff,
				Rules: admit.Rules{
					OS: "linux", UnsafeSysctls: c.AllowedUnsafeSysctls, AppArmorEnabled: appArmor(), Own: k.c.Own,
					Swap: c.MemorySwap.SwapBehavior == config.LimitedSwap && k.cgroups.SwapLimited() && k.cgroups.Layout().V2,
				},
			},
			Volumes: k.volumes, Images: k.images, Cgroups: k.cgroups, Specs: k.specs,
			Resizer: resize.Resizer{Cgroups: k.cgroups, Runtime: k.c.Runtime, Specs: k.specs},
			Hooks:   hook.New(k.c.Runtime, k.event).Counted(k.counts), Probes: k.probes,
			Event: k.event, NetworkProblem: k.node.NetworkProblem, Gone: k.gone, Metrics: k.counts,
			Append: k.append, Log: k.log().of("kubelet"), CallTimeout: c.RuntimeRequestTimeout.Duration, Reached: failpoint(),
		},
	})
	if err != nil {
		return err
	}
	k.mirrors, err = mirror.New(mirror.Config{Client: k.client, Node: k.thisNode, Pods: k.kubelet, Log: k.log().of("mirror")})
	return err
}

// sources are where the node's pods come from: the API, a folder of manifests, and, when configured, a web server.
func (k *run) sources() []kubelet.Source {
	c := k.c.Kubelet
	log := k.log().of("source")
	problem := func(origin string, err error) {
		log.Error("a manifest cannot be used", "from", origin, "err", err)
		k.nodeEvent(v1.EventTypeWarning, explain.UnusableManifest, origin+": "+err.Error())
	}
	twice := func(p *v1.Pod, from string) {
		k.event(p, "", v1.EventTypeWarning, "FailedValidation", fmt.Sprintf(
			"Error validating pod %s_%s(%s) from %s due to duplicate pod name %q, ignoring", p.Name, p.Namespace, p.UID, from, p.Name))
	}
	all := []kubelet.Source{
		source.API{View: k.cluster.View, Node: k.c.Name, Log: log},
		source.File{
			Path: c.StaticPodPath, Node: k.c.Name, Every: c.FileCheckFrequency.Duration, Problem: problem, Twice: twice, Log: log,
			Unwatched: func(pod *v1.Pod, every time.Duration, err error) {
				k.event(pod, "", v1.EventTypeWarning, "FailedWatch", fmt.Sprintf("a change of its manifest is noticed within %v only: the folder cannot be watched: %v", every, err))
			},
		},
	}
	if c.StaticPodURL != "" {
		all = append(all, source.URL{
			URL: c.StaticPodURL, Header: c.StaticPodURLHeader, Node: k.c.Name, Every: c.HTTPCheckFrequency.Duration, Problem: problem, Twice: twice, Log: log,
		})
	}
	return all
}

// gone is called for each pod of which nothing is left.
func (k *run) gone(pod *v1.Pod) {
	k.tokens.Forget(pod.UID)
	k.certs.Forget(pod.UID)
	k.users.Forget(pod.UID)
	k.gc.Poke()
}

func appArmor() bool {
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(enabled), "Y")
}
