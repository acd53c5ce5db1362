// Package extender asks external programs over HTTP about scheduling decisions (KubeSchedulerConfiguration, extenders). Their
// answers are checked before they are used: a program may hang, fail or lie.
package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// timeout is that of an extender which names none.
const timeout = 5 * time.Second

// maxAnswer bounds what is read of one.
const maxAnswer = 64 << 20

// Extender is one of them.
type Extender struct {
	config configv1.Extender
	client *http.Client
}

// New makes one that uses transport; nil stands for what its configuration says.
func New(c configv1.Extender, transport http.RoundTripper) (*Extender, error) {
	if transport == nil {
		var err error
		if transport, err = dialler(&c); err != nil {
			return nil, fmt.Errorf("extender %s: %w", c.URLPrefix, err)
		}
	}
	e := &Extender{config: c, client: &http.Client{Transport: transport, Timeout: c.HTTPTimeout.Duration}}
	if e.client.Timeout == 0 {
		e.client.Timeout = timeout
	}
	return e, nil
}

func dialler(c *configv1.Extender) (http.RoundTripper, error) {
	of := rest.Config{}
	if t := c.TLSConfig; t != nil {
		of.TLSClientConfig = rest.TLSClientConfig{
			Insecure: t.Insecure, ServerName: t.ServerName, CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile,
			CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData,
		}
	}
	if c.EnableHTTPS && len(of.CAFile)+len(of.CAData) == 0 {
		of.Insecure = true // upstream's rule
	}
	tls, err := rest.TLSConfigFor(&of)
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tls
	return t, nil
}

// Name is its address.
func (e *Extender) Name() string { return e.config.URLPrefix }

// Ignorable tells that pods are placed without it when it fails.
func (e *Extender) Ignorable() bool { return e.config.Ignorable }

// Judges tells whether it is asked about nodes, Preempts whether about who has to leave, Binds whether it binds pods itself.
func (e *Extender) Judges() bool { return e.config.FilterVerb != "" || e.config.PrioritizeVerb != "" }

// Preempts is described at Judges.
func (e *Extender) Preempts() bool { return e.config.PreemptVerb != "" }

// Binds is described at Judges.
func (e *Extender) Binds() bool { return e.config.BindVerb != "" }

// Interested tells whether it has a say about a pod: it manages a resource that the pod asks for, or manages none and so has a
// say about all.
func (e *Extender) Interested(pod *v1.Pod) bool {
	if len(e.config.ManagedResources) == 0 {
		return true
	}
	asks := func(c v1.Container) bool {
		return slices.ContainsFunc(e.config.ManagedResources, func(r configv1.ExtenderManagedResource) bool {
			_, request := c.Resources.Requests[v1.ResourceName(r.Name)]
			_, limit := c.Resources.Limits[v1.ResourceName(r.Name)]
			return request || limit
		})
	}
	return slices.ContainsFunc(pod.Spec.Containers, asks) || slices.ContainsFunc(pod.Spec.InitContainers, asks)
}

// about are the arguments for nodes: whole objects, or only names where the extender keeps a cache of its own.
func (e *Extender) about(pod *v1.Pod, nodes []*v1.Node) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	if e.config.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &v1.NodeList{}
	for _, n := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *n)
	}
	return args
}

// Verdict is what an extender says of nodes.
type Verdict struct {
	Passed []*v1.Node
	// Failed are the rejected nodes with the extender's reasons; of these, Hopeless ones would not take the pod even if others
	// left.
	Failed, Hopeless map[string]string
}

// Filter has it judge nodes.
func (e *Extender) Filter(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (Verdict, error) {
	if e.config.FilterVerb == "" {
		return Verdict{Passed: nodes}, nil
	}
	var answer extenderv1.ExtenderFilterResult
	if err := e.ask(ctx, e.config.FilterVerb, e.about(pod, nodes), &answer); err != nil {
		return Verdict{}, err
	}
	if answer.Error != "" {
		return Verdict{}, errors.New(answer.Error)
	}
	out := Verdict{Failed: answer.FailedNodes, Hopeless: answer.FailedAndUnresolvableNodes}
	var passed []string
	switch {
	case e.config.NodeCacheCapable && answer.NodeNames != nil:
		passed = *answer.NodeNames
	case answer.Nodes != nil:
		for i := range answer.Nodes.Items {
			passed = append(passed, answer.Nodes.Items[i].Name)
		}
	}
	for _, name := range passed {
		i := slices.IndexFunc(nodes, func(n *v1.Node) bool { return n.Name == name })
		if i < 0 {
			return Verdict{}, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", e.Name(), name)
		}
		out.Passed = append(out.Passed, nodes[i])
	}
	return out, nil
}

// Prioritize asks it to rank nodes. The result is added to a node's score, to which a plug-in of weight 1 adds at most 100.
func (e *Extender) Prioritize(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (map[string]int64, error) {
	if e.config.PrioritizeVerb == "" {
		return nil, nil
	}
	var answer extenderv1.HostPriorityList
	if err := e.ask(ctx, e.config.PrioritizeVerb, e.about(pod, nodes), &answer); err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, x := range answer {
		if x.Score < extenderv1.MinExtenderPriority || x.Score > extenderv1.MaxExtenderPriority {
			return nil, fmt.Errorf("extender %q ranks node %q with %d, which is not in [%d, %d]", e.Name(), x.Host, x.Score,
				extenderv1.MinExtenderPriority, extenderv1.MaxExtenderPriority)
		}
		out[x.Host] = x.Score * e.config.Weight * (100 / extenderv1.MaxExtenderPriority)
	}
	return out, nil
}

// Bind has it bind a pod.
func (e *Extender) Bind(ctx context.Context, b *v1.Binding) error {
	var answer extenderv1.ExtenderBindingResult
	err := e.ask(ctx, e.config.BindVerb, &extenderv1.ExtenderBindingArgs{
		PodName: b.Name, PodNamespace: b.Namespace, PodUID: b.UID, Node: b.Target.Name,
	}, &answer)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return err
}

// Preempt asks it about preemption: it returns the candidates that it accepts, with the victims that it wants.
func (e *Extender) Preempt(ctx context.Context, pod *v1.Pod, candidates map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToVictims: candidates}
	if e.config.NodeCacheCapable {
		args.NodeNameToVictims, args.NodeNameToMetaVictims = nil, map[string]*extenderv1.MetaVictims{}
		for name, v := range candidates {
			m := &extenderv1.MetaVictims{NumPDBViolations: v.NumPDBViolations, Pods: []*extenderv1.MetaPod{}}
			for _, p := range v.Pods {
				m.Pods = append(m.Pods, &extenderv1.MetaPod{UID: string(p.UID)})
			}
			args.NodeNameToMetaVictims[name] = m
		}
	}
	var answer extenderv1.ExtenderPreemptionResult
	if err := e.ask(ctx, e.config.PreemptVerb, args, &answer); err != nil {
		return nil, err
	}
	return answer.NodeNameToMetaVictims, nil
}

func (e *Extender) ask(ctx context.Context, verb string, args, answer any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	url := strings.TrimRight(e.config.URLPrefix, "/") + "/" + verb
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // all that is wanted has been read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(answer)
}
