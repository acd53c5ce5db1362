package history

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Data is a template as a revision holds it: the patch that puts it back.
func Data(t *v1.PodTemplateSpec) []byte {
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err) // a type of the API that has no JSON
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		panic(err) // as above
	}
	fields["$patch"] = "replace"
	out, err := json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	if err != nil {
		panic(err) // as above
	}
	return out
}

// Template is what a revision holds.
func Template(r *appsv1.ControllerRevision) (*v1.PodTemplateSpec, error) {
	var held struct {
		Spec struct {
			Template *v1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &held); err != nil {
		return nil, fmt.Errorf("revision %s: %w", r.Name, err)
	}
	if held.Spec.Template == nil {
		return nil, fmt.Errorf("revision %s holds no template", r.Name)
	}
	return held.Spec.Template, nil
}

// revision is the revision of the owner's template.
func (o Owner) revision(number int64) *appsv1.ControllerRevision {
	data := Data(o.Template)
	hash := hashOf(data, o.Collisions)
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Meta.GetNamespace(), Name: name(o.Meta.GetName(), hash), Labels: maps.Clone(o.Template.Labels),
			Annotations: maps.Clone(o.Meta.GetAnnotations()), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.Meta, o.GVK)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	r.Labels[o.HashLabel] = hash
	return r
}

// hashOf is made of letters and digits that spell no word.
func hashOf(data []byte, collisions int32) string {
	h := fnv.New32()
	h.Write(data)
	h.Write([]byte(strconv.FormatInt(int64(collisions), 10)))
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// name leaves room for the hash.
func name(owner, hash string) string { return owner[:min(len(owner), 223)] + "-" + hash }
