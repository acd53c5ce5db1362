package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/scheduler/volumes"
	"podo.dev/podo/internal/view"
)

// storageCase is a case of the plug-ins about volumes: all that there is, and a pod that looks for a node.
type storageCase struct {
	nodes   []*v1.Node
	pods    []*v1.Pod // placed ones
	objects []runtime.Object
	pod     *v1.Pod
}

// The names are few, so that things meet.
var (
	storageClasses = []string{"waits", "at-once", "local", "gone"}
	storageZones   = []string{"z1", "z2"}
	storageDrivers = []string{"csi.example.com", "other.example.com"}
)

func oneOf[T any](m *mutator, from []T) T { return from[m.IntN(len(from))] }

func (m *mutator) storageCase() storageCase {
	var s storageCase
	no := fmt.Sprint
	for i := range 1 + m.IntN(3) {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: no("n", i), Labels: map[string]string{v1.LabelHostname: no("n", i)}}}
		if m.IntN(4) > 0 {
			n.Labels[v1.LabelTopologyZone] = oneOf(m, storageZones)
		}
		s.nodes = append(s.nodes, n)
		if m.IntN(3) == 0 {
			continue
		}
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		for _, d := range storageDrivers {
			if m.IntN(3) > 0 {
				on := storagev1.CSINodeDriver{Name: d, NodeID: n.Name}
				if m.IntN(3) > 0 {
					on.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(m.IntN(3)))}
				}
				csi.Spec.Drivers = append(csi.Spec.Drivers, on)
			}
		}
		s.objects = append(s.objects, csi)
	}
	s.objects = append(s.objects, m.classes()...)
	for i := range 5 {
		s.objects = append(s.objects, m.volume(no("pv", i)))
	}
	for i := range 5 {
		s.objects = append(s.objects, m.claim(no("pvc", i)))
	}
	for i := range m.IntN(3) {
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: no("va", i)}}
		a.Spec.Attacher, a.Spec.NodeName = oneOf(m, storageDrivers), oneOf(m, s.nodes).Name
		a.Spec.Source.PersistentVolumeName = new(no("pv", m.IntN(6)))
		s.objects = append(s.objects, a)
	}
	for i := range m.IntN(4) {
		p := m.podWithVolumes(no("placed", i))
		p.Spec.NodeName = oneOf(m, s.nodes).Name
		s.pods = append(s.pods, p)
	}
	s.pod = m.podWithVolumes("new")
	return s
}

// classes are those of storageClasses but the last, with drivers and room.
func (m *mutator) classes() (out []runtime.Object) {
	for _, name := range storageClasses[:3] {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: oneOf(m, storageDrivers)}
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		switch name {
		case "at-once":
			mode = storagev1.VolumeBindingImmediate
		case "local":
			c.Provisioner = storagehelpers.NotSupportedProvisioner
		}
		c.VolumeBindingMode = &mode
		if m.IntN(3) == 0 {
			c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
				{Key: v1.LabelTopologyZone, Values: []string{oneOf(m, storageZones)}},
			}}}
		}
		out = append(out, c)
	}
	for _, d := range storageDrivers {
		if m.IntN(3) > 0 {
			driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d}}
			driver.Spec.StorageCapacity = new(m.IntN(2) == 0)
			out = append(out, driver)
		}
	}
	for i := range m.IntN(3) {
		room := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprint("room", i)}}
		room.StorageClassName = oneOf(m, storageClasses[:3])
		room.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: oneOf(m, storageZones)}}
		room.Capacity = new(resource.MustParse(oneOf(m, []string{"0", "1Gi", "5Gi"})))
		if m.IntN(3) == 0 {
			room.MaximumVolumeSize = new(resource.MustParse("1Gi"))
		}
		out = append(out, room)
	}
	return out
}

func (m *mutator) volume(name string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	pv.Spec.StorageClassName = oneOf(m, storageClasses)
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(oneOf(m, []string{"1Gi", "2Gi"}))}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod}
	pv.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	pv.Status.Phase = v1.VolumeAvailable
	if m.IntN(2) == 0 {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: oneOf(m, storageDrivers), VolumeHandle: fmt.Sprint("h", m.IntN(3))}
	} else {
		pv.Spec.HostPath = &v1.HostPathVolumeSource{Path: "/a"}
	}
	if m.IntN(3) == 0 {
		pv.Labels[v1.LabelTopologyZone] = oneOf(m, append(storageZones, "z1__z2"))
	}
	if m.IntN(3) == 0 {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint("n", m.IntN(3))}}},
		}}}}
	}
	if m.IntN(4) == 0 {
		c := fmt.Sprint("pvc", m.IntN(5))
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: c, UID: types.UID(c)}
	}
	return pv
}

func (m *mutator) claim(name string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{}}}
	c.Spec.StorageClassName = new(oneOf(m, storageClasses))
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{oneOf(m, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadWriteOncePod})}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(oneOf(m, []string{"1Gi", "2Gi"}))}
	c.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	c.Status.Phase = v1.ClaimPending
	if m.IntN(2) == 0 {
		c.Spec.VolumeName = fmt.Sprint("pv", m.IntN(6)) // one of them is not there
		if m.IntN(4) > 0 {
			c.Annotations[storagehelpers.AnnBindCompleted] = "yes"
			c.Status.Phase = v1.ClaimBound
		}
	} else if m.IntN(4) == 0 {
		c.Annotations[storagehelpers.AnnSelectedNode] = fmt.Sprint("n", m.IntN(3))
	}
	if m.IntN(10) == 0 {
		c.DeletionTimestamp, c.Finalizers = new(metav1.Unix(1, 0)), []string{"kubernetes.io/pvc-protection"}
	}
	if m.IntN(12) == 0 {
		c.Status.Phase = v1.ClaimLost
	}
	return c
}

func (m *mutator) podWithVolumes(name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1}}
	p.Spec.Containers = []v1.Container{{Name: "c"}}
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	for i := range m.IntN(4) {
		v := v1.Volume{Name: fmt.Sprint("v", i)}
		readOnly := m.IntN(2) == 0
		switch m.IntN(8) {
		case 0:
			v.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: fmt.Sprint("d", m.IntN(2)), ReadOnly: readOnly}
		case 1:
			v.ISCSI = &v1.ISCSIVolumeSource{IQN: fmt.Sprint("iqn", m.IntN(2)), ReadOnly: readOnly}
		case 2:
			v.RBD = &v1.RBDVolumeSource{CephMonitors: []string{fmt.Sprint("m", m.IntN(2)), "m2"}, RBDPool: "p", RBDImage: "i", ReadOnly: readOnly}
		default:
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("pvc", m.IntN(6)), ReadOnly: readOnly}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return p
}

// all are the objects that both sides are given.
func (s storageCase) all() (out []runtime.Object) {
	for _, n := range s.nodes {
		out = append(out, n)
	}
	for _, p := range s.pods {
		out = append(out, p)
	}
	return append(append(out, s.pod), s.objects...)
}

// storageHandle is what upstream's plug-ins about volumes ask their scheduler for.
type storageHandle struct {
	handle
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	lister  fwk.SharedLister
}

func (h storageHandle) ClientSet() kubernetes.Interface                        { return h.client }
func (h storageHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h storageHandle) SnapshotSharedLister() fwk.SharedLister                 { return h.lister }
func (h storageHandle) SharedCSIManager() fwk.CSIManager {
	return nodevolumelimits.NewCSIManager(h.factory.Storage().V1().CSINodes().Lister())
}

// upstreamSays are the verdicts of upstream's plug-ins, by plug-in.
func (s storageCase) upstreamSays(t *testing.T) map[string]string {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := fake.NewClientset(copies(s.all())...)
	h := storageHandle{client: client, factory: informers.NewSharedInformerFactory(client, 0), lister: cache.NewSnapshot(s.pods, s.nodes)}
	h.factory.Storage().V1().CSINodes().Informer()
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	var made []fwk.Plugin
	for _, p := range []struct {
		make makePlugin
		args runtime.Object
	}{
		{volumerestrictions.New, nil},
		{nodevolumelimits.NewCSI, nil},
		{volumebinding.New, &config.VolumeBindingArgs{BindTimeoutSeconds: 600, Shape: []config.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}}},
		{volumezone.New, nil},
	} {
		plugin, err := p.make(ctx, p.args, h, features)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, plugin)
	}
	h.factory.Start(ctx.Done())
	h.factory.WaitForCacheSync(ctx.Done())
	defer func() { cancel(); h.factory.Shutdown() }()
	infos, err := h.lister.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, plugin := range made {
		state := upstream.NewCycleState()
		only, status := plugin.(fwk.PreFilterPlugin).PreFilter(ctx, state, s.pod, infos)
		if status.IsSkip() {
			continue
		}
		if !status.IsSuccess() {
			out[plugin.Name()] = "refused: " + verdict(status.Code() != fwk.Unschedulable, status.Reasons())
			continue
		}
		var fit []fwk.NodeInfo
		for _, n := range s.nodes {
			if only != nil && !only.AllNodes() && !only.NodeNames.Has(n.Name) {
				out[plugin.Name()] += n.Name + ": left out\n"
				continue
			}
			info, err := h.lister.NodeInfos().Get(n.Name)
			if err != nil {
				t.Fatal(err)
			}
			if st := plugin.(fwk.FilterPlugin).Filter(ctx, state, s.pod, info); !st.IsSuccess() {
				out[plugin.Name()] += n.Name + ": " + verdict(st.Code() != fwk.Unschedulable, st.Reasons()) + "\n"
			} else {
				fit = append(fit, info)
			}
		}
		if p, ok := plugin.(fwk.ScorePlugin); ok && len(fit) > 0 {
			scores, problem := theirScores(ctx, p, state, s.pod, fit)
			if problem != nil {
				t.Fatal(problem.Upstream)
			}
			out[plugin.Name()] += ranking(scores)
		}
	}
	return out
}

// ranking are the scores of the nodes that passed, in their order; nothing where they add nothing to it.
func ranking(scores []int64) string {
	if same(scores) {
		return ""
	}
	return fmt.Sprintln("scores", scores)
}

func copies(objs []runtime.Object) (out []runtime.Object) {
	for _, o := range objs {
		out = append(out, o.DeepCopyObject())
	}
	return out
}

// podoSays are those of podo's.
func (s storageCase) podoSays(t *testing.T) map[string]string {
	v, feed, err := view.NewFed(view.Config{Kinds: registry.All(), Mutated: func(*registry.Kind, *view.Entry) { t.Error("an object was changed") }})
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range copies(s.all()) {
		a, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		a.SetResourceVersion(fmt.Sprint(i + 1))
		if err := feed.Put(resourceOf(o), o); err != nil {
			t.Fatal(err)
		}
	}
	feed.Complete()
	c := framework.NewCluster()
	for _, n := range s.nodes {
		c.SetNode(n)
	}
	for _, p := range s.pods {
		c.SetPod(p)
	}
	out := map[string]string{}
	for _, plugin := range volumes.New(v).Plugins(profile.Volumes{}) {
		related := plugin.Relate(c, c.Shape(s.pod))
		if related == nil {
			continue
		}
		if x, ok := related.(framework.Refusing); ok {
			if r := x.Refused(); r != nil {
				out[plugin.Name()] = "refused: " + verdict(r.Unresolvable, r.Reasons)
				continue
			}
		}
		var only []string
		narrow := false
		if x, ok := related.(framework.Narrowing); ok {
			only, narrow = x.Only()
		}
		var fit []*framework.Node
		for _, n := range s.nodes {
			if narrow && !slices.Contains(only, n.Name) {
				out[plugin.Name()] += n.Name + ": left out\n"
			} else if r := related.Filter(c.Node(n.Name)); r != nil {
				out[plugin.Name()] += n.Name + ": " + verdict(r.Unresolvable, r.Reasons) + "\n"
			} else {
				fit = append(fit, c.Node(n.Name))
			}
		}
		if scores := make([]int64, len(fit)); len(fit) > 0 && related.Score(fit, scores) {
			out[plugin.Name()] += ranking(scores)
		}
	}
	return out
}

func resourceOf(o runtime.Object) schema.GroupResource {
	core := map[string]string{"Node": "nodes", "Pod": "pods", "PersistentVolume": "persistentvolumes", "PersistentVolumeClaim": "persistentvolumeclaims"}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
	if r := core[kind]; r != "" {
		return schema.GroupResource{Resource: r}
	}
	plural := map[string]string{
		"StorageClass": "storageclasses", "CSINode": "csinodes", "CSIDriver": "csidrivers", "CSIStorageCapacity": "csistoragecapacities",
		"VolumeAttachment": "volumeattachments",
	}
	return storagev1.Resource(plural[kind])
}

func (s storageCase) differ(t *testing.T) (out []Difference) {
	up, ours := s.upstreamSays(t), s.podoSays(t)
	for _, name := range []string{"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"} {
		if up[name] != ours[name] {
			out = append(out, Difference{Where: "filter " + name, Upstream: up[name], Podo: ours[name]})
		}
	}
	return out
}

// TestSchedulerVolumes compares what each plug-in about volumes says of a pod and of each node.
func TestSchedulerVolumes(t *testing.T) {
	if *only != "" {
		t.Skip("one kind only")
	}
	t.Parallel()
	m := mutatorFor(t)
	var r Report
	judged := 0
	for range rounds(1) {
		s := m.storageCase()
		r.ran()
		if len(s.podoSays(t)) > 0 {
			judged++
		}
		r.found("scheduler", s.differ(t), func(string) string {
			text := ""
			for _, o := range s.all() {
				text += manifest(o)
			}
			return text
		})
	}
	if judged == 0 {
		t.Error("no pod was kept from a node")
	}
	r.fail(t)
}
