package timeline

import (
	"slices"
	"time"
)

// Query selects records. Empty members select everything.
type Query struct {
	Namespace string
	Name      string
	UID       string
	Since     time.Time // records not before it
	After     uint64    // records with a greater Seq
	Stages    []Stage
}

// Match tells whether a record is selected.
func (q Query) Match(r Record) bool {
	switch {
	case q.Namespace != "" && q.Namespace != r.Pod.Namespace,
		q.Name != "" && q.Name != r.Pod.Name,
		q.UID != "" && q.UID != r.Pod.UID,
		r.At.Before(q.Since),
		r.Seq <= q.After && q.After > 0,
		len(q.Stages) > 0 && !slices.Contains(q.Stages, r.Stage):
		return false
	}
	return true
}

// Select returns the records that match, in their order.
func Select(records []Record, q Query) []Record {
	var out []Record
	for _, r := range records {
		if q.Match(r) {
			out = append(out, r)
		}
	}
	return out
}

// PodRecords are the records of one pod, in order of time.
type PodRecords struct {
	Pod     PodRef
	Records []Record
}

// Group parts records by pod, pods in the order of their first records. Records made before a pod had a UID (accepted)
// belong to the next pod of that name.
func Group(records []Record) []PodRecords {
	var out []PodRecords
	index := map[PodRef]int{}
	pending := map[PodRef][]Record{}
	for _, r := range sorted(records) {
		if r.Pod.UID == "" {
			pending[r.Pod] = append(pending[r.Pod], r)
			continue
		}
		i, ok := index[r.Pod]
		if !ok {
			i = len(out)
			index[r.Pod] = i
			unnamed := PodRef{Namespace: r.Pod.Namespace, Name: r.Pod.Name}
			out = append(out, PodRecords{Pod: r.Pod, Records: pending[unnamed]})
			delete(pending, unnamed)
		}
		out[i].Records = append(out[i].Records, r)
	}
	for pod, rs := range pending {
		out = append(out, PodRecords{Pod: pod, Records: rs})
	}
	slices.SortStableFunc(out, func(a, b PodRecords) int {
		if c := a.Records[0].At.Compare(b.Records[0].At); c != 0 {
			return c
		}
		return int(int64(a.Records[0].Seq) - int64(b.Records[0].Seq))
	})
	return out
}

// Last is the newest record of a stage; ok is false when there is none.
func Last(records []Record, stage Stage) (r Record, ok bool) {
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Stage == stage {
			return records[i], true
		}
	}
	return Record{}, false
}
