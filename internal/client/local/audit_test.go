package local

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/clienttest"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

func audited(t testing.TB, level auditinternal.Level) (*verbs.Verbs, *bytes.Buffer) {
	t.Helper()
	vw, s := viewtest.New(t, clienttest.Objects()...)
	log := &bytes.Buffer{}
	policy := &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: level}}}
	v, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Audit: audit.New(policy, log)})
	if err != nil {
		t.Fatal(err)
	}
	return v, log
}

// What the server's own parts ask for is written down as that of any client: who, what, and what came of it.
func TestOwnPartsAreAudited(t *testing.T) {
	v, log := audited(t, auditinternal.LevelRequestResponse)
	ctx := t.Context()
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Data: map[string]string{"k": "v"}}
	if _, err := Admin(v).Create(ctx, client.ConfigMaps.At("default", ""), cm); err != nil {
		t.Fatal(err)
	}
	if _, err := Scheduler(v).Create(ctx, client.ConfigMaps.At("default", ""), cm); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	edit := func(o runtime.Object) (bool, error) { o.(*v1.ConfigMap).Data["k"] = "w"; return true, nil }
	if _, err := Admin(v).Mutate(ctx, client.ConfigMaps.At("default", "c"), edit); err != nil {
		t.Fatal(err)
	}
	err := client.Bind(ctx, Scheduler(v), &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "none"}, Target: v1.ObjectReference{Name: "n"}})
	if !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if _, err := Node(v, "node-a").RequestToken(ctx, client.ServiceAccounts.At("default", "default"), &authenticationv1.TokenRequest{}); err == nil {
		t.Fatal("a token for nobody's pod")
	}
	if err := Controllers(v).DeleteCollection(ctx, schema.GroupResource(client.ConfigMaps), "default"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(log.Bytes()) {
		var e struct {
			Stage, Verb, RequestURI, UserAgent string
			User                               struct{ Username string }
			ResponseStatus                     *metav1.Status
			RequestObject                      json.RawMessage
			ResponseObject                     json.RawMessage
			Annotations                        map[string]string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Stage != "ResponseComplete" {
			continue
		}
		text := []string{e.User.Username, e.UserAgent, e.Verb, e.RequestURI, e.Annotations["authorization.k8s.io/decision"]}
		if e.ResponseStatus != nil {
			text = append(text, string(e.ResponseStatus.Reason))
		}
		if strings.Contains(string(e.RequestObject), `"data"`) {
			text = append(text, "with its object")
		}
		if strings.Contains(string(e.ResponseObject), `"uid"`) {
			text = append(text, "with the answer's")
		}
		got = append(got, strings.Join(slices.DeleteFunc(text, func(s string) bool { return s == "" }), " "))
	}
	want := []string{
		"system:apiserver kube-apiserver create /api/v1/namespaces/default/configmaps allow with its object with the answer's",
		"system:kube-scheduler kube-scheduler create /api/v1/namespaces/default/configmaps forbid Forbidden with its object",
		"system:apiserver kube-apiserver update /api/v1/namespaces/default/configmaps/c allow with its object with the answer's",
		"system:kube-scheduler kube-scheduler create /api/v1/namespaces/default/pods/none/binding allow NotFound",
		"system:node:node-a kubelet create /api/v1/namespaces/default/serviceaccounts/default/token forbid Forbidden",
		"system:kube-controller-manager kube-controller-manager deletecollection /api/v1/namespaces/default/configmaps allow",
	}
	if !slices.Equal(got, want) {
		t.Errorf("written down\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A policy's rule for a namespace is also one for what the server's own parts do to the namespace itself.
func TestANamespaceIsInItself(t *testing.T) {
	vw, s := viewtest.New(t, clienttest.Objects()...)
	log := &bytes.Buffer{}
	policy := &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelMetadata, Namespaces: []string{"default"}}}}
	v, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Audit: audit.New(policy, log)})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []client.Ref{client.Namespaces.At("", "default"), client.Namespaces.At("", "other")} {
		if _, err := Admin(v).Get(t.Context(), ref); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if strings.Count(log.String(), `"requestURI":"/api/v1/namespaces/default","verb":"get"`) != 2 || strings.Contains(log.String(), "other") ||
		!strings.Contains(log.String(), `"objectRef":{"resource":"namespaces","namespace":"default","name":"default","apiVersion":"v1"}`) {
		t.Error(log)
	}
}

// A policy that ignores the server's own parts costs them next to nothing.
func TestIgnoredPartsCostNothing(t *testing.T) {
	plain := newVerbs(t)
	ignoring, log := audited(t, auditinternal.LevelNone)
	allocations := func(v *verbs.Verbs) float64 {
		c, ref := Admin(v), client.Namespaces.At("", "default")
		return testing.AllocsPerRun(200, func() {
			if _, err := c.Get(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		})
	}
	without, with := allocations(plain), allocations(ignoring)
	if with > without+4 || log.Len() > 0 {
		t.Errorf("%v allocations without a policy, %v with one that ignores them; %d bytes written", without, with, log.Len())
	}
}
