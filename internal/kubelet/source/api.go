package source

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/view"
)

var pods = schema.GroupResource{Resource: "pods"}

// API is the source of the pods that the API has for this node, read from the process's view.
type API struct {
	View *view.View
	Node string
	Log  *slog.Logger
}

// Run tells changes on out until ctx ends.
func (a API) Run(ctx context.Context, out chan<- Change) error {
	have := map[types.UID]*v1.Pod{}
	send := func(op Op, p *v1.Pod) bool {
		select {
		case out <- Change{Source: "api", Op: op, Pod: p}:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for synced := false; ctx.Err() == nil; {
		snap, err := a.View.Fresh(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			a.Log.Warn("cannot read this node's pods; trying again", "err", err)
			if !pause(ctx, time.Second) {
				return nil
			}
			continue
		}
		now := map[types.UID]bool{}
		for e := range snap.By(pods, "spec.nodeName", a.Node) {
			p, ok := e.Object.(*v1.Pod)
			if !ok {
				continue
			}
			now[p.UID] = true
			if !a.take(have, p, send) {
				return nil
			}
		}
		for uid, p := range have {
			if !now[uid] {
				delete(have, uid)
				if !send(Remove, p) {
					return nil
				}
			}
		}
		if !synced && !send(Synced, nil) {
			return nil
		}
		synced = true
		if err := a.follow(ctx, snap.Rev(), have, send); err != nil && !errors.Is(err, view.ErrGone) && ctx.Err() == nil {
			a.Log.Warn("the watch on this node's pods broke; reading them again", "err", err)
			if !pause(ctx, time.Second) {
				return nil
			}
		}
	}
	return nil
}

// take reports one pod as it is now. Two forms may have the same version, since a restored server counts anew.
func (a API) take(have map[types.UID]*v1.Pod, p *v1.Pod, send func(Op, *v1.Pod) bool) bool {
	p = ofAPI(p)
	old := have[p.UID]
	if old != nil && old.ResourceVersion == p.ResourceVersion && (old == p || equality.Semantic.DeepEqual(old, p)) {
		return true
	}
	have[p.UID] = p
	return send(classify(old, p), p)
}

// ofAPI is the pod without a claim to be of another source: a static pod is admitted before others, may take their room and is not evicted.
// The annotation says so for those that stand in a file or at a URL of this node's; anybody may write it on a pod of the API.
func ofAPI(p *v1.Pod) *v1.Pod {
	if !podlife.Static(p) || podlife.IsMirror(p) {
		return p
	}
	out := *p
	out.Annotations = maps.Clone(p.Annotations)
	out.Annotations[podlife.SourceAnnotation] = "api"
	return &out
}

func (a API) follow(ctx context.Context, rev int64, have map[types.UID]*v1.Pod, send func(Op, *v1.Pod) bool) error {
	w, err := a.View.Watch(pods, rev)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		changes, _, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if uid, ok := replaced(c); ok && have[uid] != nil {
				gone := have[uid]
				delete(have, uid)
				if !send(Remove, gone) {
					return ctx.Err()
				}
			}
			if c.New == nil {
				continue
			}
			if p, ok := c.New.Object.(*v1.Pod); ok && p.Spec.NodeName == a.Node && !a.take(have, p, send) {
				return ctx.Err()
			}
		}
	}
}

// replaced is the UID of the pod that a change takes away: one that was deleted, or whose name another pod has now.
func replaced(c view.Change) (types.UID, bool) {
	if c.Old == nil {
		return "", false
	}
	uid := c.Old.Meta.GetUID()
	return uid, c.New == nil || c.New.Meta.GetUID() != uid
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
