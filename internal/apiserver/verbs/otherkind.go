package verbs

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// notRegistered says, in upstream's words, where its server looked for a kind.
func notRegistered(k schema.GroupVersionKind) error {
	return fmt.Errorf("no kind %q is registered for version %q in scheme %q", k.Kind, k.GroupVersion(), "pkg/api/legacyscheme/scheme.go:30")
}

// Other says why data that calls itself got cannot become an object of the kind wanted, in words; nil when
// it can, where only the versions differ. As upstream has it, data of any kind of the API is read as what it calls itself before that, if it
// is given: JSON.
func Other(got, want schema.GroupVersionKind, data []byte) error {
	is, err := scheme.Scheme.New(got)
	if runtime.IsNotRegisteredError(err) {
		return notRegistered(got)
	}
	if err != nil {
		return err
	}
	if data != nil {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, is); err != nil {
			return err
		}
	}
	if from, to := Internal(got), Internal(want); from != to {
		return fmt.Errorf("converting (%s) to (%s): unknown conversion", reflect.TypeOf(is).Elem(), to)
	}
	return nil
}

// Internal is what upstream calls a type that is no version's.
func Internal(k schema.GroupVersionKind) string {
	of, _, _ := strings.Cut(k.Group, ".")
	switch {
	case k.Kind == "Scale":
		of = "autoscaling"
	case of == "", of == "events":
		of = "core"
	case of == "extensions" && (strings.HasPrefix(k.Kind, "Ingress") || strings.HasPrefix(k.Kind, "NetworkPolicy")):
		of = "networking"
	case of == "extensions":
		of = "apps"
	}
	return of + "." + k.Kind
}
