package ship

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
)

// Encode makes the body of a request.
func Encode(records []timeline.Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range records {
		r := records[i]
		r.At = r.At.Round(recorder.Precision)
		if err := enc.Encode(&r); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// Answer says what became of a request's records.
type Answer struct {
	Taken   int `json:"taken"`
	Refused int `json:"refused"` // of pods that are not the node's, or stages that are not a kubelet's to tell
}

// stages are those that a kubelet tells. The others are the server's own.
var stages = []timeline.Stage{
	timeline.Taken, timeline.Admitted, timeline.Volumes, timeline.Image, timeline.Sandbox, timeline.Container, timeline.Probe, timeline.Phase,
	timeline.Condition, timeline.Terminating, timeline.Released, timeline.Restored,
}

// ReceiverConfig is what a Receiver needs.
type ReceiverConfig struct {
	Recorder *recorder.Recorder
	// Node is the name of the node that the request is from; false when it is from no node.
	Node func(*http.Request) (string, bool)
	// Bound is the node that a pod is bound to; "" when there is no such pod.
	Bound func(timeline.PodRef) string
}

// maxRemembered bounds of how many pods it is remembered whose they were.
const maxRemembered = 8192

// Receiver takes records for the server's timeline: POST Path+NODE. Whoever mounts it authorizes; it only believes a node about its own
// pods, and remembers whose they were when they are gone, since the end of a pod's story comes after the pod.
type Receiver struct {
	c ReceiverConfig

	mu   sync.Mutex
	were map[string]string // pod's UID: its node
}

// NewReceiver makes a Receiver.
func NewReceiver(c ReceiverConfig) (*Receiver, error) {
	if c.Recorder == nil || c.Node == nil || c.Bound == nil {
		return nil, errors.New("ship: Recorder, Node and Bound must be set")
	}
	return &Receiver{c: c, were: map[string]string{}}, nil
}

// ServeHTTP implements http.Handler.
func (v *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "records are sent here: use POST", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Path)
	if node, ok := v.c.Node(r); !ok || node != name {
		http.Error(w, fmt.Sprintf("only the node %q may tell of its pods", name), http.StatusForbidden)
		return
	}
	records, err := decode(http.MaxBytesReader(w, r.Body, maxBytes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var a Answer
	for _, rec := range records {
		if slices.Contains(stages, rec.Stage) && v.belongs(rec.Pod, name) {
			v.c.Recorder.Import(rec)
			a.Taken++
		} else {
			a.Refused++
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}

func decode(body io.Reader) (records []timeline.Record, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxBytes)
	for lines.Scan() {
		var r timeline.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d is no record: %w", len(records)+1, err)
		}
		if records = append(records, r); len(records) > maxRecords {
			return nil, fmt.Errorf("more than %d records at once", maxRecords)
		}
	}
	return records, lines.Err()
}

func (v *Receiver) belongs(pod timeline.PodRef, node string) bool {
	if pod.UID == "" {
		return false
	}
	bound := v.c.Bound(pod)
	v.mu.Lock()
	defer v.mu.Unlock()
	if bound == "" {
		if bound = v.were[pod.UID]; bound == "" {
			bound = v.told(pod)
		}
	}
	if bound == "" {
		return false
	}
	if len(v.were) >= maxRemembered {
		clear(v.were) // the timeline itself knows of those that a scheduler bound
	}
	v.were[pod.UID] = bound
	return bound == node
}

// told is where the timeline says that a pod was bound.
func (v *Receiver) told(pod timeline.PodRef) (node string) {
	for _, r := range v.c.Recorder.Records(timeline.Query{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Stages: []timeline.Stage{timeline.Bound}}) {
		node = r.To
	}
	return node
}
