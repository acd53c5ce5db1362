package downward

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func testPod() *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "p", "ns", "u"
	p.Labels = map[string]string{"b": "2", "a": `say "hi"`}
	p.Annotations = map[string]string{"example.com/x": "y"}
	p.Spec.NodeName, p.Spec.ServiceAccountName = "n", "sa"
	p.Spec.InitContainers = []v1.Container{{Name: "i"}}
	p.Spec.Containers = []v1.Container{{Name: "a", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"cpu": resource.MustParse("1500m"), "hugepages-2Mi": resource.MustParse("4Mi")},
		Limits:   v1.ResourceList{"memory": resource.MustParse("100Mi")},
	}}}
	return p
}

var facts = Facts{
	HostIPs: []string{"10.0.0.1", "fd00::1"}, PodIPs: []string{"10.1.0.2", "fd00::2"},
	Allocatable: v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("10Gi")},
}

func TestField(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "ns", "metadata.uid": "u", "spec.nodeName": "n", "spec.host": "n", "spec.serviceAccountName": "sa",
		"metadata.labels": "a=\"say \\\"hi\\\"\"\nb=\"2\"", "metadata.annotations": `example.com/x="y"`,
		"metadata.labels['b']": "2", "metadata.annotations['example.com/x']": "y", "metadata.labels['none']": "",
		"status.hostIP": "10.0.0.1", "status.hostIPs": "10.0.0.1,fd00::1", "status.podIP": "10.1.0.2", "status.podIPs": "10.1.0.2,fd00::2",
	} {
		if got, err := Field(testPod(), path, facts); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", path, got, err, want)
		}
	}
	for _, bad := range []string{"", "spec.hostname", "metadata.name['x']", "status.phase"} {
		if got, err := Field(testPod(), bad, facts); err == nil {
			t.Errorf("%s = %q, want an error", bad, got)
		}
	}
	if got, err := Field(testPod(), "status.podIP", Facts{}); err != nil || got != "" {
		t.Errorf("no address yet: %q, %v", got, err)
	}
}

func TestResource(t *testing.T) {
	podLevel := testPod()
	podLevel.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("2")}}
	for _, tc := range []struct {
		pod                          *v1.Pod
		container, resource, divisor string
		want                         string
	}{
		{testPod(), "", "requests.cpu", "0", "2"},
		{testPod(), "", "requests.cpu", "1m", "1500"},
		{testPod(), "", "requests.memory", "0", "0"},
		{testPod(), "a", "limits.memory", "1Mi", "100"},
		{testPod(), "a", "limits.memory", "64Mi", "2"},
		{testPod(), "", "requests.hugepages-2Mi", "1Mi", "4"},
		{testPod(), "", "limits.cpu", "0", "4"},
		{testPod(), "i", "limits.memory", "1Gi", "8"},
		{testPod(), "i", "limits.ephemeral-storage", "1Gi", "10"},
		{podLevel, "i", "limits.cpu", "0", "2"},
	} {
		s := &v1.ResourceFieldSelector{ContainerName: tc.container, Resource: tc.resource, Divisor: resource.MustParse(tc.divisor)}
		if got, err := Resource(tc.pod, &tc.pod.Spec.Containers[0], s, facts); err != nil || got != tc.want {
			t.Errorf("%+v = %q, %v", tc, got, err)
		}
	}
	for _, bad := range []v1.ResourceFieldSelector{{Resource: "limits.gpu"}, {Resource: "cpu"}, {Resource: "limits.cpu", ContainerName: "none"}} {
		p := testPod()
		if got, err := Resource(p, &p.Spec.Containers[0], &bad, facts); err == nil {
			t.Errorf("%+v = %q, want an error", bad, got)
		}
	}
}
