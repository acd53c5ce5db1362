package framework

import v1 "k8s.io/api/core/v1"

// Image is an image that some nodes have.
type Image struct {
	Size  int64 // bytes, as the first node reported it
	nodes map[*Node]bool
}

// On tells whether a node has it.
func (i *Image) On(n *Node) bool { return i.nodes[n] }

// Nodes is how many nodes have it.
func (i *Image) Nodes() int { return len(i.nodes) }

// Image finds an image by one of the names that nodes tell of; nil when no node has it.
func (c *Cluster) Image(name string) *Image { return c.images[name] }

// haveImages updates which images a node has; was is its previous list.
func (c *Cluster) haveImages(n *Node, was, is []v1.ContainerImage) {
	if sameImages(was, is) {
		return
	}
	for _, i := range was {
		for _, name := range i.Names {
			x := c.images[name]
			if x == nil {
				continue
			}
			if delete(x.nodes, n); len(x.nodes) == 0 {
				delete(c.images, name)
			}
		}
	}
	for _, i := range is {
		for _, name := range i.Names {
			x := c.images[name]
			if x == nil {
				x = &Image{Size: i.SizeBytes, nodes: map[*Node]bool{}}
				c.images[name] = x
			}
			x.nodes[n] = true
		}
	}
}

// sameImages tells whether two lists are equal; it relies on the fixed order in which kubelets report images.
func sameImages(a, b []v1.ContainerImage) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if a[i].SizeBytes != b[i].SizeBytes || len(a[i].Names) != len(b[i].Names) {
			return false
		}
		for j := range a[i].Names {
			if a[i].Names[j] != b[i].Names[j] {
				return false
			}
		}
	}
	return true
}
