package owners

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry"
)

const richPod = `{"metadata":{"namespace":"default","name":"p","labels":{"a":"b","c":""},"annotations":{"x":"y"},"finalizers":["a.io/x","a.io/y"],
"ownerReferences":[{"apiVersion":"v1","kind":"ReplicationController","name":"rc","uid":"u","controller":true}]},
"spec":{"nodeName":"n","tolerations":[{"key":"k","operator":"Exists","tolerationSeconds":5}],"nodeSelector":{"a":"b"},"hostNetwork":true,"priority":0,
"securityContext":{"runAsUser":0,"supplementalGroups":[1,2],"sysctls":[{"name":"s","value":"v"}]},"hostAliases":[{"ip":"1.2.3.4","hostnames":["a","b"]}],
"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"a":"b"}}}],
"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}},{"name":"w","configMap":{"name":"c","items":[{"key":"k","path":"p"}]}}],
"containers":[{"name":"c","image":"i","command":["a","b"],"env":[{"name":"A","value":"b"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
"ports":[{"containerPort":80},{"containerPort":80,"protocol":"UDP"}],"resources":{"limits":{"cpu":"1"},"requests":{"cpu":"0"}},"volumeMounts":[{"name":"v","mountPath":"/v"}],
"readinessProbe":{"httpGet":{"port":"http","path":"/"},"periodSeconds":3}},{"name":"d","image":"j"}],"initContainers":[{"name":"e","image":"k"}]},
"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

// What is owned by the object's shape is what comparing finds, whatever is set, left out or called otherwise.
func TestShapesOwnWhatComparingFinds(t *testing.T) {
	o, k := pods(t)
	slow, err := New(registry.All(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	slow.shapes = nil
	r := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for i := range 1000 {
		var tree map[string]any
		if err := json.Unmarshal([]byte(richPod), &tree); err != nil {
			t.Fatal(err)
		}
		for range r.IntN(4) {
			mutate(r, tree)
		}
		p := k.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, p); err != nil {
			continue // no pod any more
		}
		if i%2 == 0 {
			k.Default(p)
		}
		q := p.DeepCopyObject()
		if _, known := o.shapes[k].get(appendShape(nil, reflect.ValueOf(p).Elem(), false)); known {
			hits++
		}
		o.Created(k, p, "m")
		slow.Created(k, q, "m")
		got, want := metaOf(p).GetManagedFields(), metaOf(q).GetManagedFields()
		if len(got) != len(want) || len(got) == 1 && string(got[0].FieldsV1.GetRawBytes()) != string(want[0].FieldsV1.GetRawBytes()) {
			t.Fatalf("%v\nby shape\n%v\nby comparing\n%v", tree, got, want)
		}
	}
	if hits < 200 {
		t.Errorf("only %d objects had a shape that was known", hits)
	}
}

// mutate changes something somewhere.
func mutate(r *rand.Rand, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		if len(keys) == 0 {
			return
		}
		key := keys[r.IntN(len(keys))]
		if r.IntN(6) == 0 {
			delete(v, key)
			return
		}
		switch old := v[key].(type) {
		case string:
			v[key] = [...]string{"", "other", old, fmt.Sprint(r.IntN(3))}[r.IntN(4)]
		case float64:
			v[key] = float64(r.IntN(3))
		case bool:
			v[key] = !old
		default:
			mutate(r, old)
		}
	case []any:
		if len(v) == 0 {
			return
		}
		i := r.IntN(len(v))
		if s, ok := v[i].(string); ok {
			v[i] = s + "x"
			return
		}
		mutate(r, v[i])
	}
}
