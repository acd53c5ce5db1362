package volumebinder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"
)

// toy is a World in maps, which does what plans say.
type toy struct {
	volumes map[string]*v1.PersistentVolume
	claims  map[string]*v1.PersistentVolumeClaim
	classes map[string]*storagev1.StorageClass
	waiting []string
}

func newToy() *toy {
	return &toy{volumes: map[string]*v1.PersistentVolume{}, claims: map[string]*v1.PersistentVolumeClaim{}, classes: map[string]*storagev1.StorageClass{}}
}

func (w *toy) Volume(name string) *v1.PersistentVolume        { return w.volumes[name] }
func (w *toy) Claim(_, name string) *v1.PersistentVolumeClaim { return w.claims[name] }
func (w *toy) Class(name string) *storagev1.StorageClass      { return w.classes[name] }
func (w *toy) DefaultClass() *storagev1.StorageClass          { return w.classes["default"] }
func (w *toy) Waiting(*v1.PersistentVolumeClaim) []string     { return w.waiting }
func (w *toy) Volumes() (out []*v1.PersistentVolume) {
	for _, name := range sorted(w.volumes) {
		out = append(out, w.volumes[name])
	}
	return out
}

func sorted[V any](m map[string]V) (out []string) {
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// claim and volume do what the plans say; steps bounds how many writes, as a crash does.
func (w *toy) claim(name string, steps int) (changed bool) {
	c := w.claims[name]
	p := ForClaim(c, w)
	step := func(did bool) bool { steps--; changed = changed || did; return steps > 0 }
	if pv := p.Bind; pv != nil {
		did, err := bindVolume(pv, c)
		if err != nil || !step(did) || !step(phased(pv, v1.VolumeBound, "")) {
			return changed
		}
		if did, err = bindClaim(c, pv); err != nil || !step(did) {
			return changed
		}
		step(report(c, v1.ClaimBound, pv))
		return changed
	}
	if p.Class != "" {
		c.Spec.StorageClassName = &p.Class
		return true
	}
	if p.Provisioner != "" {
		changed = provisionedBy(c, p.Provisioner)
	}
	if p.Phase != "" {
		changed = report(c, p.Phase, nil) || changed
	}
	return changed
}

func (w *toy) volume(name string) (changed bool) {
	pv := w.volumes[name]
	p := ForVolume(pv, w)
	if p.Unbind {
		changed = unbind(pv)
		p.Phase = v1.VolumeAvailable
	}
	if p.Phase != "" {
		changed = phased(pv, p.Phase, "") || changed
	}
	return changed
}

func (w *toy) settle(t *rapid.T) {
	for range 50 {
		changed := false
		for _, name := range sorted(w.claims) {
			changed = w.claim(name, 99) || changed
		}
		for _, name := range sorted(w.volumes) {
			changed = w.volume(name) || changed
		}
		if !changed {
			return
		}
	}
	t.Fatal("it never comes to rest")
}

func volume(name, size string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}, AccessModes: modes,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func claim(name, size string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolumeClaim {
	class := ""
	return &v1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}

// Whatever is made, deleted and half done in whatever order: no volume is bound to two claims, a bound claim has a volume that is large
// enough and says that it is its, no claim waits while a volume for it is free, and a second look changes nothing.
func TestBindings(t *testing.T) {
	sizes := []string{"1Gi", "2Gi", "3Gi"}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany}
	rapid.Check(t, func(t *rapid.T) {
		w := newToy()
		made := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				made++
				pv := volume(fmt.Sprint("v", made), rapid.SampledFrom(sizes).Draw(t, "size"), modes[:rapid.IntRange(1, 2).Draw(t, "modes")]...)
				if rapid.IntRange(0, 3).Draw(t, "kept") == 0 {
					pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: fmt.Sprint("c", rapid.IntRange(1, made+1).Draw(t, "for"))}
				}
				w.volumes[pv.Name] = pv
			case 1, 2:
				made++
				c := claim(fmt.Sprint("c", made), rapid.SampledFrom(sizes).Draw(t, "size"), modes[rapid.IntRange(0, 1).Draw(t, "mode")])
				if len(w.volumes) > 0 && rapid.IntRange(0, 3).Draw(t, "chosen") == 0 {
					c.Spec.VolumeName = rapid.SampledFrom(sorted(w.volumes)).Draw(t, "volume")
				}
				w.claims[c.Name] = c
			case 3:
				if len(w.claims) > 0 {
					w.claim(rapid.SampledFrom(sorted(w.claims)).Draw(t, "claim"), rapid.IntRange(1, 4).Draw(t, "crash after"))
				}
			case 4:
				if len(w.volumes) > 0 {
					w.volume(rapid.SampledFrom(sorted(w.volumes)).Draw(t, "volume"))
				}
			case 5:
				if len(w.claims) > 0 {
					delete(w.claims, rapid.SampledFrom(sorted(w.claims)).Draw(t, "gone"))
				}
			case 6:
				w.settle(t)
			}
			bound := map[string]string{}
			for _, name := range sorted(w.claims) {
				c := w.claims[name]
				if !metav1.HasAnnotation(c.ObjectMeta, storagehelpers.AnnBindCompleted) {
					continue
				}
				if other := bound[c.Spec.VolumeName]; other != "" {
					t.Fatalf("%s is bound to %s and to %s", c.Spec.VolumeName, other, name)
				}
				bound[c.Spec.VolumeName] = name
			}
		}
		w.settle(t)
		for _, name := range sorted(w.claims) {
			c := w.claims[name]
			if c.Status.Phase == v1.ClaimBound {
				pv := w.volumes[c.Spec.VolumeName]
				if pv.Spec.ClaimRef.UID != c.UID || pv.Status.Phase != v1.VolumeBound {
					t.Fatalf("%s is bound to %s, which says %v, %s", name, pv.Name, pv.Spec.ClaimRef, pv.Status.Phase)
				}
				continue
			}
			for _, pv := range w.Volumes() {
				if c.Spec.VolumeName == "" && pv.Spec.ClaimRef == nil && suits(pv, c) == nil {
					t.Fatalf("%s waits, and %s is free", name, pv.Name)
				}
			}
		}
	})
}

func TestMatch(t *testing.T) {
	const rwo, rwx = v1.ReadWriteOnce, v1.ReadWriteMany
	kept := volume("kept", "9Gi", rwo)
	kept.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "c"}
	others := volume("others", "1Gi", rwo)
	others.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "d"}
	going := volume("going", "1Gi", rwo)
	going.DeletionTimestamp = &metav1.Time{}
	labelled := volume("labelled", "5Gi", rwo)
	labelled.Labels = map[string]string{"a": "b"}
	selecting := claim("c", "1Gi", rwo)
	selecting.Spec.Selector = &metav1.LabelSelector{MatchLabels: labelled.Labels}
	for _, tc := range []struct {
		name    string
		c       *v1.PersistentVolumeClaim
		volumes []*v1.PersistentVolume
		delayed bool
		want    string
	}{
		{"the smallest that is large enough", claim("c", "2Gi", rwo), []*v1.PersistentVolume{volume("a", "1Gi", rwo), volume("b", "5Gi", rwo), volume("x", "3Gi", rwo)}, false, "x"},
		{"fewer modes rather than smaller", claim("c", "1Gi", rwo), []*v1.PersistentVolume{volume("a", "1Gi", rwo, rwx), volume("b", "5Gi", rwo)}, false, "b"},
		{"all its modes", claim("c", "1Gi", rwo, rwx), []*v1.PersistentVolume{volume("a", "1Gi", rwo), volume("b", "5Gi", rwx, rwo)}, false, "b"},
		{"kept for it rather than smaller", claim("c", "1Gi", rwo), []*v1.PersistentVolume{volume("a", "1Gi", rwo), kept}, false, "kept"},
		{"kept for another", claim("c", "1Gi", rwo), []*v1.PersistentVolume{others, going}, false, ""},
		{"by labels", selecting, []*v1.PersistentVolume{volume("a", "1Gi", rwo), labelled}, false, "labelled"},
		{"nothing before its pod has a node", claim("c", "1Gi", rwo), []*v1.PersistentVolume{volume("a", "1Gi", rwo)}, true, ""},
		{"but what is kept for it", claim("c", "1Gi", rwo), []*v1.PersistentVolume{volume("a", "1Gi", rwo), kept}, true, "kept"},
	} {
		pv, err := Match(tc.c, tc.volumes, tc.delayed)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if pv != nil {
			got = pv.Name
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// What users are told, word for word.
func TestTold(t *testing.T) {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	for _, tc := range []struct {
		name string
		edit func(*v1.PersistentVolumeClaim, *toy)
		want string
	}{
		{"nothing", func(*v1.PersistentVolumeClaim, *toy) {}, "Normal FailedBinding no persistent volumes available for this claim and no storage class is set"},
		{
			"no such class", func(c *v1.PersistentVolumeClaim, _ *toy) { *c.Spec.StorageClassName = "fast" },
			`Warning ProvisioningFailed storageclass.storage.k8s.io "fast" not found`,
		},
		{"by hand only", func(c *v1.PersistentVolumeClaim, w *toy) {
			*c.Spec.StorageClassName = "fast"
			w.classes["fast"] = &storagev1.StorageClass{Provisioner: "kubernetes.io/no-provisioner"}
		}, "Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner"},
		{"nobody uses it", func(c *v1.PersistentVolumeClaim, w *toy) {
			*c.Spec.StorageClassName = "fast"
			w.classes["fast"] = &storagev1.StorageClass{Provisioner: "example.com/x", VolumeBindingMode: &wait}
		}, "Normal WaitForFirstConsumer waiting for first consumer to be created before binding"},
		{"pods wait", func(c *v1.PersistentVolumeClaim, w *toy) {
			*c.Spec.StorageClassName = "fast"
			w.waiting = []string{"a", "b"}
			w.classes["fast"] = &storagev1.StorageClass{Provisioner: "example.com/x", VolumeBindingMode: &wait}
		}, "Normal WaitForPodScheduled waiting for pods a,b to be scheduled"},
		{"a driver that took over", func(c *v1.PersistentVolumeClaim, w *toy) {
			*c.Spec.StorageClassName = "fast"
			w.classes["fast"] = &storagev1.StorageClass{Provisioner: "kubernetes.io/aws-ebs"}
		}, "Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'ebs.csi.aws.com' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."},
		{"too small", func(c *v1.PersistentVolumeClaim, w *toy) {
			c.Spec.VolumeName = "v"
			w.volumes["v"] = volume("v", "1Mi", v1.ReadWriteOnce)
		}, `Warning VolumeMismatch Cannot bind to requested volume "v": requested PV is too small`},
		{"another's", func(c *v1.PersistentVolumeClaim, w *toy) {
			c.Spec.VolumeName = "v"
			w.volumes["v"] = volume("v", "1Gi", v1.ReadWriteOnce)
			w.volumes["v"].Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "other"}
		}, `Warning FailedBinding volume "v" already bound to a different claim.`},
		{"lost", func(c *v1.PersistentVolumeClaim, _ *toy) {
			c.Spec.VolumeName, c.Annotations = "v", map[string]string{storagehelpers.AnnBindCompleted: "yes"}
		}, "Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!"},
	} {
		w, c := newToy(), claim("c", "1Gi", v1.ReadWriteOnce)
		tc.edit(c, w)
		e := ForClaim(c, w).Event
		if got := strings.Join([]string{e.Type, e.Reason, e.Message}, " "); got != tc.want {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}

func TestReclaim(t *testing.T) {
	for _, tc := range []struct {
		name   string
		edit   func(*v1.PersistentVolume)
		remove string
		failed string
	}{
		{"kept", func(*v1.PersistentVolume) {}, "", ""},
		{"recycled", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
		}, "", "No recycler plugin found for the volume!"},
		{"a local one", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.Local = v1.PersistentVolumeReclaimDelete, &v1.LocalVolumeSource{Path: "/a"}
		}, "", `error getting deleter volume plugin for volume "v": no deletable volume plugin matched`},
		{"of the host", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.HostPath = v1.PersistentVolumeReclaimDelete, &v1.HostPathVolumeSource{Path: "/a"}
		}, "", "host_path deleter only supports /tmp/.+ but received provided /a"},
		{"of the host, temporary", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.HostPath = v1.PersistentVolumeReclaimDelete, &v1.HostPathVolumeSource{Path: "/tmp/a"}
		}, "/tmp/a", ""},
		{"a provisioner's", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.HostPath = v1.PersistentVolumeReclaimDelete, &v1.HostPathVolumeSource{Path: "/tmp/a"}
			pv.Annotations = map[string]string{storagehelpers.AnnDynamicallyProvisioned: "example.com/x"}
		}, "", ""},
	} {
		pv := volume("v", "1Gi", v1.ReadWriteOnce)
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "c", UID: "u"}
		tc.edit(pv)
		p := ForVolume(pv, newToy())
		failed := ""
		if p.Reclaim.Failed != nil {
			failed = p.Reclaim.Failed.Message
		}
		if p.Phase != v1.VolumeReleased || p.Reclaim.Remove != tc.remove || failed != tc.failed {
			t.Errorf("%s: %s, %q, %q", tc.name, p.Phase, p.Reclaim.Remove, failed)
		}
	}
}
