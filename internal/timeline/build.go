package timeline

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RefOf names the pod that an object is.
func RefOf(o metav1.Object) PodRef {
	return PodRef{Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID())}
}

// String is namespace/name.
func (p PodRef) String() string { return p.Namespace + "/" + p.Name }

// New starts a record: timeline.New(now, ref, timeline.Bound).Move("", node).With("try", 2). Each method returns a changed copy.
func New(at time.Time, pod PodRef, stage Stage) Record {
	return Record{At: at, Pod: pod, Stage: stage}
}

// About sets the subject: the container, volume, image, node or condition concerned.
func (r Record) About(subject string) Record { r.Subject = subject; return r }

// Move sets the transition.
func (r Record) Move(from, to string) Record { r.From, r.To = from, to; return r }

// Because sets the cause.
func (r Record) Because(cause string) Record { r.Cause = cause; return r }

// With adds a field. Durations are printed in milliseconds, so that the text is stable.
func (r Record) With(key string, value any) Record {
	r.Fields = append(r.Fields[:len(r.Fields):len(r.Fields)], Field{Key: key, Value: text(value)})
	return r
}

// Get is the value of a field, "" when it is missing.
func (r Record) Get(key string) string {
	for _, f := range r.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return ""
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case time.Duration:
		return v.Round(time.Millisecond).String()
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case error:
		return v.Error()
	}
	return fmt.Sprint(v)
}
