package registry_test

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// Values that fields are set to: some mean something, some are wrong everywhere.
var (
	someText = rapid.SampledFrom([]string{
		"", "a", "b", "c0", "v0", "UPPER", "a.b", "a/b", "x y", "..", "../x", "/abs", "-bad", "kubernetes.io/x", "example.com/gpu", "Always", "Never",
		"OnFailure", "IfNotPresent", "None", "Default", "TCP", "HTTP", "In", "NotIn", "Exists", "Gt", "NoSchedule", "NoExecute", "ScheduleAnyway", "Localhost",
		"RuntimeDefault", "linux", "windows", "Restart", "cpu", "memory", "limits.cpu", "metadata.labels['x']", "metadata.annotations['X y']", "status.podIP",
		"v1", "127.0.0.1", "010.0.0.1", "::1", "10.0.0.0/24", "net.ipv4.ip_forward", "kernel/foo", "$(A)", "True", "Ready", "nginx:latest", "a@sha256:b", "é",
	})
	someNumber   = rapid.SampledFrom([]int64{0, 1, -1, 2, 10, 100, 101, 256, 512, 3600, 65536, 1 << 31, 1<<63 - 1, -1 << 63})
	someQuantity = rapid.SampledFrom([]string{"0", "1", "-1", "100m", "1Gi", "3Mi", "1.5", "123n", "1e30", "-9223372036854775808"})
	someResource = rapid.SampledFrom([]string{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-bad", "example.com/gpu", "requests.cpu", "pods", "Bad Name", "a/b/c", ""})
)

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	timeType     = reflect.TypeFor[metav1.Time]()
	microType    = reflect.TypeFor[metav1.MicroTime]()
	portType     = reflect.TypeFor[intstr.IntOrString]()
)

// change sets, grows, repeats or drops something somewhere in v.
func change(t *rapid.T, v reflect.Value) {
	dice := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "dice") }
	switch v.Type() {
	case quantityType:
		v.Set(reflect.ValueOf(resource.MustParse(someQuantity.Draw(t, "quantity"))))
		return
	case timeType, microType:
		return
	case portType:
		if dice(2) == 0 {
			v.Set(reflect.ValueOf(intstr.FromInt32(int32(someNumber.Draw(t, "number")))))
		} else {
			v.Set(reflect.ValueOf(intstr.FromString(someText.Draw(t, "text"))))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		var all, set []int
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "TypeMeta" {
				all = append(all, i)
				if !v.Field(i).IsZero() {
					set = append(set, i)
				}
			}
		}
		if len(set) > 0 && dice(3) > 0 {
			all = set
		}
		if len(all) > 0 {
			change(t, v.Field(all[dice(len(all))]))
		}
	case reflect.Pointer:
		switch e := v.Type().Elem(); {
		case e == timeType || e == microType: // the zero time is written as none
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), 0)
		case dice(6) == 0:
			v.SetZero()
		default:
			change(t, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(someText.Draw(t, "text")))
			return
		}
		switch n := dice(6); {
		case v.Len() == 0 || n == 0:
			e := reflect.New(v.Type().Elem()).Elem()
			fill(t, e, 0)
			v.Set(reflect.Append(v, e))
		case n == 1:
			v.Set(reflect.Append(v, copied(v.Index(dice(v.Len())))))
		case n == 2:
			i := dice(v.Len())
			v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, v.Len())))
		default:
			change(t, v.Index(dice(v.Len())))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		k := reflect.New(v.Type().Key()).Elem()
		if v.Type().Elem() == quantityType {
			k.SetString(someResource.Draw(t, "resource"))
		} else {
			k.SetString(someText.Draw(t, "text"))
		}
		e := reflect.New(v.Type().Elem()).Elem()
		change(t, e)
		v.SetMapIndex(k, e)
	case reflect.String:
		v.SetString(someText.Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64:
		n := someNumber.Draw(t, "number")
		if v.Kind() == reflect.Int32 {
			n = int64(int32(n))
		}
		v.SetInt(n)
	}
}

// fill sets several fields of a new structure.
func fill(t *rapid.T, v reflect.Value, depth int) {
	if v.Kind() != reflect.Struct || v.Type() == quantityType || v.Type() == timeType || v.Type() == microType || v.Type() == portType {
		change(t, v)
		return
	}
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() || rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			if depth < 2 {
				fill(t, f, depth+1)
			}
		case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
			change(t, f)
		}
	}
}

func copied(v reflect.Value) reflect.Value {
	if f := v.Addr().MethodByName("DeepCopy"); f.IsValid() {
		return f.Call(nil)[0].Elem()
	}
	n := reflect.New(v.Type()).Elem()
	n.Set(v)
	return n
}
