package verbs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
)

// A quantity whose power of ten nobody could compute is refused at once, in whatever a patch says it; a text that looks so is a text.
func TestHugeExponentsInPatches(t *testing.T) {
	w := newWorld(t)
	p := pod("p")
	w.create(p)
	ref := client.Pods.At("default", "p")
	for _, number := range []string{"1e999999999", "1e-999999999", `1\u0065-999999999`} {
		for kind, text := range map[types.PatchType]string{
			types.JSONPatchType:           `[{"op":"add","path":"/spec/containers/0/resources","value":{"requests":{"cpu":"%s"}}}]`,
			types.MergePatchType:          `{"spec":{"overhead":{"cpu":"%s"}}}`,
			types.StrategicMergePatchType: `{"spec":{"containers":[{"name":"c","resources":{"limits":{"memory":"%s"}}}]}}`,
			types.ApplyYAMLPatchType:      `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"%s"}}}]}}`,
		} {
			start := time.Now()
			_, _, err := w.Patch(w.ctx, admin, ref, Patch{Type: kind, Data: fmt.Appendf(nil, text, number)}, Options{Manager: "m"})
			var st apierrors.APIStatus
			if err == nil || errors.As(err, &st) && st.Status().Code < 400 {
				t.Errorf("%s of %s: %v", kind, number, err)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s of %s took %v", kind, number, took)
			}
		}
	}
	out, _, err := w.Patch(w.ctx, admin, ref, Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"annotations":{"commit":"1e999999999"}}}`)}, Options{})
	if err != nil || !strings.HasPrefix(out.(*v1.Pod).Annotations["commit"], "1e9") {
		t.Errorf("a text: %v", err)
	}
}
