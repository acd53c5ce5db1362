package kubelet_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/kubelettest"
)

// Containers of one pod that have images as volumes are created one after the other, all others at once: the runtime cannot mount an image
// for two of a sandbox at a time.
func TestImageVolumesOfSeveralContainers(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.Runtime.Latency("CreateContainer", time.Second)
		p := newPod("p", "sleep inf")
		p.Spec.Volumes = []v1.Volume{{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "busybox"}}}}
		first := p.Spec.Containers[0]
		p.Spec.Containers = nil
		for _, name := range []string{"a", "b", "c", "without", "either"} {
			c := first
			c.Name = name
			if len(name) == 1 {
				c.VolumeMounts = []v1.VolumeMount{{Name: "i", MountPath: "/i"}}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		r.API.Create(p)
		time.Sleep(time.Minute)
		for _, c := range r.API.Pod("p").Status.ContainerStatuses {
			if c.State.Running == nil || c.RestartCount != 0 {
				t.Errorf("%s: %+v", c.Name, c.State)
			}
		}
		ran := moves(r, "p", "Running")
		if n := r.Runtime.Calls("CreateContainer"); n != 5 || len(ran) != 5 || ran[0] != ran[2] || ran[2] == ran[3] || ran[3] == ran[4] {
			t.Errorf("%d were created, and ran after %v; want three of them at once, and two alone", n, ran)
		}
	})
}

// However many containers of a pod wait for each other, other pods start as if there were none; and the pod ends without waiting for them.
func TestManyImageVolumesHoldNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.Runtime.Latency("CreateContainer", 5*time.Second)
		p := newPod("p", "sleep inf")
		p.Spec.Volumes = []v1.Volume{{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "busybox"}}}}
		first := p.Spec.Containers[0]
		p.Spec.Containers = nil
		for i := range 40 {
			c := first
			c.Name, c.VolumeMounts = fmt.Sprint("c", i), []v1.VolumeMount{{Name: "i", MountPath: "/i"}}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		r.API.Create(p)
		time.Sleep(time.Second)
		r.API.Create(newPod("other", "sleep inf"))
		time.Sleep(9 * time.Second)
		if c := r.API.Pod("other").Status.ContainerStatuses; len(c) != 1 || c[0].State.Running == nil {
			t.Errorf("another pod waits for one with many image volumes: %+v", c)
		}
		r.API.Delete("p", 1)
		time.Sleep(time.Minute)
		if n := r.Runtime.Calls("CreateContainer"); r.API.Pod("p") != nil || n > 5 {
			t.Errorf("a minute after it was deleted the pod is %v; %d containers were created", r.API.Pod("p"), n)
		}
	})
}
