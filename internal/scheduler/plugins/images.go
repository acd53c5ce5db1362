package plugins

import (
	"strings"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// ImageLocality prefers nodes that already have the pod's images. An image counts the more, the more nodes have it, so that pods
// do not pile up on the one node that got it first.
type ImageLocality struct{}

func (ImageLocality) Name() string { return "ImageLocality" }

// Relate finds the pod's images that some nodes have and others lack.
func (ImageLocality) Relate(c *framework.Cluster, pod *framework.Pod) framework.Related {
	if pod.Object == nil {
		return nil
	}
	spec, out := &pod.Object.Spec, local{}
	differs := false
	add := func(name string) {
		out.count++
		i := c.Image(fullName(name))
		if i == nil {
			return
		}
		differs = differs || i.Nodes() < len(c.Nodes)
		out.images = append(out.images, i)
		out.worth = append(out.worth, int64(float64(i.Size)*(float64(i.Nodes())/float64(len(c.Nodes)))))
	}
	for k := range spec.InitContainers {
		add(spec.InitContainers[k].Image)
	}
	for k := range spec.Containers {
		add(spec.Containers[k].Image)
	}
	for k := range spec.Volumes {
		if v := spec.Volumes[k].Image; v != nil {
			add(v.Reference)
		}
	}
	if !differs {
		return nil
	}
	return &out
}

// fullName is a name with its tag, as nodes tell it.
func fullName(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		name += ":latest"
	}
	return name
}

type local struct {
	images []*framework.Image
	worth  []int64 // bytes
	count  int     // of all images of the pod
}

func (*local) Binding() bool                               { return false }
func (*local) Filter(*framework.Node) *framework.Rejection { return nil }
func (*local) Explain(*framework.Node) []timeline.Field    { return nil }

// Below the first threshold a saved pull does not count; above the second, for each image, a larger one counts no more.
const (
	fewBytes  = 23 << 20
	manyBytes = 1000 << 20
)

// Score maps the bytes that need not be pulled to 0..100.
func (l *local) Score(nodes []*framework.Node, scores []int64) bool {
	most := manyBytes * int64(l.count)
	for i, n := range nodes {
		sum := int64(0)
		for k, image := range l.images {
			if image.On(n) {
				sum += l.worth[k]
			}
		}
		scores[i] = framework.MaxScore * (min(max(sum, fewBytes), most) - fewBytes) / (most - fewBytes)
	}
	return true
}
