package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/view"
)

// cachedMetadata is the JSON of a PartialObjectMetadata of the object, as in a table's row.
const cachedMetadata view.Form = "json metadata"

// cells is a row without its object.
func (t *tabler) cells(obj runtime.Object, now time.Time) metav1.TableRow {
	row := metav1.TableRow{Cells: t.row(obj, now)}
	if conditions := t.kind.RowConditions; conditions != nil {
		row.Conditions = conditions(obj)
	}
	return row
}

// listBody is the table of a list. Only the cells are encoded for each answer; the object of a row is cached and spliced in.
func (t *tabler) listBody(f form, l *verbs.List) (*body, error) {
	objs := make([]runtime.Object, len(l.Items))
	for i, e := range l.Items {
		objs[i] = e.Object
	}
	if among := t.kind.RowAmong; among != nil {
		t.row = among(objs)
	}
	if f.media == protoType {
		tab, err := t.table(listMeta(l), objs...)
		if err != nil {
			return nil, err
		}
		return objectBody(f, t.in.WithKind(tableKind), tab, nil)
	}
	empty, err := t.table(listMeta(l))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(empty)
	if err != nil {
		return nil, err
	}
	head, ok := bytes.CutSuffix(text, tail) // the rows come last
	if !ok {
		return nil, fmt.Errorf("a table without rows is %s", text)
	}
	b := &body{pieces: make([][]byte, 0, 3*len(l.Items)+4)}
	b.add(head)
	now := t.now()
	for i, e := range l.Items {
		row, err := json.Marshal(t.cells(e.Object, now))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.add(comma)
		}
		if t.include == metav1.IncludeNone {
			b.add(row)
			continue
		}
		row, ok := bytes.CutSuffix(row, noObject) // the object comes last
		if !ok {
			return nil, fmt.Errorf("a row without its object is %s", row)
		}
		object, err := t.object(e)
		if err != nil {
			return nil, err
		}
		b.add(row, object, shut)
	}
	b.add(tail)
	return b.text(f)
}

var (
	tail     = []byte("]}")
	noObject = []byte("null}")
	shut     = []byte("}")
)

// object is the object of an entry's row, in JSON.
func (t *tabler) object(e *view.Entry) ([]byte, error) {
	switch {
	case t.include == metav1.IncludeMetadata && t.in != metaGV: // too rare to be cached
		return json.Marshal(partialOf(e.Object, t.in))
	case t.include == metav1.IncludeMetadata:
		return e.Encoded(cachedMetadata, func(obj runtime.Object) ([]byte, error) { return json.Marshal(partialOf(obj, metaGV)) })
	case t.kind.Served != nil:
		return encodeJSON(t.kind.Out(e.Object))
	}
	return objectBytes(jsonType, e.Object, e)
}
