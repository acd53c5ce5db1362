package source

import (
	"context"
	"log/slog"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// set is what a source of static pods has told, and tells what changes.
type set struct {
	source string
	twice  func(p *v1.Pod, source string) // may be nil
	out    chan<- Change
	pods   map[types.UID]*v1.Pod
}

// become reports how the set turns into pods: removals first, since a changed manifest is another pod of the same name and would
// wait for itself. It returns false when ctx has ended.
func (s *set) become(ctx context.Context, pods []*v1.Pod) bool {
	want := map[types.UID]*v1.Pod{}
	for _, p := range pods {
		want[p.UID] = p
	}
	for uid, p := range s.pods {
		if want[uid] == nil {
			delete(s.pods, uid)
			if !s.send(ctx, Remove, p) {
				return false
			}
		}
	}
	for _, p := range pods {
		old := s.pods[p.UID]
		if old == p {
			continue
		}
		s.pods[p.UID] = p
		op := Add
		if old != nil {
			p.CreationTimestamp = old.CreationTimestamp
			p.Annotations[seenAnnotation] = old.Annotations[seenAnnotation]
			if op = classify(old, p); op == Reconcile {
				continue
			}
		}
		if !s.send(ctx, op, p) {
			return false
		}
	}
	return true
}

// without reports that pods have gone, whatever comes next; false when ctx has ended.
func (s *set) without(ctx context.Context, pods []*v1.Pod) bool {
	for _, p := range pods {
		if s.pods[p.UID] != p {
			continue
		}
		delete(s.pods, p.UID)
		if !s.send(ctx, Remove, p) {
			return false
		}
	}
	return true
}

func (s *set) send(ctx context.Context, op Op, p *v1.Pod) bool {
	select {
	case s.out <- Change{Source: s.source, Op: op, Pod: p}:
		return true
	case <-ctx.Done():
		return false
	}
}

// unnamed leaves out pods whose name an earlier pod has.
func (s *set) unnamed(pods []*v1.Pod, log *slog.Logger) []*v1.Pod {
	names := map[types.NamespacedName]bool{}
	return slices.DeleteFunc(pods, func(p *v1.Pod) bool {
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		taken := names[name]
		if taken {
			log.Warn("two static pods have one name; the one that comes later is passed over", "source", s.source, "pod", p.Namespace+"/"+p.Name)
			if s.twice != nil {
				s.twice(p, s.source)
			}
		}
		names[name] = true
		return taken
	})
}
