// Package history keeps the templates that an object has had, each in a ControllerRevision, so that a change can be rolled out pod by
// pod and be undone.
//
//	plan.go      pure: the object's revisions and its template -> which revision is the template's, what to take, number, create, forget
//	revision.go  pure: a template as a revision, and back
//	record.go    does it
package history

import (
	"bytes"
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry/podobject"
)

// Owner is whose history it is.
type Owner struct {
	Meta     metav1.Object
	GVK      schema.GroupVersionKind
	Selector labels.Selector
	Template *v1.PodTemplateSpec
	// HashLabel is the label of a revision that has what its name ends in.
	HashLabel string
	// Collisions is how often a name was taken by another template.
	Collisions int32
}

// Plan is what to do about an owner's revisions.
type Plan struct {
	Adopt, Release []*appsv1.ControllerRevision
	// Kept are the owner's revisions, oldest first, those to adopt among them.
	Kept []*appsv1.ControllerRevision
	// Current is the template's revision, nil when there is none yet: then it is to be created with Number. An older one that is the
	// template's again becomes the newest: it gets Number, which is 0 when it has the right one.
	Current *appsv1.ControllerRevision
	Number  int64
	// Twins are the others of Kept that hold the template too.
	Twins []*appsv1.ControllerRevision
}

// Decide takes the revisions that the owner controls and, of its namespace, those that nobody does.
func Decide(o Owner, revisions []*appsv1.ControllerRevision) Plan {
	var p Plan
	deleting := o.Meta.GetDeletionTimestamp() != nil
	for _, r := range revisions {
		ref := metav1.GetControllerOfNoCopy(r)
		matches := o.Selector.Matches(labels.Set(r.Labels))
		switch {
		case ref != nil && ref.UID != o.Meta.GetUID():
		case ref != nil && matches:
			p.Kept = append(p.Kept, r)
		case ref != nil:
			if !deleting {
				p.Release = append(p.Release, r)
			}
		case matches && !deleting && r.DeletionTimestamp == nil:
			p.Kept, p.Adopt = append(p.Kept, r), append(p.Adopt, r)
		}
	}
	slices.SortStableFunc(p.Kept, older)
	p.find(o)
	return p
}

func (p *Plan) find(o Owner) {
	if len(p.Kept) == 0 {
		p.Number = 1
		return
	}
	last := len(p.Kept) - 1
	next := p.Kept[last].Revision + 1
	data := Data(o.Template)
	for i := last; i >= 0; i-- {
		switch {
		case !bytes.Equal(p.Kept[i].Data.Raw, data):
		case p.Current != nil:
			p.Twins = append(p.Twins, p.Kept[i])
		default:
			p.Current = p.Kept[i]
			if i != last {
				p.Number = next
			}
		}
	}
	if p.Current != nil {
		return
	}
	// A revision that an older server wrote may lack what is defaulted today.
	if t, err := Template(p.Kept[last]); err == nil {
		podobject.DefaultTemplate(t)
		if bytes.Equal(Data(t), data) {
			p.Current = p.Kept[last]
			return
		}
	}
	p.Number = next
}

func older(a, b *appsv1.ControllerRevision) int {
	return cmp.Or(
		cmp.Compare(a.Revision, b.Revision),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// Forget says which of the revisions, oldest first, to delete, so that besides those in use there are at most limit; a negative limit
// keeps all.
func Forget(kept []*appsv1.ControllerRevision, inUse func(*appsv1.ControllerRevision) bool, limit int) []*appsv1.ControllerRevision {
	var spare []*appsv1.ControllerRevision
	for _, r := range kept {
		if !inUse(r) {
			spare = append(spare, r)
		}
	}
	if limit < 0 || len(spare) <= limit {
		return nil
	}
	return spare[:len(spare)-limit]
}
