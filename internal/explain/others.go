package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/budget"
)

// others are the kinds that make no pods but may hold them up.
func (own Owner) others() (stand, bool) {
	c := own.Cluster
	if c == nil {
		c = blind{}
	}
	switch o := own.Object.(type) {
	case *v1.PersistentVolumeClaim:
		return own.claim(c, o), true
	case *v1.Namespace:
		return own.namespace(c, o), true
	case *v1.Node:
		return own.node(c, o), true
	case *v1.Service:
		return own.service(c, o), true
	case *networkingv1.Ingress:
		return ingress(c, o), true
	case *networkingv1.NetworkPolicy:
		return policy(), true
	case *autoscalingv2.HorizontalPodAutoscaler:
		return autoscaler(o), true
	case *policyv1.PodDisruptionBudget:
		return pdb(o), true
	case *v1.PersistentVolume:
		return volume(o), true
	case *v1.ResourceQuota:
		return quota(o), true
	case *certificatesv1.CertificateSigningRequest:
		return request(o), true
	}
	return own.any(), false
}

func (own Owner) claim(c Cluster, o *v1.PersistentVolumeClaim) stand {
	if o.DeletionTimestamp != nil {
		out := stand{}
		out.State, out.Since = "is being deleted", o.DeletionTimestamp.Time
		out.Why = "It goes when no pod uses it any more"
		if len(own.Pods) > 0 {
			var names []string
			for _, p := range own.Pods {
				names = append(names, p.Pod.Name)
			}
			out.Why += ", and these do: " + listed(names)
			out.Do = fmt.Sprintf("End them: `podo kubectl delete pod -n %s %s`, or scale down what made them", o.Namespace, names[0])
		}
		return out
	}
	s := claimed(c, o)
	return stand{Finding: s.Finding, fine: s.fine}
}

func (own Owner) node(c Cluster, n *v1.Node) stand {
	out := stand{fine: true}
	ok, words := ready(n)
	out.State = "is ready"
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == v1.NodeReady:
			out.Since = c.LastTransitionTime.Time
		case c.Status == v1.ConditionTrue:
			out.fine, out.Why = false, joined(out.Why, c.Reason+": "+c.Message)
			out.Do = joined(out.Do, pressure(c.Type))
		}
	}
	if !ok {
		out.State, out.fine = "is not ready", false
		out.Why = joined(words, out.Why)
		do := fmt.Sprintf("See whether the machine runs, and its podo: `podo status` there. If it is off for good: `podo kubectl delete node %s`, and what is left of its pods goes", n.Name)
		if speaks(n) {
			do = "Its podo runs, and says so itself: `podo status` there, and its log (log/podo.log in its data directory), tell more"
		}
		out.Do = joined(do, out.Do)
	}
	if n.Spec.Unschedulable {
		out.State += ", but takes no new pods (cordoned)"
		out.Do = joined(out.Do, fmt.Sprintf("`podo kubectl uncordon %s` ends that", n.Name))
		out.fine = false
		out.Why = joined(out.Why, own.undrained(c))
	}
	for _, t := range n.Spec.Taints {
		if t.Key != v1.TaintNodeUnschedulable {
			out.Why = joined(out.Why, "It has the taint "+t.ToString())
		}
	}
	if said := own.manifests(); said != "" {
		out.Why, out.fine = joined(out.Why, said), false
		out.Do = joined(out.Do, correctManifest)
	}
	return out
}

// manifests is what a node said of files of static pods that it cannot use, each once; "" for none.
func (own Owner) manifests() string {
	told := map[string]time.Time{}
	for _, e := range own.Warnings {
		if at := e.LastTimestamp.Time; e.Reason == UnusableManifest && !at.Before(told[e.Message]) {
			told[e.Message] = at
		}
	}
	if len(told) == 0 {
		return ""
	}
	var said []string
	for _, message := range slices.Sorted(maps.Keys(told)) {
		said = append(said, fmt.Sprintf("%s (told at %s)", message, clock(told[message], own.Now)))
	}
	return "A manifest cannot be used: " + listed(said)
}

const correctManifest = "Correct that file on the node, or remove it: its pod begins by itself. A static pod needs no object of the API"

// UnusableManifest is the reason of a node's event about a static pod's manifest of which it cannot make a pod.
const UnusableManifest = "FailedStaticPod"

// Unmade is the report of a pod that does not exist and has the name of a static pod of this node, if the node said that it cannot use
// a manifest.
func (own Owner) Unmade(namespace, name string) (Report, bool) {
	node, ok := own.Object.(*v1.Node)
	said := own.manifests()
	if !ok || said == "" || !strings.HasSuffix(name, "-"+strings.ToLower(node.Name)) {
		return Report{}, false
	}
	return Report{
		Kind: "Pod", Namespace: namespace, Name: name, State: "does not exist",
		Why: fmt.Sprintf("By its name it would be a static pod of the node %s. %s", node.Name, said), Do: correctManifest,
	}, true
}

// undrained names the node's pods for which a drain waits because of budgets; "" for none.
func (own Owner) undrained(c Cluster) string {
	var kept []string
	budgets := map[string][]selecting{} // by namespace
	for _, f := range own.Pods {
		p := f.Pod
		if by := metav1.GetControllerOfNoCopy(p); by != nil && (by.Kind == "DaemonSet" || by.Kind == "Node") {
			continue // a drain leaves it alone
		}
		all, read := budgets[p.Namespace]
		if !read {
			all = selectors(c.List("poddisruptionbudgets", p.Namespace))
			budgets[p.Namespace] = all
		}
		var by []*policyv1.PodDisruptionBudget
		for _, x := range all {
			if x.pods.Matches(labels.Set(p.Labels)) {
				by = append(by, x.budget)
			}
		}
		if _, err := budget.Evict(p, by, own.Now); err != nil {
			kept = append(kept, fmt.Sprintf("pod %s/%s, which the budget %s keeps (`podo why -n %s pdb/%s`)", p.Namespace, p.Name, by[0].Name, by[0].Namespace, by[0].Name))
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return "A drain waits for " + listed(kept)
}

// selecting is a budget with its parsed selector, which is matched with many pods.
type selecting struct {
	budget *policyv1.PodDisruptionBudget
	pods   labels.Selector
}

func selectors(budgets []runtime.Object) (out []selecting) {
	for _, obj := range budgets {
		if b, ok := obj.(*policyv1.PodDisruptionBudget); ok {
			out = append(out, selecting{b, budget.Selector(b)})
		}
	}
	return out
}

func pressure(t v1.NodeConditionType) string {
	switch t {
	case v1.NodeDiskPressure:
		return "Give it disk: remove images and old logs, or pods that write much; until then pods are evicted and no new ones come"
	case v1.NodeMemoryPressure:
		return "End pods that use much memory, or give them limits; until then those that exceed their requests are evicted first"
	case v1.NodePIDPressure:
		return "End what makes so many processes"
	}
	return ""
}

func autoscaler(o *autoscalingv2.HorizontalPodAutoscaler) stand {
	lowest := want(o.Spec.MinReplicas)
	target := o.Spec.ScaleTargetRef.Kind + "/" + o.Spec.ScaleTargetRef.Name
	out := stand{fine: true}
	out.State = fmt.Sprintf("keeps %s at %s (between %d and %d)", target, count(o.Status.DesiredReplicas, "replica"), lowest, o.Spec.MaxReplicas)
	for _, c := range o.Status.Conditions {
		switch {
		case c.Status == v1.ConditionFalse && (c.Type == autoscalingv2.ScalingActive || c.Type == autoscalingv2.AbleToScale):
			out.fine = false
			out.State = fmt.Sprintf("does not scale %s, which has %s (between %d and %d)", target, count(o.Status.CurrentReplicas, "replica"), lowest, o.Spec.MaxReplicas)
			out.Since, out.Why = c.LastTransitionTime.Time, c.Message
			out.Do = mendAutoscaler(c.Message, o)
		case c.Type == autoscalingv2.ScalingLimited && c.Status == v1.ConditionTrue && c.Reason == "TooManyReplicas":
			out.Why = joined(out.Why, fmt.Sprintf("It would want more than maxReplicas (%d) allows", o.Spec.MaxReplicas))
		}
	}
	return out
}

func mendAutoscaler(said string, o *autoscalingv2.HorizontalPodAutoscaler) string {
	target := strings.ToLower(o.Spec.ScaleTargetRef.Kind) + "/" + o.Spec.ScaleTargetRef.Name
	switch {
	case strings.Contains(said, "missing request for "):
		name := between(said, "missing request for ", " ")
		container := between(said, "in container ", " ")
		return fmt.Sprintf("A utilization is a share of what is requested: give container %s of the template resources.requests.%s, such as `podo kubectl set resources -n %s %s -c %s --requests=%s=100m`", container, name, o.Namespace, quoted(target), quoted(container), quoted(name))
	case strings.Contains(said, "not found"):
		return fmt.Sprintf("Create %s, or correct spec.scaleTargetRef", target)
	case strings.Contains(said, "no metrics returned"), strings.Contains(said, "did not receive metrics"):
		return "Its pods have not been measured yet: wait until one has been ready for half a minute. `podo kubectl top pods` shows what is known"
	case strings.Contains(said, "replicas") && strings.Contains(said, "disabled"):
		return fmt.Sprintf("It rests while the target has 0 replicas: `podo kubectl scale -n %s %s --replicas=1`", o.Namespace, quoted(target))
	}
	return ""
}

func pdb(o *policyv1.PodDisruptionBudget) stand {
	s := o.Status
	out := stand{fine: s.DisruptionsAllowed > 0}
	out.State = fmt.Sprintf("allows %s now", count(s.DisruptionsAllowed, "eviction"))
	rule := ""
	switch {
	case o.Spec.MinAvailable != nil:
		rule = "minAvailable " + o.Spec.MinAvailable.String()
	case o.Spec.MaxUnavailable != nil:
		rule = "maxUnavailable " + o.Spec.MaxUnavailable.String()
	}
	switch {
	case s.ObservedGeneration < o.Generation:
		return unseen(0)
	case s.ExpectedPods == 0:
		out.fine = true
		out.Why = "It selects no pods: correct spec.selector if it should"
	case s.DisruptionsAllowed == 0:
		out.State = "allows no eviction now, so that a drain waits"
		out.Why = fmt.Sprintf("%d of its %s are healthy, and %d have to be (%s)", s.CurrentHealthy, count(s.ExpectedPods, "pod"), s.DesiredHealthy, rule)
		out.Do = fmt.Sprintf("Scale up what has made the pods, or let the budget allow one: `podo kubectl edit pdb -n %s %s`", o.Namespace, o.Name)
		if s.CurrentHealthy < s.DesiredHealthy {
			out.Do = "Get its pods healthy first; what keeps them is below"
			if p := o.Spec.UnhealthyPodEvictionPolicy; p == nil || *p != policyv1.AlwaysAllow {
				out.Do = joined(out.Do, fmt.Sprintf("Or let those be evicted that are not ready: `podo kubectl patch pdb -n %s %s -p '{\"spec\":{\"unhealthyPodEvictionPolicy\":\"AlwaysAllow\"}}'`", o.Namespace, o.Name))
			}
		}
		if s.DesiredHealthy >= s.ExpectedPods && s.CurrentHealthy >= s.DesiredHealthy {
			out.Why += ": no number of healthy pods leaves one to spare"
		}
	}
	return out
}
