package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/podspec"
)

// seenAnnotation is when the kubelet first saw a static pod.
const seenAnnotation = "kubernetes.io/config.seen"

// maxManifest bounds a manifest, as upstream does.
const maxManifest = 10 << 20

// manifest makes static pods of what is written at one place.
type manifest struct {
	Source string // file or http
	Node   string
	Origin string // the file's path, or the URL
	Now    time.Time
}

// pod reads one pod. ignored are fields that the type does not have.
func (m manifest) pod(text []byte) (pod *v1.Pod, ignored []error, err error) {
	raw, err := oneDocument(text)
	if err != nil {
		return nil, nil, err
	}
	pod = &v1.Pod{}
	if ignored, err = kjson.UnmarshalStrict(raw, pod); err != nil {
		return nil, nil, err
	}
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return nil, nil, fmt.Errorf("apiVersion %q and kind %q: a static pod is a Pod of v1", pod.APIVersion, pod.Kind)
	}
	return pod, ignored, m.finish(pod)
}

// pods reads one pod or a list of them.
func (m manifest) pods(text []byte) (pods []*v1.Pod, err error) {
	raw, err := oneDocument(text)
	if err != nil {
		return nil, err
	}
	var list struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	if list.Kind != "PodList" && list.Kind != "List" {
		pod, _, err := m.pod(raw)
		return []*v1.Pod{pod}, err
	}
	for i, item := range list.Items {
		pod := &v1.Pod{}
		if _, err := kjson.UnmarshalStrict(item, pod); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		pod.APIVersion, pod.Kind = "v1", "Pod" // which items of a PodList need not say
		if err := m.finish(pod); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// separator is a line that begins or ends a document.
var separator = regexp.MustCompile(`(?m)^(---|\.\.\.)[ \t]*(#.*)?\r?$`)

// oneDocument is the one document of text that says something, in JSON. Ones of nothing but comments are none: many manifests begin
// with a licence and a separator.
func oneDocument(text []byte) ([]byte, error) {
	if len(text) > maxManifest {
		return nil, fmt.Errorf("it has more than %d bytes", maxManifest)
	}
	nothing := []byte("null")
	said := nothing
	for _, doc := range separator.Split(string(text), -1) {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		switch {
		case err != nil:
			return nil, err
		case bytes.Equal(raw, nothing):
		case !bytes.Equal(said, nothing):
			return nil, errors.New("it has more than one document: put each pod into a file of its own")
		default:
			said = raw
		}
	}
	return said, nil
}

// finish makes a pod this node's: it is named for the node and bound to it. Its UID is the hash of the manifest and its origin,
// so that the same manifest is the same pod after a restart, and a changed one is another. A pod that states its UID stays the
// same pod; the hash then tells its mirror that it shows an older form.
func (m manifest) finish(pod *v1.Pod) error {
	if pod.Name == "" {
		return errors.New("invalid pod: name is needed for the pod")
	}
	written, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(written, "host:%s %s:%s", m.Node, m.Source, m.Origin))
	hash := hex.EncodeToString(sum[:16])
	if pod.UID == "" {
		pod.UID = types.UID(hash)
	}
	pod.Name += "-" + strings.ToLower(m.Node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.CreationTimestamp = metav1.NewTime(m.Now)
	pod.Spec.NodeName = m.Node
	pod.Annotations = maps.Clone(pod.Annotations)
	for key, value := range map[string]string{
		podlife.SourceAnnotation: m.Source, podlife.HashAnnotation: hash, seenAnnotation: m.Now.Format(time.RFC3339Nano),
	} {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	if m.Source == "file" && !slices.ContainsFunc(pod.Spec.Tolerations, toleratesEviction) {
		// What this machine was itself told to run is not evicted from it by taints.
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	}
	kind := registry.Lookup(schema.GroupResource{Resource: "pods"})
	kind.Default(pod)
	kind.PrepareForCreate(pod)
	pod.Generation = 0 // the API server counts generations, for the mirror
	if errs := kind.CheckCreate(pod); len(errs) > 0 {
		return fmt.Errorf("invalid pod: %w", errs.ToAggregate())
	}
	if what := podspec.APIReference(pod); what != "" {
		return fmt.Errorf("static pods may not reference %s", what)
	}
	return nil
}

func toleratesEviction(t v1.Toleration) bool {
	return t.Key == "" && t.Operator == v1.TolerationOpExists && (t.Effect == v1.TaintEffectNoExecute || t.Effect == "")
}
