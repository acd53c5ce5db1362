package metrics

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

func TestWhatIsAskedWhenSomebodyLooks(t *testing.T) {
	m := New(true)
	m.Looks = Looks{
		Volumes: func(tell func(plugin, state string)) {
			tell("kubernetes.io/secret", "desired_state_of_world")
			tell("kubernetes.io/secret", "desired_state_of_world")
			tell("kubernetes.io/secret", "actual_state_of_world")
		},
		Certificates: func(tell func(signer, state string)) { tell("example.com/s", "fresh") },
		Records:      func() (int, int) { return 1, 7 },
		LogBytes:     func(p *v1.Pod, container string) int64 { return int64(len(p.Name + container)) },
	}
	p := pod("p")
	p.Namespace = "ns"
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	m.Pods = func() []worker.Snapshot {
		return []worker.Snapshot{{Pod: p, Status: says(v1.PodStatus{
			InitContainerStatuses: []v1.ContainerStatus{{Name: "side", State: running}, {Name: "init"}},
			ContainerStatuses:     []v1.ContainerStatus{{Name: "a", State: running}},
		})}}
	}
	same(t, m, `
		volume_manager_total_volumes{plugin_name="kubernetes.io/secret",state="desired_state_of_world"} 2
		volume_manager_total_volumes{plugin_name="kubernetes.io/secret",state="actual_state_of_world"} 1
		kubelet_podcertificate_states{signer_name="example.com/s",state="fresh"} 1
		kubelet_imagemanager_ondisk_pullintents 1
		kubelet_imagemanager_ondisk_pulledrecords 7
		kubelet_container_log_filesystem_used_bytes{container="side",namespace="ns",pod="p",uid="p"} 5
		kubelet_container_log_filesystem_used_bytes{container="a",namespace="ns",pod="p",uid="p"} 2
	`)
}

// Images are counted by what was found out of them, with upstream's words.
func TestImagesThatAreAskedFor(t *testing.T) {
	m := New(true)
	m.ImageAsked(v1.PullAlways, nil, new(true))
	m.ImageAsked(v1.PullIfNotPresent, new(true), new(false))
	m.ImageAsked(v1.PullIfNotPresent, new(true), new(false))
	m.ImageChecked("mustAuthenticate")
	same(t, m, `
		kubelet_image_manager_ensure_image_requests_total{present_locally="unknown",pull_policy="always",pull_required="true"} 1
		kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="ifnotpresent",pull_required="false"} 2
		kubelet_imagemanager_image_mustpull_checks_total{result="mustAuthenticate"} 1
	`)
}

func TestOperationsAreCountedByTheirEnd(t *testing.T) {
	m := New(true)
	m.VolumeOperated("kubernetes.io/secret", "volume_mount", time.Second, nil)
	m.VolumeOperated("kubernetes.io/secret", "volume_mount", time.Second, errors.New("no"))
	same(t, m, `
		storage_operation_duration_seconds{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/secret"} 0
		storage_operation_duration_seconds{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/secret"} 0
	`)
}

// A pod that is let in counts once, by the level on which it asks for resources and its class; one that is not let in does not.
func TestAdmittedPods(t *testing.T) {
	m := New(true)
	one := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	for i, level := range []struct{ pod, container bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		p := pod(string(rune('a' + i)))
		if level.pod {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: one}
		}
		if level.container {
			p.Spec.InitContainers[0].Resources.Requests = one
		}
		s := begin(m, p)
		s.then(1, func(x *podlife.State) { x.Stage = podlife.Admitting })
		s.then(1, func(x *podlife.State) { x.Stage = podlife.Starting })
		s.then(1, func(x *podlife.State) { x.Stage = podlife.Running })
	}
	s := begin(m, pod("no"))
	s.then(1, func(x *podlife.State) { x.Stage = podlife.Admitting })
	s.then(1, func(x *podlife.State) { x.Stage, x.Reject = podlife.Releasing, &podlife.Rejection{Reason: "OutOfpods"} })
	same(t, m, `
		kubelet_pod_level_resources_admission_total{config_mode="",qos_class="besteffort"} 1
		kubelet_pod_level_resources_admission_total{config_mode="pod_level",qos_class="burstable"} 1
		kubelet_pod_level_resources_admission_total{config_mode="container_level",qos_class="burstable"} 1
		kubelet_pod_level_resources_admission_total{config_mode="pod_and_container_level",qos_class="burstable"} 1
	`)
}
