package deployment

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/dump"
)

// Annotations of a ReplicaSet: its number, the numbers that it had before it was rolled back to, and the sizes that it was made for.
const (
	revisionNote    = "deployment.kubernetes.io/revision"
	revisionHistory = "deployment.kubernetes.io/revision-history"
	desiredReplicas = "deployment.kubernetes.io/desired-replicas"
	maxReplicas     = "deployment.kubernetes.io/max-replicas"
)

// historyLimit is how long the annotation of earlier numbers gets.
const historyLimit = 2000

// own are the annotations that a Deployment and its ReplicaSets do not share.
var own = []string{v1.LastAppliedConfigAnnotation, revisionNote, revisionHistory, desiredReplicas, maxReplicas, appsv1.DeprecatedRollbackTo}

// sameTemplate compares but for the label that tells revisions apart.
func sameTemplate(a, b *v1.PodTemplateSpec) bool {
	bare := func(t *v1.PodTemplateSpec) v1.PodTemplateSpec {
		c := *t
		c.Labels = maps.Clone(t.Labels)
		delete(c.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		return c
	}
	return equality.Semantic.DeepEqual(bare(a), bare(b))
}

// find looks for the set of the Deployment's template: the oldest, should there be several.
func (r *roll) find() *set {
	i := slices.IndexFunc(r.sets, func(s *set) bool { return sameTemplate(&s.seen.Spec.Template, &r.d.Spec.Template) })
	if i < 0 {
		return nil
	}
	return r.sets[i]
}

// templateHash is upstream's name for a template, so that a cluster's ReplicaSets stay what they are whoever controls them.
func templateHash(t *v1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*t))
	if collisions != nil {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(uint32(*collisions))))
	}
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// setName is the name of a Deployment's ReplicaSet, cut where it would be too long.
func setName(deployment, hash string) string {
	most := validation.DNS1123SubdomainMaxLength - len("-") - len(hash)
	return deployment[:min(len(deployment), most)] + "-" + hash
}

// revision is a set's number, 0 when it has none.
func revision(s *set) int64 {
	n, err := strconv.ParseInt(s.notes[revisionNote], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// next is the number that the Deployment's template gets: one more than any other has.
func (r *roll) next() int64 {
	var most int64
	for _, s := range r.old() {
		most = max(most, revision(s))
	}
	return most + 1
}

// number gives the new set, when there is one, its number and the Deployment's annotations.
func (r *roll) number() {
	if r.new == nil {
		return
	}
	r.annotate(r.new, true)
	r.new.minReady = r.d.Spec.MinReadySeconds
	r.Revision = r.new.notes[revisionNote]
	if hasDeadline(r.d) && condition(&r.Status, appsv1.DeploymentProgressing) == nil {
		r.set(appsv1.DeploymentProgressing, v1.ConditionTrue, "FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", r.new.seen.Name))
	}
}

func (r *roll) annotate(s *set, exists bool) {
	was, had := s.notes[revisionNote]
	if _, err := strconv.ParseInt(was, 10, 64); had && was != "" && err != nil {
		return // somebody else's number: it is left alone
	}
	for k, v := range r.d.Annotations {
		if !slices.Contains(own, k) {
			s.note(k, v)
		}
	}
	if n := r.next(); revision(s) < n {
		s.note(revisionNote, strconv.FormatInt(n, 10))
		if had {
			s.noteHistory(was)
		}
	}
	if !exists {
		r.noteSize(s)
	}
}

// noteHistory keeps a number that the set had; when there are too many, the first are dropped.
func (s *set) noteHistory(was string) {
	all := append(strings.FieldsFunc(s.notes[revisionHistory], func(c rune) bool { return c == ',' }), was)
	text := strings.Join(all, ",")
	for len(text) > historyLimit {
		_, text, _ = strings.Cut(text, ",")
	}
	s.note(revisionHistory, text)
}

// make plans the ReplicaSet of the Deployment's template, as large as it may be at once; false says that it is too early for one.
func (r *roll) make() bool {
	d := r.d
	if wait := r.collisionPause(); wait > 0 {
		r.again(wait)
		return false
	}
	t := d.Spec.Template.DeepCopy()
	hash := templateHash(t, d.Status.CollisionCount)
	t.Labels = with(t.Labels, hash)
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, hash)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: setName(d.Name, hash), Namespace: d.Namespace, Labels: maps.Clone(t.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)), MinReadySeconds: d.Spec.MinReadySeconds, Selector: selector, Template: *t},
	}
	s := newSet(rs)
	s.replicas = r.room(0, sum(r.sets, replicas))
	r.annotate(s, false)
	r.sets, r.new, r.Create = append(r.sets, s), s, rs
	*rs.Spec.Replicas, rs.Annotations = s.replicas, s.notes
	r.Revision = s.notes[revisionNote]
	if hasDeadline(d) {
		r.set(appsv1.DeploymentProgressing, v1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", rs.Name))
	}
	return true
}

// collisionPause is how long a new set must wait when names have been taken before. Where admission changes every set's template, each set
// looks like somebody else's, and the next one would be made at once, without end.
func (r *roll) collisionPause() time.Duration {
	n := r.d.Status.CollisionCount
	if n == nil || *n <= 0 || len(r.sets) == 0 {
		return 0
	}
	newest := r.sets[len(r.sets)-1].seen.CreationTimestamp
	return newest.Add(time.Second << min(*n, 6)).Sub(r.now)
}

// with are labels and the one that tells revisions apart.
func with(labels map[string]string, hash string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return out
}

// rollbackTo is the number that an annotation of earlier times asks for, nil for none.
func rollbackTo(d *appsv1.Deployment) *int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// rollBack plans the return to a number's template, and to its annotations; 0 is the number before the last.
func (r *roll) rollBack(to int64) {
	r.Rollback = &Rollback{}
	if to == 0 {
		if to = r.lastNumber(); to == 0 {
			r.tell(v1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
			return
		}
	}
	i := slices.IndexFunc(r.sets, func(s *set) bool { return revision(s) == to })
	switch {
	case i < 0:
		r.tell(v1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
	case r.sets[i] == r.new:
		r.tell(v1.EventTypeWarning, "DeploymentRollbackTemplateUnchanged", fmt.Sprintf("The rollback revision contains the same template as current deployment %q", r.d.Name))
	default:
		s := r.sets[i]
		t := s.seen.Spec.Template.DeepCopy()
		delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		notes := maps.Clone(r.d.Annotations)
		maps.DeleteFunc(notes, func(k, _ string) bool { return !slices.Contains(own, k) })
		for k, v := range s.notes {
			if !slices.Contains(own, k) {
				notes[k] = v
			}
		}
		r.Rollback.Template, r.Rollback.Annotations = t, notes
		r.tell(v1.EventTypeNormal, "DeploymentRollback", fmt.Sprintf("Rolled back deployment %q to revision %d", r.d.Name, to))
	}
}

// lastNumber is the highest number but one.
func (r *roll) lastNumber() int64 {
	var first, second int64
	for _, s := range r.sets {
		if n := revision(s); n >= first {
			first, second = n, first
		} else {
			second = max(second, n)
		}
	}
	return second
}
