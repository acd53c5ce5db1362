package oracle

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mutator changes objects at random. Its changes aim at what rules look at: enumerated values of the field's own type, strings
// that already occur in the object (references), limits, and lists that grow, shrink or repeat.
type mutator struct {
	*rand.Rand
	enums   map[reflect.Type][]string
	present []string // strings of the object being changed
}

func newMutator(seed uint64, enums map[string][]string) *mutator {
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 7))}
	m.enums = map[reflect.Type][]string{}
	for _, k := range Kinds {
		m.resolve(reflect.TypeOf(k.Podo.New()).Elem(), enums, map[reflect.Type]bool{})
	}
	return m
}

// resolve ties the constants found in the sources to the types that the objects use.
func (m *mutator) resolve(t reflect.Type, enums map[string][]string, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		m.resolve(t.Elem(), enums, seen)
	case reflect.Map:
		m.resolve(t.Key(), enums, seen)
		m.resolve(t.Elem(), enums, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			m.resolve(t.Field(i).Type, enums, seen)
		}
	case reflect.String:
		if values := enums[t.Name()]; t.Name() != "string" && len(values) > 0 {
			m.enums[t] = values
		}
	}
}

// constants reads the typed string constants of the API's sources: type name -> values.
func constants() (map[string][]string, error) {
	out := map[string][]string{}
	for _, path := range []string{"k8s.io/api/core/v1", "k8s.io/api/coordination/v1"} {
		p, err := build.Import(path, ".", build.FindOnly)
		if err != nil {
			return nil, err
		}
		src, err := os.ReadFile(filepath.Join(p.Dir, "types.go"))
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), "types.go", src, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			name, ok := v.Type.(*ast.Ident)
			if !ok {
				return true
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					out[name.Name] = append(out[name.Name], s)
				}
			}
			return true
		})
	}
	return out, nil
}

// slot is a place in an object that can be changed.
type slot struct {
	v    reflect.Value
	key  reflect.Value // set for an entry of the map v
	name string        // of the nearest field
}

var skipped = map[string]bool{
	"TypeMeta": true, "ManagedFields": true, "UID": true, "CreationTimestamp": true, "ResourceVersion": true, "SelfLink": true,
	"DeletionTimestamp": true, "DeletionGracePeriodSeconds": true, "Namespace": true, "Generation": true, "GenerateName": true,
}

func isLeaf(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity](),
		reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.Duration]():
		return true
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Pointer && t.Kind() != reflect.Slice && t.Kind() != reflect.Map
}

// slots lists every place under v, depth first.
func (m *mutator) slots(v reflect.Value, name string, top bool, out []slot) []slot {
	if isLeaf(v.Type()) {
		if v.Kind() == reflect.String {
			m.present = append(m.present, v.String())
		}
		return append(out, slot{v: v, name: name})
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(out, slot{v: v, name: name})
		}
		return m.slots(v.Elem(), name, false, append(out, slot{v: v, name: name}))
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if top && skipped[f.Name] || f.Name == "TypeMeta" || !f.IsExported() {
				continue
			}
			isMeta := f.Type == reflect.TypeFor[metav1.ObjectMeta]()
			out = m.slots(v.Field(i), f.Name, isMeta, out)
		}
	case reflect.Slice:
		out = append(out, slot{v: v, name: name})
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return out
		}
		for i := range v.Len() {
			out = m.slots(v.Index(i), name, false, out)
		}
	case reflect.Map:
		out = append(out, slot{v: v, name: name})
		for _, k := range v.MapKeys() {
			m.present = append(m.present, k.String())
			out = append(out, slot{v: v, key: k, name: name})
		}
	}
	return out
}

// Mutate changes n places under root, a pointer into an object.
func (m *mutator) Mutate(root any, n int) {
	for range n {
		m.present = m.present[:0]
		v := reflect.ValueOf(root).Elem()
		_, object := root.(runtime.Object)
		slots := m.slots(v, "", object, nil)
		if len(slots) == 0 {
			return
		}
		m.change(slots[m.IntN(len(slots))])
	}
}

func (m *mutator) change(s slot) {
	v := s.v
	if s.key.IsValid() {
		if m.IntN(3) == 0 {
			v.SetMapIndex(s.key, reflect.Value{})
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		m.fill(elem, s.name, 0)
		v.SetMapIndex(s.key, elem)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && m.IntN(2) == 0 {
			v.SetZero()
			return
		}
		m.fill(v, s.name, 0)
	case reflect.Slice:
		m.changeSlice(v, s.name)
	case reflect.Map:
		if v.Len() > 0 && m.IntN(4) == 0 {
			v.SetZero()
			return
		}
		m.fillMap(v, s.name)
	default:
		m.fill(v, s.name, 0)
	}
}

func (m *mutator) changeSlice(v reflect.Value, name string) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		m.fill(v, name, 0)
		return
	}
	n := v.Len()
	switch op := m.IntN(10); {
	case n > 0 && op == 0: // remove one
		i := m.IntN(n)
		v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, n)))
	case n > 0 && op < 4: // repeat one, perhaps changed a little
		v.Set(reflect.Append(v.Slice3(0, n, n), deepCopy(v.Index(m.IntN(n)))))
		if m.IntN(2) == 0 {
			m.fill(v.Index(n), name, 1)
		}
	case n > 1 && op == 4: // swap two
		i, j := m.IntN(n), m.IntN(n)
		a, b := deepCopy(v.Index(i)), deepCopy(v.Index(j))
		v.Index(i).Set(b)
		v.Index(j).Set(a)
	case n > 0 && op == 5:
		v.SetZero()
	default: // one more
		e := reflect.New(v.Type().Elem()).Elem()
		if m.IntN(8) > 0 {
			m.fill(e, name, 0)
		}
		v.Set(reflect.Append(v.Slice3(0, n, n), e))
	}
}

// deepCopy copies through a fresh value; API types hold no cycles.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	copyInto(out, v)
	return out
}

func copyInto(dst, src reflect.Value) {
	if isLeaf(src.Type()) {
		dst.Set(src)
		return
	}
	switch src.Kind() {
	case reflect.Pointer:
		if !src.IsNil() {
			dst.Set(reflect.New(src.Type().Elem()))
			copyInto(dst.Elem(), src.Elem())
		}
	case reflect.Struct:
		for i := range src.NumField() {
			if src.Type().Field(i).IsExported() {
				copyInto(dst.Field(i), src.Field(i))
			}
		}
	case reflect.Slice:
		if !src.IsNil() {
			dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
			for i := range src.Len() {
				copyInto(dst.Index(i), src.Index(i))
			}
		}
	case reflect.Map:
		if !src.IsNil() {
			dst.Set(reflect.MakeMap(src.Type()))
			for _, k := range src.MapKeys() {
				dst.SetMapIndex(k, deepCopy(src.MapIndex(k)))
			}
		}
	}
}

// fill gives v a value of its type; structs get some of their fields.
func (m *mutator) fill(v reflect.Value, name string, depth int) {
	if isLeaf(v.Type()) {
		m.fillLeaf(v, name)
		return
	}
	if depth > 6 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if m.IntN(8) > 0 {
			m.fill(v.Elem(), name, depth+1)
		}
	case reflect.Struct:
		// Unions want one member: a lone field is as likely as half of them.
		chance := []int{1, 2, 4, 8}[m.IntN(4)]
		n := v.NumField()
		sure := m.IntN(max(n, 1))
		for i := range n {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Name == "TypeMeta" {
				continue
			}
			if i != sure && m.IntN(8) >= chance && f.Name != "Name" && f.Name != "Key" {
				continue
			}
			m.fill(v.Field(i), f.Name, depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(m.text(name)))
			return
		}
		n := m.IntN(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			m.fill(v.Index(i), name, depth+1)
		}
	case reflect.Map:
		m.fillMap(v, name)
	}
}

func (m *mutator) fillMap(v reflect.Value, name string) {
	out := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(k, v.MapIndex(k))
	}
	for range 1 + m.IntN(2) {
		k := reflect.New(v.Type().Key()).Elem()
		k.SetString(m.mapKey(name))
		e := reflect.New(v.Type().Elem()).Elem()
		m.fill(e, name, 1)
		out.SetMapIndex(k, e)
	}
	v.Set(out)
}

func (m *mutator) fillLeaf(v reflect.Value, name string) {
	switch v.Type() {
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.NewTime(created.Add(time.Duration(m.IntN(5)) * time.Hour))))
		return
	case reflect.TypeFor[metav1.MicroTime]():
		v.Set(reflect.ValueOf(metav1.NewMicroTime(created.Add(time.Duration(m.IntN(5)) * time.Microsecond))))
		return
	case reflect.TypeFor[metav1.Duration]():
		v.Set(reflect.ValueOf(metav1.Duration{Duration: time.Duration(m.IntN(100)-10) * time.Second}))
		return
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse(pick(m, quantities))))
		return
	case reflect.TypeFor[intstr.IntOrString]():
		if m.IntN(2) == 0 {
			v.Set(reflect.ValueOf(intstr.FromString(m.text(name))))
		} else {
			v.Set(reflect.ValueOf(intstr.FromInt32(int32(pick(m, integers)))))
		}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		n := pick(m, integers)
		if v.Kind() == reflect.Int32 {
			n = int64(int32(n))
		}
		v.SetInt(n)
	case reflect.String:
		if values := m.enums[v.Type()]; len(values) > 0 && m.IntN(10) > 0 {
			v.SetString(pick(m, values))
			return
		}
		v.SetString(m.text(name))
	}
}

func (m *mutator) text(name string) string {
	if m.IntN(3) == 0 && len(m.present) > 0 {
		return pick(m, m.present)
	}
	if values := byField[name]; len(values) > 0 && m.IntN(4) > 0 {
		return pick(m, values)
	}
	return pick(m, texts)
}

func (m *mutator) mapKey(name string) string {
	if values := keysByField[name]; len(values) > 0 && m.IntN(6) > 0 {
		return pick(m, values)
	}
	return m.text(name)
}

func pick[T any](m *mutator, from []T) T { return from[m.IntN(len(from))] }

var (
	integers = []int64{
		0, 0, 1, 1, 2, 3, 10, 30, 80, 443, 8080, 100, 101, 644, 420, 0o777, 0o1000, 1000, 65535, 65536, -1, -2, -1000,
		math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64, math.MinInt32, 1 << 40, 2147483000, 600, 3600,
	}
	quantities = []string{"0", "1", "2", "100m", "1m", "1Gi", "64Mi", "128Mi", "2Mi", "3Mi", "1.5", "500", "-1", "-100m", "0.0001", "1k", "1e3", "10Gi", "1500m"}
	long       = strings.Repeat("a", 300)
	texts      = []string{
		"", "a", "b", "x-y", "A", "a_b", "-a", "a-", "a.b", "a..b", "1", "1.2.3.4", "::1", "01.2.3.4", "10.0.0.0/8", "2001:db8::/64", "/abs", "/", "..",
		"../x", "a/../b", "./a", "a/b", "a/b/c", "a:b", "a b", " a", "é", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253),
		strings.Repeat("a", 254), long, "example.com/foo", "kubernetes.io/foo", "foo.k8s.io/bar", "Example.com/foo", "/foo", "foo/", "metadata.name",
		"metadata.labels", "metadata.labels['a']", "metadata.annotations['A/b']", "metadata.annotations", "spec.nodeName", "status.podIP", "status.podIPs",
		"limits.cpu", "requests.memory", "limits.hugepages-2Mi", "limits.foo", "localhost/x", "unconfined", "runtime/default", "http", "HTTP", "true",
		"NodeName", "http://example.com", "https://example.com/x", "$(A)", "%", "*", "\x00", "a=b", "cpu", "memory", "Always", "None",
	}
	byField = map[string][]string{
		"FieldPath":           {"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.labels['a']", "metadata.annotations['a']", "metadata.annotations['a b']", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "status.phase", "spec.bad", "metadata.labels['']"},
		"Resource":            {"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.hugepages-2Mi", "requests.hugepages-1Gi", "limits.x", "requests.example.com/foo"},
		"IP":                  {"1.2.3.4", "::1", "01.2.3.4", "fe80::1", "1.2.3", "::ffff:1.2.3.4", "127.0.0.1", "224.0.0.1"},
		"IPs":                 {"1.2.3.4", "::1"},
		"HostIP":              {"1.2.3.4", "::1", "127.0.0.1", "0.0.0.0", "01.2.3.4", "x"},
		"PodIP":               {"1.2.3.4", "::1", "01.2.3.4", "x"},
		"Nameservers":         {"1.2.3.4", "::1", "01.2.3.4", "x", "8.8.8.8"},
		"Searches":            {"a.b", "a.b.", ".", "A.b", "a_b", "", "-a", long},
		"MountPath":           {"/a", "/b", "a", "/a:b", "/", "..", "/var/run"},
		"DevicePath":          {"/dev/a", "/a", "a/../b", ""},
		"Path":                {"a", "/a", "a/b", "../a", "..", "..a", "a/..", "a/../b", "", "/x/../y", "ab:c", "./x"},
		"SubPath":             {"a", "/a", "../a", "a/../b", "a/b", ""},
		"SubPathExpr":         {"$(A)", "$(A)/b", "/a", "../a", ""},
		"Image":               {"busybox", "busybox:1", "busybox:latest", "a/b@sha256:0000000000000000000000000000000000000000000000000000000000000000", " busybox", "BAD", ""},
		"Key":                 {"a", "example.com/foo", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "kubernetes.io/hostname", "a b", "", "-a", "A_B", "metadata.name", "topology.kubernetes.io/zone", "beta.kubernetes.io/arch"},
		"Operator":            {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "bad"},
		"TopologyKey":         {"kubernetes.io/hostname", "topology.kubernetes.io/zone", "a b", ""},
		"Medium":              {"", "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi", "HugePages-x", "bad"},
		"Host":                {"example.com", "1.2.3.4", "a b", ""},
		"HostPort":            {"80"},
		"LocalhostProfile":    {"a", "/a", "../a", "a/b", "", " ", long},
		"Hostname":            {"a", "a.b", "A", "-a", long},
		"Subdomain":           {"a", "a.b", "A"},
		"PriorityClassName":   {"a", "system-node-critical", "system-cluster-critical", "A_"},
		"NodeName":            {"n1", "a.b", "A_", long},
		"Audience":            {"a", ""},
		"SignerName":          {"example.com/foo", "kubernetes.io/x", "a", "a/b/c", "kubernetes.io/kube-apiserver-client-pod"},
		"KeyType":             {"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA"},
		"Finalizers":          {"kubernetes", "foregroundDeletion", "orphan", "example.com/foo", "foo", "a b"},
		"Driver":              {"csi.example.com", "a", "A.b", "", long},
		"Type":                {"kubernetes.io/service-account-token", "kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth", "kubernetes.io/tls", "Opaque", "bootstrap.kubernetes.io/token", "Normal", "Warning", "x"},
		"ProviderID":          {"a://b", "x"},
		"PodCIDR":             {"10.0.0.0/24", "10.0.0.1/24", "fd00::/64", "x", "010.0.0.0/24"},
		"PodCIDRs":            {"10.0.0.0/24", "fd00::/64", "x", "10.1.0.0/24"},
		"ReportingController": {"example.com/foo", "kubelet", "a b", ""},
		"ReportingInstance":   {"a", "", long},
		"Action":              {"Pulled", "", long},
		"Reason":              {"Started", "", long},
	}
	resourceNames    = []string{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "hugepages-x", "pods", "storage", "example.com/gpu", "bad name", "kubernetes.io/foo", "requests.cpu", "requests.example.com/gpu", "attachable-volumes-x", "scheduling.k8s.io/foo", "native.kubernetes.io/x", "Memory", ""}
	annotationsKnown = []string{
		"a", "example.com/foo", "kubernetes.io/config.mirror", "kubernetes.io/config.source", "container.apparmor.security.beta.kubernetes.io/a",
		"container.apparmor.security.beta.kubernetes.io/c", "seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/c",
		"security.alpha.kubernetes.io/sysctls", "controller.kubernetes.io/pod-deletion-cost", "scheduler.alpha.kubernetes.io/preferAvoidPods", "scheduler.alpha.kubernetes.io/tolerations",
		"kubernetes.io/enforce-mountable-secrets", "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid", "pod.beta.kubernetes.io/init-containers",
		"autoscaling.alpha.kubernetes.io/x", "A_b", "a b", "", "/x", "node.alpha.kubernetes.io/ttl", "volumes.kubernetes.io/controller-managed-attach-detach", "endpoints.kubernetes.io/over-capacity",
		"batch.kubernetes.io/cronjob-scheduled-timestamp", "service.kubernetes.io/topology-mode",
	}
	labelKeys   = []string{"a", "app", "example.com/foo", "kubernetes.io/hostname", "node-role.kubernetes.io/worker", "kubernetes.io/role", "kubernetes.io/metadata.name", "beta.kubernetes.io/arch", "beta.kubernetes.io/os", "failure-domain.beta.kubernetes.io/zone", "a b", "", "-a", "A/b/c", long}
	keysByField = map[string][]string{
		"Limits": resourceNames, "Requests": resourceNames, "Capacity": resourceNames, "Allocatable": resourceNames, "Overhead": resourceNames, "AllocatedResources": resourceNames,
		"Annotations": annotationsKnown, "Labels": labelKeys, "NodeSelector": labelKeys, "MatchLabels": labelKeys,
		"Data":       {"a", "a.b", ".a", "..", "..a", "a/b", "", ".dockercfg", ".dockerconfigjson", "tls.crt", "tls.key", "ssh-privatekey", "username", "password"},
		"BinaryData": {"a", "a.b", ".a", "..", "a/b", ""}, "StringData": {"a", "a/b", ".dockercfg", ".dockerconfigjson", "tls.crt", "username"},
		"VolumeAttributes": {"a"},
	}
)
