package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

func TestReport(t *testing.T) {
	var out bytes.Buffer
	b := NewReport(&out)
	b.Begin("etcd")("again")
	b.Fail(errors.New("no room"))
	dec := json.NewDecoder(&out)
	var stages []Stage
	for {
		var s Stage
		err := dec.Decode(&s)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		stages = append(stages, s)
	}
	if len(stages) != 2 || stages[0].Stage != "etcd" || stages[0].Note != "again" || stages[1].Err != "no room" {
		t.Errorf("got %+v", stages)
	}
}
