package loop

import (
	"fmt"
	"log/slog"

	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// Parts are what most controllers work with: what they read, as whom they write, and whom they tell.
type Parts struct {
	View   *view.View
	Client client.Client
	Events record.EventRecorder
	Logger *slog.Logger // nil: nobody
}

// Check says what is missing to the controller of that name.
func (p Parts) Check(name string) error {
	if p.View == nil || p.Client == nil || p.Events == nil {
		return fmt.Errorf("%s: View, Client and Events are required", name)
	}
	return nil
}

// Itself is the key of the changed object, as long as that is there.
func Itself(c view.Change) []view.Key {
	if c.New == nil {
		return nil
	}
	return []view.Key{c.New.Key}
}
