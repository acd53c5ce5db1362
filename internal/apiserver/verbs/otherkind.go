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

// notRegistered is upstream's error for an unknown kind, which says where its server looked.
func notRegistered(k schema.GroupVersionKind) error {
	return fmt.Errorf("no kind %q is registered for version %q in scheme %q", k.Kind, k.GroupVersion(), "pkg/api/legacyscheme/scheme.go:30")
}

// Other says why data that calls itself got cannot become an object of the kind wanted; nil when only the versions differ. As
// upstream has it, data of any known kind is first decoded as what it calls itself, if data (JSON) is given.
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

// Internal is upstream's name of a type without a version.
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
