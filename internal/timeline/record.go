// Package timeline is the append-only story of every pod: one typed record where each stage commits. It is pure: types,
// queries and the stable text form. The recorder, which holds state, is timeline/recorder.
package timeline

import "time"

// Stage names the place on a pod's journey where a record was made. Its order is the order of the journey.
type Stage string

// The stages. Who writes: apiserver (accepted, stored, deleted, deleting), view (seen), scheduler (queued, attempt,
// bound), kubelet (taken and after).
const (
	Accepted    Stage = "accepted"    // authenticated, authorized, admitted, valid
	Stored      Stage = "stored"      // committed; From/To empty, field rev
	Seen        Stage = "seen"        // decoded and published by the view
	Queued      Stage = "queued"      // in the scheduler's queue: To is active, backoff, unschedulable or gated
	Attempt     Stage = "attempt"     // one scheduling attempt; fields tell what filtered which node
	Bound       Stage = "bound"       // To is the node
	Taken       Stage = "taken"       // the kubelet's pod worker has it
	Admitted    Stage = "admitted"    // checked against the node; To is ok or the rejection's reason
	Volumes     Stage = "volumes"     // mounted, failed, unmounted
	Image       Stage = "image"       // pulling, pulled (bytes, ms), present, failed, backoff
	Sandbox     Stage = "sandbox"     // creating, up (ip), gone, failed
	Container   Stage = "container"   // a container's From -> To
	Probe       Stage = "probe"       // a probe's result turned
	Phase       Stage = "phase"       // the pod's phase From -> To
	Condition   Stage = "condition"   // Subject is the condition type, From -> To its status
	Terminating Stage = "terminating" // stop asked: Cause says by whom or what, field grace
	Released    Stage = "released"    // volumes, sandbox, cgroup returned
	Deleting    Stage = "deleting"    // deletionTimestamp set in the API
	Deleted     Stage = "deleted"     // the object is gone from the API
	Restored    Stage = "restored"    // the kubelet came back and found the pod as it is
)

// PodRef names a pod. UID keeps pods of one name apart.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Field is one detail of a record, in the order in which it is printed.
type Field struct {
	Key   string `json:"k"`
	Value string `json:"v"`
}

// Record is one transition. It is a value and never changes once appended.
type Record struct {
	Seq     uint64    `json:"seq"` // given by the recorder, grows
	At      time.Time `json:"at"`
	Pod     PodRef    `json:"pod"`
	Stage   Stage     `json:"stage"`
	Subject string    `json:"subject,omitempty"` // container, volume, image, node or condition concerned
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Cause   string    `json:"cause,omitempty"` // why: an upstream reason word or a short sentence
	Fields  []Field   `json:"fields,omitempty"`
}

// Append is how stages hand a record on. Implementations never block and never fail; nil must not be called, use Discard.
type Append func(Record)

// Discard drops records.
func Discard(Record) {}
