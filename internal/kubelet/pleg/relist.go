package pleg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/podlife"
)

// relist compares everything that the runtime has with the cache, and inspects what differs.
func (g *Generator) relist(ctx context.Context) (repaired int, err error) {
	cctx, cancel := context.WithTimeout(ctx, g.cfg.CallTimeout)
	defer cancel()
	mine := map[string]string{labels.Node: g.cfg.Node}
	at := time.Now()
	boxes, err := g.cfg.Runtime.ListPodSandbox(cctx, &runtimev1.PodSandboxFilter{LabelSelector: mine})
	if err != nil {
		return 0, err
	}
	cons, err := g.cfg.Runtime.ListContainers(cctx, &runtimev1.ContainerFilter{LabelSelector: mine})
	if err != nil {
		return 0, err
	}
	parts := map[types.UID][]string{}
	owners := map[types.UID]labels.Owner{}
	add := func(l map[string]string, part string) {
		if o, ok := labels.Read(l); ok {
			o.Container = ""
			owners[o.UID] = o
			parts[o.UID] = append(parts[o.UID], part)
		}
	}
	for _, b := range boxes {
		add(b.GetLabels(), sandboxPart(b.GetId(), b.GetState() == runtimev1.PodSandboxState_SANDBOX_READY))
	}
	for _, c := range cons {
		add(c.GetLabels(), containerPart(c.GetId(), instanceState(c.GetState())))
	}
	var differ []labels.Owner
	g.mu.Lock()
	for uid, p := range parts {
		k := g.cache[uid]
		switch {
		case k == nil || k.print != joined(p):
			differ = append(differ, owners[uid])
		case k.at.Before(at): // so it is
			k.at, k.observed.At = at, at
		}
		if k != nil && lost(k.print, p) {
			repaired++
		}
	}
	for uid, k := range g.cache {
		if parts[uid] == nil && k.at.Before(at) {
			differ = append(differ, k.owner)
			repaired++
		}
	}
	g.mu.Unlock()
	for _, o := range differ {
		if err := g.inspect(ctx, o); err != nil {
			return repaired, err
		}
	}
	g.mu.Lock()
	g.listed = at
	g.mu.Unlock()
	return repaired, nil
}

func printOf(o podlife.Observed) string {
	var parts []string
	for _, b := range o.Sandboxes {
		parts = append(parts, sandboxPart(b.ID, b.Ready))
	}
	for i := range o.Containers {
		parts = append(parts, containerPart(o.Containers[i].ID, o.Containers[i].State))
	}
	return joined(parts)
}

func joined(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// lost tells whether something that stood or ran does not any more: what events should have told.
func lost(print string, now []string) bool {
	for _, p := range strings.Fields(print) {
		if (strings.HasSuffix(p, ":true") || strings.HasSuffix(p, fmt.Sprintf(":%d", podlife.InstanceRunning))) && !slices.Contains(now, p) {
			return true
		}
	}
	return false
}

func sandboxPart(id string, ready bool) string { return fmt.Sprintf("s:%s:%t", id, ready) }

func containerPart(id string, s podlife.InstanceState) string { return fmt.Sprintf("c:%s:%d", id, s) }

func instanceState(s runtimev1.ContainerState) podlife.InstanceState {
	switch s {
	case runtimev1.ContainerState_CONTAINER_CREATED:
		return podlife.InstanceCreated
	case runtimev1.ContainerState_CONTAINER_RUNNING:
		return podlife.InstanceRunning
	case runtimev1.ContainerState_CONTAINER_EXITED:
		return podlife.InstanceExited
	}
	return podlife.InstanceUnknown
}
