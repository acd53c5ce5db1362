// Package history records what concurrent clients asked of objects and were told, and judges whether there is an order of all of it in
// which each answer is right and none comes before its question: whether the API is linearizable.
package history

import (
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verb is what was asked.
type Verb string

// The verbs.
const (
	Get    Verb = "get"
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Result is what was told.
type Result string

// The results. Unknown says that the answer was lost: the write may have happened, or happen later.
const (
	OK       Result = "ok"
	NotFound Result = "not found"
	Exists   Result = "exists"
	Conflict Result = "conflict"
	Unknown  Result = "unknown"
)

// Ask is one request for the object Name. Version is an update's precondition.
type Ask struct {
	Verb    Verb
	Name    string
	Value   string
	Version string
}

// Answer is what came back; Value and Version are the object's.
type Answer struct {
	Result  Result
	Value   string
	Version string
}

// state is one object. A version that nobody was told is "".
type state struct {
	there          bool
	value, version string
}

// Recorder takes requests from several goroutines.
type Recorder struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	open  []int // of those whose answer was lost
}

// NewRecorder starts a history.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// Do records a request and its answer, which do makes. drop leaves it out: it never reached the server.
func (r *Recorder) Do(client int, ask Ask, do func() (answer Answer, drop bool)) Answer {
	call := time.Since(r.start).Nanoseconds()
	answer, drop := do()
	if drop {
		return answer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.Result == Unknown {
		if ask.Verb == Get {
			return answer
		}
		r.open = append(r.open, len(r.ops))
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: ask, Call: call, Output: answer, Return: time.Since(r.start).Nanoseconds()})
	return answer
}

// Len is how many requests were recorded.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// Check says whether the history is linearizable; one that takes longer than limit to judge is an error.
func (r *Recorder) Check(limit time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := time.Since(r.start).Nanoseconds()
	for n, i := range r.open { // they may take effect until the end, and each client goes on: a client of its own
		r.ops[i].Return = end
		r.ops[i].ClientId = 1000 + n
	}
	model := porcupine.NondeterministicModel{
		Partition: byName,
		Init:      func() []any { return []any{state{}} },
		Step:      func(s, in, out any) []any { return step(s.(state), in.(Ask), out.(Answer)) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
	}
	switch porcupine.CheckOperationsTimeout(model.ToModel(), r.ops, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("a history of %d requests could not be judged in %v", len(r.ops), limit)
	}
	return fmt.Errorf("a history of %d requests is not linearizable", len(r.ops))
}

func byName(all []porcupine.Operation) [][]porcupine.Operation {
	at := map[string]int{}
	var out [][]porcupine.Operation
	for _, op := range all {
		name := op.Input.(Ask).Name
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], op)
	}
	return out
}

// step are the states that s may become when ask is answered so; none when it cannot be.
func step(s state, ask Ask, a Answer) []any {
	fits := func(version string) bool { return s.version == "" || s.version == version }
	var next state
	applies := false
	switch ask.Verb {
	case Get:
		switch {
		case a.Result == NotFound && !s.there:
			return []any{s}
		case a.Result == OK && s.there && s.value == a.Value && fits(a.Version):
			return []any{state{true, a.Value, a.Version}}
		}
		return nil
	case Create:
		applies, next = !s.there, state{true, ask.Value, a.Version}
		if a.Result == Exists && s.there {
			return []any{s}
		}
	case Update:
		applies, next = s.there && fits(ask.Version), state{true, ask.Value, a.Version}
		if a.Result == NotFound && !s.there || a.Result == Conflict && (!s.there || s.version != ask.Version) {
			return []any{s}
		}
	case Delete:
		applies, next = s.there, state{}
		if a.Result == NotFound && !s.there {
			return []any{s}
		}
	}
	switch {
	case a.Result == OK && applies:
		return []any{next}
	case a.Result == Unknown && applies:
		return []any{s, next}
	case a.Result == Unknown:
		return []any{s}
	}
	return nil
}
