package framework

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kind is all that a selector sees of a pod.
type kind struct {
	namespace string
	labels    labels.Set
	leaving   bool // deleted, and not gone yet
}

func kindOf(pod *v1.Pod) kind {
	return kind{pod.Namespace, pod.Labels, pod.DeletionTimestamp != nil}
}

// alike are the placed pods of one kind, so that a selector is evaluated once for all of them and not again when another comes.
type alike struct {
	kind
	key  string // within its namespace
	pods int
	on   places
	// tallies are those that count them, and perhaps some that have been dropped.
	tallies []*Tally
}

func (k kind) key() string {
	if k.leaving {
		return "-" + k.labels.String()
	}
	return k.labels.String()
}

// join takes in that a pod is placed.
func (t *tallies) join(n *Node, pod *Pod) {
	k := kindOf(pod.Object)
	key := k.key()
	group := t.alikes[k.namespace]
	if group == nil {
		group = map[string]*alike{}
		t.alikes[k.namespace] = group
	}
	a := group[key]
	if a == nil {
		a = &alike{kind: k, key: key}
		group[key] = a
		for _, x := range t.byKey {
			if x.of(&k) {
				a.tallies = append(a.tallies, x)
			}
		}
	}
	a.pods++
	a.on.add(n.id, 1)
	pod.like = a
}

// leave accounts for a pod that leaves its node.
func (t *tallies) leave(n *Node, pod *Pod) {
	a := pod.like
	pod.like = nil
	a.on.add(n.id, -1)
	if a.pods--; a.pods > 0 {
		return
	}
	group := t.alikes[a.namespace]
	if delete(group, a.key); len(group) == 0 {
		delete(t.alikes, a.namespace)
	}
}

// every lists the alike of a namespace; "" stands for all.
func (t *tallies) every(namespace string) iter.Seq[*alike] {
	return func(yield func(*alike) bool) {
		if namespace != "" {
			for _, a := range t.alikes[namespace] {
				if !yield(a) {
					return
				}
			}
			return
		}
		for _, group := range t.alikes {
			for _, a := range group {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// places is how many of the pods are on which nodes. Most of tens of thousands of pods may be like no other, so a single place
// needs no map.
type places struct {
	id, count int
	more      map[int]int // all places, once there have been two
}

func (p *places) add(id, count int) {
	switch {
	case p.more != nil:
	case p.count == 0 || p.id == id:
		p.id = id
		p.count += count
		return
	default:
		p.more = map[int]int{p.id: p.count}
	}
	if p.more[id] += count; p.more[id] == 0 {
		delete(p.more, id)
	}
}

func (p *places) all() iter.Seq2[int, int] {
	return func(yield func(id, count int) bool) {
		if p.more == nil {
			if p.count > 0 {
				yield(p.id, p.count)
			}
			return
		}
		for id, count := range p.more {
			if !yield(id, count) {
				return
			}
		}
	}
}
