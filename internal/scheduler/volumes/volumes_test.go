package volumes

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/view/viewtest"
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}
}

func cluster(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(name)}
}

func claim(name, class string, edit func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: meta(name), Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class,
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}}
	if edit != nil {
		edit(c)
	}
	return c
}

// bound makes a claim bound to a volume.
func bound(volume string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = volume, v1.ClaimBound
		c.Annotations = map[string]string{storagehelpers.AnnBindCompleted: "yes"}
	}
}

func volume(name, class string, edit func(*v1.PersistentVolume)) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: cluster(name), Spec: v1.PersistentVolumeSpec{
		Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		StorageClassName: class, PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/a"}},
	}, Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable}}
	if edit != nil {
		edit(pv)
	}
	return pv
}

func on(node string) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
}

func csi(handle string) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: handle}}
	}
}

func class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: cluster(name), Provisioner: provisioner, VolumeBindingMode: &mode}
}

func pod(name string, claims ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: meta(name), Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	for i, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: c},
		}})
	}
	return p
}

func at(p *v1.Pod, node string) *v1.Pod {
	p.Spec.NodeName = node
	return p
}

// world is nodes a and b in zones of these names, with what else there is.
type world struct {
	*framework.Cluster
	s *Storage
}

func newWorld(t *testing.T, objs ...runtime.Object) *world {
	w := &world{framework.NewCluster(), nil}
	for _, name := range []string{"a", "b"} {
		n := &v1.Node{ObjectMeta: cluster(name)}
		n.Labels = map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: name}
		w.SetNode(n)
	}
	for _, o := range objs {
		if p, ok := o.(*v1.Pod); ok && p.Spec.NodeName != "" {
			w.SetPod(p)
		}
	}
	v, _ := viewtest.New(t, objs...)
	w.s = New(v)
	return w
}

// judge is what all plug-ins say of a pod: of the whole cluster, or of each node.
func (w *world) judge(p *v1.Pod) string {
	var of []framework.Related
	for _, x := range w.s.Plugins(profile.Volumes{}) {
		r := x.Relate(w.Cluster, w.Shape(p))
		if r == nil {
			continue
		}
		if r, ok := r.(framework.Refusing); ok && r.Refused() != nil {
			return x.Name() + ": " + strings.Join(r.Refused().Reasons, "; ")
		}
		of = append(of, r)
	}
	var out []string
	for _, n := range w.Nodes {
		why := "yes"
		for _, r := range of {
			if rejection := r.Filter(n); rejection != nil {
				why = strings.Join(rejection.Reasons, "; ")
				for _, f := range r.Explain(n) {
					why += fmt.Sprintf(" %s=%v", f.Key, f.Value)
				}
				break
			}
		}
		out = append(out, n.Name+" "+why)
	}
	return strings.Join(out, ", ")
}

const (
	wait   = storagev1.VolumeBindingWaitForFirstConsumer
	atOnce = storagev1.VolumeBindingImmediate
)

func TestWhereAPodMayGo(t *testing.T) {
	disk := func(name string, readOnly bool) *v1.Pod {
		p := pod(name)
		p.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d", ReadOnly: readOnly}}}}
		return p
	}
	limit := func(n int32) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: cluster("a"), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "csi.example.com", NodeID: "a", Allocatable: &storagev1.VolumeNodeResources{Count: &n}},
		}}}
	}
	topology := class("zonal", "example.com/x", wait)
	topology.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: v1.LabelTopologyZone, Values: []string{"b"}}}}}
	room := resource.MustParse("10Gi")
	little := resource.MustParse("1Mi")
	capacity := func(name, zone string, size *resource.Quantity) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: meta(name), StorageClassName: "told", Capacity: size, NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone}}}
	}
	telling := &storagev1.CSIDriver{ObjectMeta: cluster("csi.example.com"), Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true), PreventPodSchedulingIfMissing: new(false)}}
	picky := &storagev1.CSIDriver{ObjectMeta: cluster("csi.example.com"), Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: new(true)}}
	alone := func(c *v1.PersistentVolumeClaim) {
		bound("v")(c)
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	zoned := func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{v1.LabelFailureDomainBetaZone: "b__c"} }
	for _, tc := range []struct {
		name string
		objs []runtime.Object
		pod  *v1.Pod
		want string
	}{
		{"no claims", nil, pod("p"), "a yes, b yes"},
		{"no such claim", nil, pod("p", "c"), `VolumeRestrictions: persistentvolumeclaim "c" not found`},
		{"nobody waits for it", []runtime.Object{claim("c", "now", nil), class("now", "example.com/x", atOnce)}, pod("p", "c"), "VolumeBinding: pod has unbound immediate PersistentVolumeClaims"},
		{"being deleted", []runtime.Object{claim("c", "", func(c *v1.PersistentVolumeClaim) {
			bound("v")(c)
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, []string{"example.com/x"}
		}), volume("v", "", nil)}, pod("p", "c"), `VolumeBinding: persistentvolumeclaim "c" is being deleted`},
		{
			"lost",
			[]runtime.Object{claim("c", "", func(c *v1.PersistentVolumeClaim) { bound("v")(c); c.Status.Phase = v1.ClaimLost })},
			pod("p", "c"),
			`VolumeBinding: persistentvolumeclaim "c" bound to non-existent persistentvolume "v"`,
		},
		{
			"where its volume is",
			[]runtime.Object{claim("c", "", bound("v")), volume("v", "", on("b"))},
			pod("p", "c"),
			"a node(s) didn't match PersistentVolume's node affinity claim=c volume=v, b yes",
		},
		{
			"where there is one to take",
			[]runtime.Object{claim("c", "disks", nil), class("disks", "kubernetes.io/no-provisioner", wait), volume("v", "disks", on("a"))},
			pod("p", "c"),
			"a yes, b node(s) didn't find available persistent volumes to bind claim=c class=disks asked=1Gi free=1 here=0",
		},
		{
			"two claims and one volume",
			[]runtime.Object{claim("c", "disks", nil), claim("d", "disks", nil), class("disks", "kubernetes.io/no-provisioner", wait), volume("v", "disks", on("a"))},
			pod("p", "c", "d"),
			"a node(s) didn't find available persistent volumes to bind claim=c class=disks asked=1Gi free=1 here=1, " +
				"b node(s) didn't find available persistent volumes to bind claim=c class=disks asked=1Gi free=1 here=0",
		},
		{
			"where one may be made",
			[]runtime.Object{claim("c", "zonal", nil), topology},
			pod("p", "c"),
			"a node(s) didn't find available persistent volumes to bind claim=c class=zonal asked=1Gi free=0 here=0, b yes",
		},
		{"where one is being made", []runtime.Object{claim("c", "made", func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{storagehelpers.AnnSelectedNode: "b"}
		}), class("made", "example.com/x", wait)}, pod("p", "c"), "a node(s) didn't find available persistent volumes to bind claim=c class=made asked=1Gi node=b, b yes"},
		{
			"where there is room",
			[]runtime.Object{claim("c", "told", nil), class("told", "csi.example.com", wait), telling, capacity("x", "a", &little), capacity("y", "b", &room)},
			pod("p", "c"),
			"a node(s) did not have enough free storage claim=c class=told asked=1Gi free=0 here=0, b yes",
		},
		{
			"in its volume's zone",
			[]runtime.Object{claim("c", "", bound("v")), volume("v", "", zoned)},
			pod("p", "c"),
			"a node(s) had no available volume zone volume=v failure-domain.beta.kubernetes.io/zone=b,c, b yes",
		},
		{"a disk that is taken", []runtime.Object{at(disk("q", true), "a")}, disk("p", false), "a node(s) had no available disk holder=default/q, b yes"},
		{"a disk that is shared", []runtime.Object{at(disk("q", true), "a")}, disk("p", true), "a yes, b yes"},
		{
			"a claim that is taken",
			[]runtime.Object{claim("c", "", alone), volume("v", "", nil), at(pod("q", "c"), "b")},
			pod("p", "c"),
			"a node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod holder=default/q, " +
				"b node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod holder=default/q",
		},
		{
			"a driver's limit",
			[]runtime.Object{limit(1), claim("c", "", bound("v")), volume("v", "", csi("v")), claim("d", "", bound("w")), volume("w", "", csi("w")), at(pod("q", "d"), "a")},
			pod("p", "c"),
			"a node(s) exceed max volume count driver=csi.example.com has=1 most=1, b yes",
		},
		{"the same volume counts once", []runtime.Object{limit(1), claim("c", "", bound("v")), volume("v", "", csi("v")), at(pod("q", "c"), "a")}, pod("p", "c"), "a yes, b yes"},
		{
			"a driver that is not there",
			[]runtime.Object{limit(5), picky, claim("c", "", bound("v")), volume("v", "", csi("v"))},
			pod("p", "c"),
			"a yes, b csi.example.com CSI driver is not installed on the node",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := newWorld(t, tc.objs...).judge(tc.pod); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// What one pod has been promised no other gets, and what is given back is free again.
func TestPromises(t *testing.T) {
	w := newWorld(t, claim("c", "disks", nil), claim("d", "disks", nil), class("disks", "kubernetes.io/no-provisioner", wait), volume("v", "disks", nil),
		claim("made", "made", nil), class("made", "example.com/x", wait))
	b := &Binding{w.s, profile.Volumes{}}
	first := b.Relate(w.Cluster, w.Shape(pod("p", "c"))).(*binding)
	r, err := first.Reserve(w.Nodes[0])
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	if got := w.judge(pod("q", "d")); !strings.Contains(got, "free=0") || strings.Contains(got, "yes") {
		t.Error(got)
	}
	if got := w.judge(pod("q", "c")); got != "a yes, b yes" { // the claim may have more pods
		t.Error(got)
	}
	r.End(false)
	if got := w.judge(pod("q", "d")); got != "a yes, b yes" {
		t.Error(got)
	}
	// A claim whose volume is to be made somewhere is not made elsewhere.
	r, err = b.Relate(w.Cluster, w.Shape(pod("p", "made"))).(*binding).Reserve(w.Nodes[1])
	if err != nil {
		t.Fatal(err)
	}
	if got := w.judge(pod("q", "made")); !strings.HasPrefix(got, "a node(s) didn't find") || !strings.HasSuffix(got, "b yes") {
		t.Error(got)
	}
	r.End(true)
}

// Of nodes that all will do, the one whose volume has most room left is preferred, as upstream's default has it.
func TestScore(t *testing.T) {
	large := func(pv *v1.PersistentVolume) {
		on("b")(pv)
		pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("4Gi")
	}
	w := newWorld(t, claim("c", "disks", nil), class("disks", "kubernetes.io/no-provisioner", wait), volume("v", "disks", on("a")), volume("w", "disks", large))
	var scores [2]int64
	if x := w.s.Plugins(profile.Volumes{})[2].Relate(w.Cluster, w.Shape(pod("p", "c"))); !x.Score(w.Nodes, scores[:]) || scores != [2]int64{0, 75} {
		t.Error(scores)
	}
}

func TestHints(t *testing.T) {
	p := pod("p", "c")
	for _, tc := range []struct {
		name string
		got  bool
		want bool
	}{
		{"the pod's claim", (&Binding{}).Helps(p, claims, nil, claim("c", "", nil)), true},
		{"another's claim", (&Binding{}).Helps(p, claims, nil, claim("d", "", nil)), false},
		{"a new class", (&Binding{}).Helps(p, classes, nil, class("x", "y", wait)), true},
		{"a class as before", (&Binding{}).Helps(p, classes, class("x", "y", wait), class("x", "y", wait)), false},
		{"a class that waits", (&Zone{}).Helps(p, classes, nil, class("x", "y", wait)), true},
		{"a class that does not", (&Zone{}).Helps(p, classes, nil, class("x", "y", atOnce)), false},
		{"a volume that was moved", (&Zone{}).Helps(p, volumes, volume("v", "", nil), volume("v", "", func(pv *v1.PersistentVolume) {
			pv.Labels = map[string]string{v1.LabelTopologyZone: "b"}
		})), true},
		{"a volume as before", (&Zone{}).Helps(p, volumes, volume("v", "", nil), volume("v", "", nil)), false},
		{"a claim that is there now", (&Restrictions{}).Helps(p, claims, nil, claim("c", "", nil)), true},
		{"a claim that was", (&Restrictions{}).Helps(p, claims, claim("c", "", nil), claim("c", "", nil)), false},
		{"a volume that is detached", (&Limits{}).Helps(p, attachments, &storagev1.VolumeAttachment{}, nil), true},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v", tc.name, tc.got)
		}
	}
}
