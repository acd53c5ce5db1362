package codec_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/codec"
)

var podKind = registry.Lookup(schema.GroupResource{Resource: "pods"})

func examplePod() *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", Labels: map[string]string{"a": "b"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
}

// upstream is what an upstream API server stores for the pod p of ns: the envelope, and the pod's message.
const upstream = "k8s\x00\n\x09\n\x02v1\x12\x03Pod\x12\x13\n\x0b\n\x01p\x12\x00\x1a\x02ns\"\x00\x12\x02B\x00\x1a\x00\x1a\x00\"\x00"

func TestRoundTrip(t *testing.T) {
	pod := examplePod()
	pod.ResourceVersion = "7"
	value, err := codec.Encode(pod)
	if err != nil {
		t.Fatal(err)
	}
	if pod.ResourceVersion != "7" {
		t.Error("Encode changed its argument")
	}
	if !bytes.HasPrefix(value, []byte("k8s\x00\n\x09\n\x02v1\x12\x03Pod\x12")) || !bytes.HasSuffix(value, []byte("\x1a\x00\"\x00")) {
		t.Errorf("the envelope is not upstream's: %q", value)
	}
	back, err := codec.Decode(podKind, value, 42)
	if err != nil {
		t.Fatal(err)
	}
	pod.ResourceVersion = "42"
	if !apiequality.Semantic.DeepEqual(pod, back) {
		t.Errorf("got %+v, want %+v", back, pod)
	}
	again, err := codec.Encode(back)
	if err != nil || !bytes.Equal(value, again) {
		t.Errorf("the stored form is not stable: %q, %q, %v", value, again, err)
	}
}

func TestDecodeKeepsNothing(t *testing.T) {
	value, err := codec.Encode(examplePod())
	if err != nil {
		t.Fatal(err)
	}
	obj, err := codec.Decode(podKind, value, 0)
	if err != nil {
		t.Fatal(err)
	}
	clear(value)
	if pod := obj.(*v1.Pod); pod.Name != "x" || pod.ResourceVersion != "" || pod.Labels["a"] != "b" {
		t.Errorf("got %+v", pod)
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ name, value, err string }{
		{"upstream's bytes", upstream, ""},
		{"JSON", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns"}}`, ""},
		{"empty", "", "neither protobuf"},
		{"text", "hello", "neither protobuf"},
		{"broken JSON", `{"apiVersion":`, "unexpected end"},
		{"JSON of another kind", `{"apiVersion":"v1","kind":"Node"}`, "is a v1 Node, not a v1 Pod"},
		{"another version", strings.Replace(upstream, "v1", "v2", 1), "is a v2 Pod, not a v1 Pod"},
		{"cut off", upstream[:20], "envelope"},
		{"only the magic", "k8s\x00", "is a  , not a v1 Pod"},
		{"encrypted", "k8s:enc:aescbc:v1:key1:xyz", "encrypted at rest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj, err := codec.Decode(podKind, []byte(c.value), 3)
			switch {
			case c.err == "" && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Fatalf("error %v, want %q", err, c.err)
			case err != nil:
				return
			}
			if pod := obj.(*v1.Pod); pod.Name != "p" || pod.Namespace != "ns" || pod.ResourceVersion != "3" || pod.Kind != "Pod" {
				t.Errorf("got %+v", pod)
			}
		})
	}
}

func TestEncodeNeedsTypeMeta(t *testing.T) {
	pod := examplePod()
	pod.TypeMeta = metav1.TypeMeta{}
	if _, err := codec.Encode(pod); err == nil || !strings.Contains(err.Error(), "apiVersion and kind") {
		t.Errorf("error %v", err)
	}
}

// FuzzDecode: whatever is in the store, of whatever kind and version, is refused or is an object that can be stored again.
func FuzzDecode(f *testing.F) {
	var kinds []*registry.Kind
	for _, k := range registry.All() {
		if !k.Unstored && k.Served == nil {
			kinds = append(kinds, k)
		}
	}
	f.Add(uint8(0), []byte(upstream))
	for i, k := range kinds {
		for _, version := range []string{
			k.StoredGVK().GroupVersion().String(), k.GVK.Group + "/v1", k.GVK.Group + "/v1beta1", k.GVK.Group + "/v1beta2", k.GVK.Group + "/v1alpha1", "extensions/v1beta1",
		} {
			f.Add(uint8(i), []byte(`{"apiVersion":"`+version+`","kind":"`+k.GVK.Kind+`","metadata":{"name":"a"},"spec":{},"rules":[{}],"subjects":[{}],"endpoints":[{}]}`))
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, value []byte) {
		k := kinds[int(i)%len(kinds)]
		obj, err := codec.Decode(k, value, 1)
		if err != nil {
			return
		}
		if is, want := reflect.TypeOf(obj), reflect.TypeOf(k.New()); is != want {
			t.Fatalf("it is a %v, not a %v", is, want)
		}
		if _, err := codec.Encode(obj); err != nil {
			t.Errorf("decoded, but cannot be encoded: %v", err)
		}
	})
}

// What older clusters stored is read as what it means today, and is stored in today's version when it is written.
func TestStoredByAnOlderCluster(t *testing.T) {
	for _, c := range []struct{ group, resource, value, want string }{
		{
			"autoscaling", "horizontalpodautoscalers",
			`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":70}}`,
			`"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}]`,
		},
		{
			"networking.k8s.io", "ingresses",
			`{"apiVersion":"extensions/v1beta1","kind":"Ingress","metadata":{"name":"a"},"spec":{"backend":{"serviceName":"web","servicePort":"http"}}}`,
			`"defaultBackend":{"service":{"name":"web","port":{"name":"http"}}}`,
		},
		{
			"policy", "poddisruptionbudgets",
			`{"apiVersion":"policy/v1beta1","kind":"PodDisruptionBudget","metadata":{"name":"a"},"spec":{"selector":{}}}`,
			`"selector":{"matchExpressions":[{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"Exists"}]}`,
		},
		{
			"apps", "deployments",
			`{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
			`"metadata":{"name":"a","labels":{"a":"b"}}`,
		},
	} {
		k := registry.Lookup(schema.GroupResource{Group: c.group, Resource: c.resource})
		obj, err := codec.Decode(k, []byte(c.value), 0)
		if err != nil {
			t.Errorf("%s: %v", c.resource, err)
			continue
		}
		raw, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), c.want) {
			t.Errorf("%s is %s, want in it %s", c.resource, raw, c.want)
		}
		value, err := codec.Encode(obj)
		if want := k.GroupVersion().String(); err != nil || !bytes.Contains(value, []byte(want)) {
			t.Errorf("%s is stored again as %.60q, %v, want %s", c.resource, value, err, want)
		}
	}
}

// A kind that is kept in an older version is read from that one and from its own, and is always of its own.
func TestStoredInAnOlderVersion(t *testing.T) {
	k := registry.Lookup(schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"})
	for _, version := range []string{"v1beta1", "v1"} {
		b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: "x"}}
		b.SetGroupVersionKind(schema.GroupVersionKind{Group: k.GVK.Group, Version: version, Kind: k.GVK.Kind})
		value, err := codec.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := codec.Decode(k, value, 7)
		if err != nil || obj.GetObjectKind().GroupVersionKind() != k.GVK || obj.(*certificatesv1.ClusterTrustBundle).Spec.TrustBundle != "x" {
			t.Errorf("of %s: %v, %v", version, obj, err)
		}
	}
	if k.StoredGVK().Version != "v1beta1" {
		t.Error("upstream's older servers could not read it")
	}
}
