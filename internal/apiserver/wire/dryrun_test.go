package wire

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A dry run is answered as what it tries and writes nothing, whatever verb and part of an object it is for.
func TestDryRunEverywhere(t *testing.T) {
	one := int32(1)
	rc := &v1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "rc", UID: "rc"},
		Spec: v1.ReplicationControllerSpec{Replicas: &one, Selector: map[string]string{"a": "b"}, Template: &v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
		}},
	}
	l := newLocked(t, nil, append(town(), rc)...)
	const root, ns = "root|system:masters", "/api/v1/namespaces/team"
	if w := l.ask(root, "POST "+ns+"/pods", "", `{"metadata":{"name":"free"},"spec":{"containers":[{"name":"c","image":"i"}]}}`); w.Code != 201 {
		t.Fatal(w.Body)
	}
	const merge, apply = "Content-Type: application/merge-patch+json", "Content-Type: application/apply-patch+yaml"
	rev := func() int64 {
		n, err := l.store.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct{ line, headers, body string }{
		{"POST " + ns + "/pods", "", `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"POST " + ns + "/services", "", `{"metadata":{"name":"x"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`},
		{"POST /api/v1/namespaces", "", `{"metadata":{"name":"x"}}`},
		{"PUT " + ns + "/secrets/one", "", `{"metadata":{"name":"one"},"type":"Opaque","data":{"k":"eA=="}}`},
		{"PUT " + ns + "/replicationcontrollers/rc/scale", "", `{"metadata":{"name":"rc"},"spec":{"replicas":3}}`},
		{"PUT " + ns + "/pods/free/status", "", `{"metadata":{"name":"free"},"status":{"phase":"Failed"}}`},
		{"PUT /api/v1/namespaces/vault/finalize", "", `{"metadata":{"name":"vault"},"spec":{"finalizers":["x.example.com/y"]}}`},
		{"PATCH " + ns + "/pods/free", merge, `{"metadata":{"labels":{"a":"b"}}}`},
		{"PATCH " + ns + "/pods/free", "Content-Type: application/strategic-merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`},
		{"PATCH " + ns + "/pods/free", "Content-Type: application/json-patch+json", `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`},
		{"PATCH " + ns + "/configmaps/applied?fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"}}`},
		{"PATCH " + ns + "/replicationcontrollers/rc/scale?fieldManager=m&force=true", apply, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"rc"},"spec":{"replicas":3}}`},
		{"PATCH " + ns + "/pods/free/status", merge, `{"status":{"phase":"Failed"}}`},
		{"PATCH " + ns + "/pods/free/ephemeralcontainers", "Content-Type: application/strategic-merge-patch+json", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`},
		{"POST " + ns + "/pods/free/binding", "", `{"metadata":{"name":"free"},"target":{"name":"n1"}}`},
		{"POST " + ns + "/bindings", "", `{"metadata":{"name":"free"},"target":{"name":"n1"}}`},
		{"POST " + ns + "/pods/free/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"free"}}`},
		{"POST " + ns + "/pods/free/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"free"},"deleteOptions":{"gracePeriodSeconds":0}}`},
		{"POST " + ns + "/serviceaccounts/default/token", "", `{"spec":{"expirationSeconds":600}}`},
		{"DELETE " + ns + "/pods/free", "", ""},
		{"DELETE " + ns + "/pods/free?gracePeriodSeconds=0", "", ""},
		{"DELETE " + ns + "/pods", "", ""},
		{"DELETE /api/v1/namespaces/vault", "", ""},
		{"DELETE " + ns + "/secrets", "", ""},
	} {
		before := rev()
		line := c.line + "?dryRun=All"
		if strings.Contains(c.line, "?") {
			line = c.line + "&dryRun=All"
		}
		if w := l.ask(root, line, c.headers, c.body); w.Code >= 300 {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
		if after := rev(); after != before {
			t.Errorf("%s wrote", line)
		}
		if w := l.ask(root, strings.Replace(line, "All", "Some", 1), c.headers, c.body); w.Code != 422 {
			t.Errorf("%s: an unknown dry run is answered with %d %s", line, w.Code, w.Body)
		}
	}
	for _, line := range []string{
		"POST " + ns + "/pods/p1/exec?command=rm&", "GET " + ns + "/pods/p1/attach?", "POST " + ns + "/pods/p1/portforward?", "DELETE " + ns + "/pods/p1/proxy/x?", "PUT /api/v1/nodes/n1/proxy/x?",
	} {
		if w := l.ask(root, line+"dryRun=All", "", ""); w.Code != 400 || !strings.Contains(w.Body.String(), "dryRun is not supported") {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
	}
	if w := l.ask("jane", "POST "+ns+"/pods/p1/exec?dryRun=All", "", ""); w.Code != 403 {
		t.Errorf("who may not connect: %d %s", w.Code, w.Body)
	}
	if w := l.ask(root, "POST "+ns+"/pods/free/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"free"},"deleteOptions":{"dryRun":["All"]}}`); w.Code >= 300 || rev() < 1 {
		t.Errorf("an eviction whose content says it: %d %s", w.Code, w.Body)
	}
	if w := l.ask(root, "GET "+ns+"/pods/free", "", ""); w.Code != 200 || strings.Contains(w.Body.String(), "deletionTimestamp") {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}
