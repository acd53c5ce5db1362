// Package moved is about a data directory that is started again with another name of its node, or another range of Services. It may be where
// nothing is lost by it:
//
//	files: `podo down` has ended what ran ─► store: no volume, no Service is bound to the old ─► the old node, or what the server itself
//	└─ refused                               └─ refused                                          has in the old range, is replaced
//
// Who is refused has changed nothing in the store. (Another range of the node's pods is refused by the own node's kubelet, in package daemon.)
package moved

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/kubernetesservice"
	"podo.dev/podo/internal/controllers/servicecidr"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/view"
)

// Before is what a start knows of the one before it.
type Before struct {
	Down    bool     // `podo down` has ended what ran
	Formers []string // earlier names of this node under which Nodes still exist
}

// Read reads it. It refuses another node name while pods of the node may be running, since they would belong to nobody.
func Read(d datadir.Dir, name string) (Before, error) {
	last, err := d.LastRun()
	if err != nil {
		return Before{}, nil //nolint:nilerr // it is damaged, and will be written again
	}
	b := Before{last.Down || last.NodeName == "", slices.DeleteFunc(slices.Clone(last.Formers), func(f string) bool { return f == name })}
	if last.NodeName == "" || last.NodeName == name {
		return b, nil
	}
	if !last.Down {
		return b, fmt.Errorf("--node-name %s: %s is the data directory of the node %s, and its pods may run: give --node-name %[3]s, or end them first with `podo down --data-dir %[2]s`",
			name, d.Root, last.NodeName)
	}
	b.Formers = append(b.Formers, last.NodeName)
	return b, nil
}

// Services refuses another range when Services have addresses of the old one, unless a further ServiceCIDR contains them. The
// server's own Service does not count, since it is made again, unless other servers share it.
func (b Before) Services(now view.Snapshot, cidr netip.Prefix, shared bool) error {
	ranges, was := []netip.Prefix{cidr}, ""
	for e := range now.All(client.ServiceCIDRs.At("", "").Resource, "", view.Key{}) {
		c := e.Object.(*networkingv1.ServiceCIDR)
		if c.Name == servicecidr.Name {
			was = strings.Join(c.Spec.CIDRs, ",")
			continue
		}
		for _, text := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				ranges = append(ranges, p)
			}
		}
	}
	var outside []string
	moved := false
	for e := range now.All(client.Services.At("", "").Resource, "", view.Key{}) {
		svc := e.Object.(*v1.Service)
		a, err := netip.ParseAddr(svc.Spec.ClusterIP)
		switch {
		case err != nil || a.Is4() != cidr.Addr().Is4(): // it has none, or one of the other IP family
		case own(svc):
			moved = Other(svc, cidr)
		case !slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) }):
			outside = append(outside, svc.Namespace+"/"+svc.Name)
		}
	}
	again := "give --service-cidr " + was + " again"
	if was == "" {
		again = "give the range that it had again"
	}
	switch {
	case moved && shared:
		return fmt.Errorf("--service-cidr %s: the cluster's Service kubernetes has its address in another range, and all servers on one etcd are given the same: %s", cidr, again)
	case len(outside) > 0:
		return fmt.Errorf("--service-cidr %s: Services have addresses outside of it (%s): %s. To move to another range, make it a ServiceCIDR of its own, "+
			"delete the ServiceCIDR %s, make these Services anew, and then start with it", cidr, some(outside), again, servicecidr.Name)
	case moved && !b.Down:
		return fmt.Errorf("--service-cidr %s: pods that run look for the API server in another range: %s, or end them first with `podo down`", cidr, again)
	}
	return nil
}

// some shows the first few of many names.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

func own(svc *v1.Service) bool {
	return svc.Namespace == metav1.NamespaceDefault && svc.Name == kubernetesservice.Name
}

// Other says that the server's own Service does not have the address that the range implies, and that the server's certificate
// contains.
func Other(own *v1.Service, cidr netip.Prefix) bool {
	a, err := netip.ParseAddr(own.Spec.ClusterIP)
	return err == nil && a.Is4() == cidr.Addr().Is4() && a != cidr.Masked().Addr().Next()
}

// Volumes refuses another name for a node to which volumes are bound: nobody could use them any more.
func (b Before) Volumes(now view.Snapshot, name string) error {
	for e := range now.All(client.Volumes.At("", "").Resource, "", view.Key{}) {
		pv := e.Object.(*v1.PersistentVolume)
		for _, former := range b.Formers {
			if boundTo(pv, former) {
				return fmt.Errorf("--node-name %s: the volume %s is of the node %s, and of no other: give --node-name %[3]s again, or delete the volume and its claim first",
					name, pv.Name, former)
			}
		}
	}
	return nil
}

func boundTo(pv *v1.PersistentVolume, node string) bool {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return false
	}
	return slices.ContainsFunc(pv.Spec.NodeAffinity.Required.NodeSelectorTerms, func(t v1.NodeSelectorTerm) bool {
		named := func(r v1.NodeSelectorRequirement) bool {
			return r.Operator == v1.NodeSelectorOpIn && (r.Key == v1.LabelHostname || r.Key == metav1.ObjectNameField) && slices.Contains(r.Values, node)
		}
		return slices.ContainsFunc(t.MatchExpressions, named) || slices.ContainsFunc(t.MatchFields, named)
	})
}
