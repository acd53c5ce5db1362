package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
)

// A watch in tables has its columns in the first event alone, whatever that is, and each event is a row: bookmarks too, whose mark that the
// list is over stands in the row's object even where no objects are wanted.
func TestTablesOfAWatch(t *testing.T) {
	l := newLocked(t, nil, town()...)
	const path = "/api/v1/namespaces/team/serviceaccounts?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
	for include, object := range map[string]string{"None": "", "Metadata": "PartialObjectMetadata", "Object": "ServiceAccount"} {
		t.Run(include, func(t *testing.T) {
			t.Parallel()
			tablesOfAWatch(t, l, path+"&includeObject="+include, object)
		})
	}
}

// tablesOfAWatch: object is the kind of what a row has.
func tablesOfAWatch(t *testing.T, l *locked, path, object string) {
	w := l.ask("jane", "GET "+path, "Accept: "+tableAccept, "")
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		var e struct {
			Type   string
			Object struct {
				Kind              string
				Metadata          metav1.ListMeta
				ColumnDefinitions []metav1.TableColumnDefinition
				Rows              []struct {
					Cells  []any
					Object *metav1.PartialObjectMetadata
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || len(e.Object.Rows) != 1 || e.Object.Metadata.ResourceVersion == "" {
			t.Fatalf("%v: %s", err, line)
		}
		row := e.Object.Rows[0]
		text := fmt.Sprint(e.Type, " ", len(e.Object.ColumnDefinitions), " columns, ", row.Cells[0])
		if row.Object != nil {
			text += ", a " + row.Object.Kind
			if row.Object.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				text += ", the end of the list"
			}
		}
		got = append(got, text)
	}
	of := func(kind string) string {
		if kind == "" {
			return ""
		}
		return ", a " + kind
	}
	end := object
	if end == "" {
		end = "PartialObjectMetadata"
	}
	want := []string{
		"ADDED 2 columns, admin" + of(object), "ADDED 0 columns, default" + of(object), "BOOKMARK 0 columns, " + of(end) + ", the end of the list",
	}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Every kind that can be watched has a row for a bookmark.
func TestEveryKindsBookmarkIsARow(t *testing.T) {
	for _, k := range registry.All() {
		if !slices.Contains(k.Verbs, "watch") {
			continue
		}
		tab, err := newTabler(k, metaGV, "", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		fr := &framer{form: form{as: table, in: metaGV, media: jsonType}, kind: k, tabler: tab}
		e := (&verbs.Stream{Kind: k}).Bookmark(7)
		text, err := fr.event(nil, &e)
		if err != nil || e.Type != watch.Bookmark || !strings.Contains(string(text), `"rows":[{"cells":[`) || !strings.Contains(string(text), `"resourceVersion":"7"`) {
			t.Errorf("%s: %s, %v", k.GVK, text, err)
		}
	}
}
