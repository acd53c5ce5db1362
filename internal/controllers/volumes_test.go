package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/ephemeralvolumes"
	"podo.dev/podo/internal/controllers/localvolumes"
	"podo.dev/podo/internal/controllers/pvcprotection"
	"podo.dev/podo/internal/controllers/pvprotection"
	"podo.dev/podo/internal/controllers/vacprotection"
	"podo.dev/podo/internal/controllers/volumebinder"
	"podo.dev/podo/internal/localclass"
	"podo.dev/podo/internal/scheduler"
)

// storage is a world with everything about volumes in it. removed are the folders that nodes have deleted; refuse is why they do not.
type storage struct {
	*world
	told *record.FakeRecorder

	mu      sync.Mutex
	removed []string
	refuse  error
}

func (s *storage) nodesSay(refuse error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

func (s *storage) deleted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.removed)
}

func newStorage(t *testing.T) *storage {
	s := &storage{world: newWorld(t), told: record.NewFakeRecorder(1000)}
	s.everyNamespace()
	s.run(volumebinder.New(volumebinder.Config{View: s.view, Client: s.controllers, Events: s.told, Remove: func(string) error { return nil }}))
	s.run(pvcprotection.New(s.view, s.controllers, nil))
	s.run(pvprotection.New(s.view, s.controllers, nil))
	s.run(vacprotection.New(s.view, s.controllers, nil))
	s.run(ephemeralvolumes.New(ephemeralvolumes.Config{View: s.view, Client: s.controllers, Events: s.told}))
	return s
}

// withNodes adds the class of local volumes, a scheduler and nodes.
func (s *storage) withNodes(names ...string) {
	s.run(localvolumes.New(localvolumes.Config{View: s.view, Client: s.controllers, Events: s.told, Remove: func(_ context.Context, n *v1.Node, volume string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refuse != nil {
			return s.refuse
		}
		s.removed = append(s.removed, n.Name+"/"+volume)
		return nil
	}}))
	for _, name := range names {
		s.must(s.admin.Create(context.Background(), client.Nodes.At("", ""), &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1.LabelHostname: name}, Annotations: map[string]string{localclass.Folders: "/data/volumes"},
		}}))
		s.must(s.admin.Mutate(context.Background(), client.Nodes.At("", name).Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourcePods: resource.MustParse("10")}
			return true, nil
		}))
		// Whoever keeps taints up to date is not here.
		s.must(s.admin.Mutate(context.Background(), client.Nodes.At("", name), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Spec.Taints = nil
			return true, nil
		}))
	}
	s.run(scheduler.New(scheduler.Config{View: s.view, Client: local.Scheduler(s.verbs)}))
	time.Sleep(time.Second)
}

func (s *storage) claim(name, size string, edit func(*v1.PersistentVolumeClaim)) {
	s.t.Helper()
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	if edit != nil {
		edit(c)
	}
	s.must(s.admin.Create(context.Background(), client.Claims.At("default", ""), c))
	time.Sleep(time.Second)
}

func (s *storage) volume(name, size string, edit func(*v1.PersistentVolume)) {
	s.t.Helper()
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	if edit != nil {
		edit(pv)
	}
	s.must(s.admin.Create(context.Background(), client.Volumes.At("", ""), pv))
	time.Sleep(time.Second)
}

// claimIs and volumeIs are an object in a line: its phase, and the other one.
func (s *storage) claimIs(name string) string {
	o := s.get(client.Claims.At("default", name))
	if o == nil {
		return "gone"
	}
	c := o.(*v1.PersistentVolumeClaim)
	return strings.TrimSpace(fmt.Sprintf("%s %s", c.Status.Phase, c.Spec.VolumeName))
}

func (s *storage) volumeIs(name string) string {
	o := s.get(client.Volumes.At("", name))
	if o == nil {
		return "gone"
	}
	pv := o.(*v1.PersistentVolume)
	out := string(pv.Status.Phase)
	if r := pv.Spec.ClaimRef; r != nil {
		out += " " + r.Name
	}
	return out
}

func (s *storage) is(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func (s *storage) podWith(name, claim string) {
	s.t.Helper()
	p := pod(name, "")
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	s.must(s.admin.Create(context.Background(), client.Pods.At("default", ""), p))
	time.Sleep(2 * time.Second)
}

func (s *storage) nodeOf(pod string) string {
	return s.get(client.Pods.At("default", pod)).(*v1.Pod).Spec.NodeName
}

func (s *storage) removePod(name string) {
	s.t.Helper()
	zero := int64(0)
	if err := s.admin.Delete(context.Background(), client.Pods.At("default", name), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(time.Second)
}

// heard tells whether an event of that beginning was sent, of those since the last look.
func (s *storage) heard(beginning string) bool {
	found := false
	for len(s.told.Events) > 0 {
		found = strings.HasPrefix(<-s.told.Events, beginning) || found
	}
	return found
}

func none(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }

// A claim gets a volume that was there before it or comes after it, keeps it while a pod may have it mounted, and leaves it as its policy
// says.
func TestClaimsAndVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		s.volume("big", "5Gi", nil)
		s.is("big", s.volumeIs("big"), "Available")
		s.claim("a", "1Gi", none)
		s.is("a", s.claimIs("a"), "Bound big")
		s.is("big", s.volumeIs("big"), "Bound a")
		c := s.get(client.Claims.At("default", "a")).(*v1.PersistentVolumeClaim)
		if size := c.Status.Capacity[v1.ResourceStorage]; size.String() != "5Gi" || c.Annotations["pv.kubernetes.io/bind-completed"] != "yes" ||
			c.Annotations["pv.kubernetes.io/bound-by-controller"] != "yes" || !slices.Contains(c.Finalizers, pvcprotection.Finalizer) {
			t.Errorf("%+v %+v", c.ObjectMeta, c.Status)
		}
		if u := c.Status.Conditions; len(u) != 1 || u[0].Type != v1.PersistentVolumeClaimUnused || u[0].Reason != "NoPodsUsingPVC" {
			t.Errorf("%v", u)
		}
		s.claim("b", "1Gi", none)
		if !s.heard("Normal FailedBinding no persistent volumes available for this claim and no storage class is set") {
			t.Error("b was not told")
		}
		s.volume("late", "1Gi", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "b"} })
		s.is("b", s.claimIs("b"), "Bound late")
		// In use: neither goes. A volume is kept by its claim, a claim by a pod with a node.
		p := pod("p", "node-a")
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}}}
		s.must(s.admin.Create(context.Background(), client.Pods.At("default", ""), p))
		s.delete(client.Volumes.At("", "big"))
		s.delete(client.Claims.At("default", "a"))
		time.Sleep(time.Minute)
		s.is("a", s.claimIs("a"), "Bound big")
		s.is("big", s.volumeIs("big"), "Bound a")
		s.removePod("p")
		s.is("a", s.claimIs("a"), "gone")
		s.is("big", s.volumeIs("big"), "gone")
		// Kept: released, and for nobody else.
		s.delete(client.Claims.At("default", "b"))
		time.Sleep(time.Second)
		s.is("late", s.volumeIs("late"), "Released b")
		if all, free, bound := s.metric("pv_collector_total_pv_count", "kubernetes.io/host-path", "Filesystem"), s.metric("pv_collector_unbound_pv_count", ""), s.metric("pv_collector_bound_pv_count", ""); all != 1 || free != 1 || bound != 0 {
			t.Errorf("%v volumes, %v of them free, %v bound, by the metrics", all, free, bound)
		}
		s.claim("c", "1Gi", none)
		s.is("c", s.claimIs("c"), "Pending")
		if n := s.metric("pv_collector_unbound_pvc_count", "default", "", ""); n != 1 {
			t.Errorf("%v claims wait, by the metric", n)
		}
		// A claim whose volume is taken from it is lost.
		s.volume("other", "1Gi", nil)
		s.is("c", s.claimIs("c"), "Bound other")
		if volumes, claims := s.metric("pv_collector_bound_pv_count", ""), s.metric("pv_collector_bound_pvc_count", "default", "", ""); volumes != 1 || claims != 1 {
			t.Errorf("%v volumes and %v claims are bound, by the metrics", volumes, claims)
		}
		s.must(s.admin.Mutate(context.Background(), client.Volumes.At("", "other"), func(o runtime.Object) (bool, error) {
			o.(*v1.PersistentVolume).Finalizers = nil
			return true, nil
		}))
		s.heard("")
	})
}

// A class of volumes' attributes that is deleted stays while a claim or a volume names it.
func TestAClassOfAttributesInUseStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		attributes := client.Resource{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}
		s.must(s.admin.Create(context.Background(), attributes.At("", ""), &storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "example.com", Parameters: map[string]string{"iops": "9"},
		}))
		s.claim("a", "1Gi", func(c *v1.PersistentVolumeClaim) { none(c); c.Spec.VolumeAttributesClassName = new("gold") })
		s.volume("v", "1Gi", func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "other"}
			pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "v"}}
			pv.Spec.VolumeAttributesClassName = new("gold")
		})
		s.delete(attributes.At("", "gold"))
		there := func() bool { time.Sleep(time.Second); return s.get(attributes.At("", "gold")) != nil }
		if !there() {
			t.Error("it went while a claim and a volume name it")
		}
		s.delete(client.Claims.At("default", "a"))
		if !there() {
			t.Error("it went while a volume names it")
		}
		s.delete(client.Volumes.At("", "v"))
		if there() {
			t.Error("it is still there, and nothing names it")
		}
	})
}

// A class that becomes the default later is given to the claims that wait without one.
func TestDefaultClassComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		s.claim("a", "1Gi", nil)
		s.claim("b", "1Gi", none)
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/x"}
		s.must(s.admin.Create(context.Background(), client.StorageClasses.At("", ""), class))
		time.Sleep(time.Second)
		s.must(s.admin.Mutate(context.Background(), client.StorageClasses.At("", "slow"), func(o runtime.Object) (bool, error) {
			o.(*storagev1.StorageClass).Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
			return true, nil
		}))
		time.Sleep(time.Second)
		a := s.get(client.Claims.At("default", "a")).(*v1.PersistentVolumeClaim)
		if a.Spec.StorageClassName == nil || *a.Spec.StorageClassName != "slow" || a.Annotations["volume.kubernetes.io/storage-provisioner"] != "example.com/x" {
			t.Errorf("%v %v", a.Spec.StorageClassName, a.Annotations)
		}
		if b := s.get(client.Claims.At("default", "b")).(*v1.PersistentVolumeClaim); *b.Spec.StorageClassName != "" {
			t.Error("b said that it wants none")
		}
		if !s.heard("Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'example.com/x'") {
			t.Error("nobody was told whom the claim waits for")
		}
		if tries, failed := s.metric("retroactive_storageclass_total"), s.metric("retroactive_storageclass_errors_total"); tries != 1 || failed != 0 {
			t.Errorf("%v claims got their class late, %v did not, by the metrics", tries, failed)
		}
	})
}

// How long others took to make a volume and to delete it is told, and how often it failed.
func TestVolumeOperationsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		s.must(s.admin.Create(context.Background(), client.StorageClasses.At("", ""), &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/x", ReclaimPolicy: new(v1.PersistentVolumeReclaimDelete),
		}))
		told := func(what, by string) [2]float64 {
			return [2]float64{s.metric("volume_operation_total_seconds", what, by), s.metric("volume_operation_errors_total", what, by)}
		}
		is := func(what, by string, done, failed float64) {
			t.Helper()
			if got := told(what, by); got != [2]float64{done, failed} {
				t.Errorf("%s by %s: %v done and failed, want %v, %v", what, by, got, done, failed)
			}
		}
		slow := func(name string) func(*v1.PersistentVolume) {
			return func(pv *v1.PersistentVolume) {
				pv.Spec.StorageClassName, pv.Spec.ClaimRef = "slow", &v1.ObjectReference{Namespace: "default", Name: name}
				pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: name}}
				pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
			}
		}
		s.claim("a", "1Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") })
		is("provision", "example.com/x", 0, 0)
		s.volume("va", "1Gi", slow("a"))
		s.is("a", s.claimIs("a"), "Bound va")
		is("provision", "example.com/x", 1, 0)
		s.delete(client.Claims.At("default", "a"))
		time.Sleep(time.Second)
		is("delete", "example.com/x", 0, 0)
		s.delete(client.Volumes.At("", "va")) // as its provisioner does
		time.Sleep(time.Second)
		is("delete", "example.com/x", 1, 0)
		// A directory that nobody may remove.
		s.volume("kept", "1Gi", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		})
		s.claim("b", "1Gi", none)
		s.is("b", s.claimIs("b"), "Bound kept")
		s.delete(client.Claims.At("default", "b"))
		time.Sleep(time.Second)
		if got := told("delete", "kubernetes.io/host-path"); got[0] != 0 || got[1] < 1 || got[1] > 3 {
			t.Errorf("%v done and failed", got)
		}
	})
}

// The default class: a claim waits for its pod, gets a folder on the pod's node, binds the next pod to that node, and takes the folder with
// it, once nobody uses it.
func TestLocalVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		s.withNodes("node-a", "node-b", "node-c")
		s.claim("data", "1Gi", nil)
		s.is("data", s.claimIs("data"), "Pending")
		if !s.heard("Normal WaitForFirstConsumer waiting for first consumer to be created before binding") {
			t.Error("the claim was not told")
		}
		s.podWith("one", "data")
		node := s.nodeOf("one")
		c := s.get(client.Claims.At("default", "data")).(*v1.PersistentVolumeClaim)
		name := "pvc-" + string(c.UID)
		s.is("data", s.claimIs("data"), "Bound "+name)
		s.is("its volume", s.volumeIs(name), "Bound data")
		pv := s.get(client.Volumes.At("", name)).(*v1.PersistentVolume)
		if node == "" || pv.Spec.Local.Path != "/data/volumes/"+name || pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != node {
			t.Errorf("%s: %+v", node, pv.Spec)
		}
		for i := range 3 {
			s.removePod([]string{"one", "again-0", "again-1"}[i])
			s.podWith(fmt.Sprint("again-", i), "data")
			s.is("the next pod's node", s.nodeOf(fmt.Sprint("again-", i)), node)
		}
		s.delete(client.Claims.At("default", "data"))
		time.Sleep(time.Minute)
		s.is("data while it is used", s.claimIs("data"), "Bound "+name)
		s.nodesSay(fmt.Errorf("still mounted"))
		s.removePod("again-2")
		s.is("data", s.claimIs("data"), "gone")
		s.is("its volume while the folder is there", s.volumeIs(name), "Released data")
		if !s.heard("Warning VolumeFailedDelete still mounted") {
			t.Error("nobody was told why the volume stays")
		}
		s.nodesSay(nil)
		time.Sleep(time.Minute)
		s.is("its volume", s.volumeIs(name), "gone")
		if want := []string{node + "/" + name}; !slices.Equal(s.deleted(), want) {
			t.Errorf("removed %v, want %v", s.deleted(), want)
		}
	})
}

// What a folder cannot be is said, and the pod waits without a storm.
func TestLocalVolumesThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		s.withNodes("node-a")
		s.claim("shared", "1Gi", func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		})
		s.podWith("p", "shared")
		if !s.heard(`Warning ProvisioningFailed failed to provision volume with StorageClass "local": its volumes are on one node: only ReadWriteOnce and ReadWriteOncePod are supported`) {
			t.Error("nobody was told")
		}
		time.Sleep(10 * time.Minute)
		tries := 0
		for len(s.told.Events) > 0 {
			if strings.HasPrefix(<-s.told.Events, "Warning ProvisioningFailed") {
				tries++
			}
		}
		if tries == 0 || tries > 100 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		s.is("shared", s.claimIs("shared"), "Pending")
	})
}

// An ephemeral volume's claim is made for its pod, and only for it.
func TestEphemeralVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		s.withNodes("node-a")
		s.claim("taken-scratch", "1Gi", none)
		make := func(name string) {
			p := pod(name, "")
			p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
				VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
					Spec: v1.PersistentVolumeClaimSpec{
						AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
						Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				},
			}}}}
			s.must(s.admin.Create(context.Background(), client.Pods.At("default", ""), p))
			time.Sleep(5 * time.Second)
		}
		make("p")
		c := s.get(client.Claims.At("default", "p-scratch")).(*v1.PersistentVolumeClaim)
		p := s.get(client.Pods.At("default", "p")).(*v1.Pod)
		if len(c.OwnerReferences) != 1 || c.OwnerReferences[0].UID != p.UID || c.Labels["a"] != "b" || c.Status.Phase != v1.ClaimBound || p.Spec.NodeName != "node-a" {
			t.Errorf("%+v %s %s", c.ObjectMeta, c.Status.Phase, p.Spec.NodeName)
		}
		make("taken")
		if !s.heard("Warning FailedBinding ephemeral volume scratch: PVC default/taken-scratch was not created for pod default/taken") {
			t.Error("nobody was told")
		}
		s.is("the other pod's node", s.nodeOf("taken"), "")
		if tried, failed := s.metric("ephemeral_volume_controller_create_total"), s.metric("ephemeral_volume_controller_create_failures_total"); tried != 1 || failed != 0 {
			t.Errorf("%v claims were to be made, %v could not, by the metrics", tried, failed)
		}
	})
}

// Pods that want the same volumes at once get one each, and the one too many waits for the next.
func TestVolumesAreTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t)
		s.withNodes("node-a", "node-b")
		wait := storagev1.VolumeBindingWaitForFirstConsumer
		s.must(s.admin.Create(context.Background(), client.StorageClasses.At("", ""), &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "disks"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait,
		}))
		disk := func(i int) {
			node := []string{"node-a", "node-b"}[i%2]
			s.volume(fmt.Sprint("disk-", i), "1Gi", func(pv *v1.PersistentVolume) {
				pv.Spec.StorageClassName = "disks"
				pv.Spec.HostPath, pv.Spec.Local = nil, &v1.LocalVolumeSource{Path: "/disk"}
				pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
				}}}}
			})
		}
		for i := range 3 {
			disk(i)
		}
		for i := range 4 {
			s.claim(fmt.Sprint("c-", i), "1Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("disks") })
			p := pod(fmt.Sprint("p-", i), "")
			p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c-", i)}}}}
			s.must(s.admin.Create(context.Background(), client.Pods.At("default", ""), p))
		}
		time.Sleep(5 * time.Second)
		used, waiting := map[string]bool{}, ""
		for i := range 4 {
			p := s.get(client.Pods.At("default", fmt.Sprint("p-", i))).(*v1.Pod)
			c := s.get(client.Claims.At("default", fmt.Sprint("c-", i))).(*v1.PersistentVolumeClaim)
			if p.Spec.NodeName == "" {
				waiting = p.Name
				const want = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
				if m := p.Status.Conditions[0].Message; m != want {
					t.Errorf("%q", m)
				}
				continue
			}
			if used[c.Spec.VolumeName] {
				t.Errorf("%s is taken twice", c.Spec.VolumeName)
			}
			used[c.Spec.VolumeName] = true
		}
		if len(used) != 3 || waiting == "" {
			t.Fatalf("%v, %q waits", used, waiting)
		}
		disk(3)
		time.Sleep(5 * time.Second)
		s.is("the pod that waited", s.nodeOf(waiting), "node-b")
	})
}
