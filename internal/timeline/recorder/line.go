package recorder

import (
	"encoding/json"
	"strconv"
	"time"

	"podo.dev/podo/internal/timeline"
)

// appendLine appends a record's JSON, as encoding/json writes it: by hand, since every pod has dozens of records.
func appendLine(b []byte, r *timeline.Record) []byte {
	b = strconv.AppendUint(append(b, `{"seq":`...), r.Seq, 10)
	b = r.At.AppendFormat(append(b, `,"at":"`...), time.RFC3339Nano)
	b = appendText(append(b, `","pod":{"namespace":`...), r.Pod.Namespace)
	b = appendText(append(b, `,"name":`...), r.Pod.Name)
	b = appendNamed(b, "uid", r.Pod.UID)
	b = appendText(append(b, `},"stage":`...), string(r.Stage))
	b = appendNamed(b, "subject", r.Subject)
	b = appendNamed(b, "from", r.From)
	b = appendNamed(b, "to", r.To)
	b = appendNamed(b, "cause", r.Cause)
	for i, f := range r.Fields {
		if i == 0 {
			b = append(b, `,"fields":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"k":`...), f.Key)
		b = appendText(append(b, `,"v":`...), f.Value)
		b = append(b, '}')
	}
	if len(r.Fields) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendNamed appends what is not empty, under its name.
func appendNamed(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendText(b, text)
}

func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil {
				quoted = []byte(`""`) // no text is refused
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
