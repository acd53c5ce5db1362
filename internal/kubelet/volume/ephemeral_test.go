package volume

import (
	"context"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A volume that only an ephemeral container mounts comes with it: before, and when it cannot be had, nothing of it is written, and the
// others are as ever.
func TestVolumesOfAnEphemeralContainer(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v1"})
	n.api.setSecret("s", map[string][]byte{"k": []byte("secret")})
	p := pod("u1", configMap("c", "c"))
	p.Spec.Volumes = append(p.Spec.Volumes, vol("s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}))
	n.mount(t, p)
	q := p.DeepCopy()
	debug := v1.EphemeralContainer{}
	debug.Name, debug.VolumeMounts = "d", []v1.VolumeMount{{Name: "s", MountPath: "/s"}}
	q.Spec.EphemeralContainers = []v1.EphemeralContainer{debug}
	n.Replace(q)
	dir, _, _ := n.Path(q, "s")
	if err := os.MkdirAll(dir, 0o755); err != nil { // as a runtime does with what it is to mount
		t.Fatal(err)
	}
	untouched := func(when string) {
		t.Helper()
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v, %v", when, entries, err)
		}
	}
	n.Refresh(context.Background(), "u1")
	untouched("before the mount")

	n.host.Fail("mount", dir, os.ErrPermission)
	if err := n.Mount(context.Background(), q); err == nil {
		t.Fatal("mounted")
	}
	n.api.set("c", map[string]string{"k": "v2"})
	n.Refresh(context.Background(), "u1")
	if got := n.read(t, q, "c", "k"); got != "v2" {
		t.Errorf("another volume shows %q", got)
	}
	untouched("after a mount that failed")

	n.host.Fail("mount", dir, nil)
	n.mount(t, q)
	n.api.setSecret("s", map[string][]byte{"k": []byte("newer")})
	n.Refresh(context.Background(), "u1")
	table, _ := n.host.MountTable()
	if got := n.read(t, q, "s", "k"); got != "newer" || len(table) != 1 || table[0].Target != dir {
		t.Errorf("%q, mounts %v", got, table)
	}
}

// A pod that runs keeps its volumes when an ephemeral container comes, and that comes: whatever has become of their objects, which count again
// when they are back.
func TestEphemeralContainerBesideAVolumeWhoseObjectIsGone(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v1"})
	n.api.set("d", map[string]string{"k": "new"})
	p := pod("u1", configMap("c", "c"))
	p.Spec.Volumes = append(p.Spec.Volumes, configMap("d", "d"))
	n.mount(t, p)
	n.api.set("c", nil)
	q := p.DeepCopy()
	debug := v1.EphemeralContainer{}
	debug.Name, debug.VolumeMounts = "d", []v1.VolumeMount{{Name: "d", MountPath: "/d"}}
	q.Spec.EphemeralContainers = []v1.EphemeralContainer{debug}
	n.mount(t, q)
	if old, came := n.read(t, q, "c", "k"), n.read(t, q, "d", "k"); old != "v1" || came != "new" {
		t.Errorf("%q, %q", old, came)
	}
	n.api.set("c", map[string]string{"k": "v2"})
	n.Refresh(context.Background(), "u1")
	if got := n.read(t, q, "c", "k"); got != "v2" {
		t.Errorf("it shows %q", got)
	}
}
