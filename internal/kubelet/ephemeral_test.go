package kubelet_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/kubelettest"
)

// The volumes that an ephemeral container mounts are there before it is created.
func TestVolumesComeWithAnEphemeralContainer(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		var first, last atomic.Int32 // how many ephemeral containers it was mounted with
		first.Store(-1)
		var there atomic.Bool
		r.Volumes.Fail = func(p *v1.Pod) error {
			n := int32(len(p.Spec.EphemeralContainers))
			first.CompareAndSwap(-1, n)
			last.Store(n)
			if n > 0 && !there.Load() {
				return errors.New("it is not there")
			}
			return nil
		}
		r.API.Create(newPod("p", "sleep inf"))
		time.Sleep(10 * time.Second)
		r.API.Edit("p", func(p *v1.Pod) {
			d := v1.EphemeralContainer{}
			d.Name, d.Image, d.Command = "d", "busybox", []string{"sh", "-c", "sleep inf"}
			d.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, d)
		})
		time.Sleep(10 * time.Second)
		st := r.API.Pod("p").Status.EphemeralContainerStatuses
		if len(st) != 1 || st[0].State.Waiting == nil || st[0].State.Waiting.Reason != "CreateContainerConfigError" || st[0].State.Waiting.Message != "it is not there" {
			t.Fatalf("%+v", st)
		}
		if c := r.Runtime.Calls("CreateContainer"); c != 1 {
			t.Errorf("%d containers were created", c)
		}
		there.Store(true)
		time.Sleep(5 * time.Minute)
		if st := r.API.Pod("p").Status.EphemeralContainerStatuses; st[0].State.Running == nil || first.Load() != 0 || last.Load() != 1 {
			t.Errorf("%+v, mounted with %d at first, with %d in the end", st, first.Load(), last.Load())
		}
	})
}
