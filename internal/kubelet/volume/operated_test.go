package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// What is done for volumes is told by upstream's names of their types, and what there is of them is counted by these.
func TestOperationsAreTold(t *testing.T) {
	n := newTest(t)
	var mu sync.Mutex // volumes are mounted side by side
	var told []string
	n.c.Operated = func(plugin, operation string, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, strings.TrimPrefix(plugin, "kubernetes.io/")+" "+operation+fmt.Sprint(map[bool]string{true: " failed"}[err != nil]))
	}
	expect := func(doing string, want ...string) {
		t.Helper()
		slices.Sort(told)
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", doing, told, want)
		}
		told = nil
	}
	counted := func(doing string, want ...string) {
		t.Helper()
		got := []string{}
		n.Count(func(plugin, state string) { got = append(got, strings.TrimPrefix(plugin, "kubernetes.io/")+" "+state) })
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: there are %q, want %q", doing, got, want)
		}
	}
	dir := t.TempDir()
	n.api.bind(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}})
	p := pod(
		"u1", vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), claim("c", "c", false),
		vol("h", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}), vol("i", v1.VolumeSource{Image: &v1.ImageVolumeSource{}}),
		vol("m", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "absent"}}}),
		claim("n", "nothing", false), vol("unused", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
	)
	unuse(p, "unused")
	if err := n.Mount(t.Context(), p); err == nil {
		t.Fatal("a volume without its ConfigMap is mounted")
	}
	expect("mounting", "configmap volume_mount failed", "empty-dir volume_mount", "host-path volume_mount", "host-path volume_mount", "image volume_mount")
	const wanted, there = " desired_state_of_world", " actual_state_of_world"
	counted("mounted in part", "configmap"+wanted, "empty-dir"+there, "empty-dir"+wanted, "host-path"+there, "host-path"+there,
		"host-path"+wanted, "host-path"+wanted, "image"+there, "image"+wanted)
	if err := n.Unmount(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
	expect("unmounting", "configmap volume_unmount", "empty-dir volume_unmount")
	counted("unmounted")
}

func unuse(p *v1.Pod, volume string) {
	c := &p.Spec.Containers[0]
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume })
}

// A device is mapped, and an unmount that fails is told with how long it took.
func TestOperationsOfDevicesAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTest(t)
		n.api.bind(local(filepath.Join(t.TempDir(), "no device")), func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.VolumeMode = ptr(v1.PersistentVolumeBlock)
			c.Spec.VolumeMode = pv.Spec.VolumeMode
		})
		type operation struct {
			name string
			took time.Duration
			fail bool
		}
		var told []operation
		n.c.Operated = func(plugin, name string, took time.Duration, err error) {
			told = append(told, operation{plugin + " " + name, took, err != nil})
		}
		release := make(chan struct{})
		n.c.Host = clinging{n.c.Host, "stuck", release}
		p := pod("u1", claim("d", "c", false))
		unuse(p, "d")
		p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "d", DevicePath: "/dev/d"}}
		if err := n.Mount(t.Context(), p); err == nil {
			t.Fatal("a device that is not there")
		}
		n.mount(t, pod("u2", vol("stuck", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Unmount(ctx, "u2"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		close(release)
		synctest.Wait()
		want := []operation{
			{"kubernetes.io/local-volume map_volume", 0, true},
			{"kubernetes.io/empty-dir volume_mount", 0, false},
			{"kubernetes.io/empty-dir volume_unmount", 2 * time.Second, false},
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %+v, want %+v", told, want)
		}
	})
}
