package delegate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// api knows the token "good", of jane, who may get logs of node-a.
type api struct {
	asked int
	down  bool
}

func (a *api) Review(_ context.Context, _ schema.GroupResource, review runtime.Object) error {
	a.asked++
	if a.down {
		return errors.New("no route to host")
	}
	switch r := review.(type) {
	case *authenticationv1.TokenReview:
		r.Status.Authenticated = r.Spec.Token == "good"
		r.Status.User = authenticationv1.UserInfo{Username: "jane", Groups: []string{"devs"}}
	case *authorizationv1.SubjectAccessReview:
		at := r.Spec.ResourceAttributes
		r.Status.Allowed = r.Spec.User == "jane" && at.Verb == "get" && at.Resource == "nodes" && at.Subresource == "log" && at.Name == "node-a"
	}
	return nil
}

func TestWhoAndWhat(t *testing.T) {
	server, now := &api{}, time.Unix(0, 0)
	d := New(server, "node-a", func() time.Time { return now })
	ask := func(header string) (string, error) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", header)
		u, ok, err := d.Authenticate(r)
		if !ok {
			return "", err
		}
		return u.GetName(), err
	}
	for range 3 {
		for header, want := range map[string]string{"Bearer good": "jane", "bearer bad": "", "": "", "Basic good": ""} {
			if got, err := ask(header); got != want || err != nil {
				t.Errorf("%q is %q, %v", header, got, err)
			}
		}
	}
	if server.asked != 2 {
		t.Errorf("asked %d times about two tokens", server.asked)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer good")
	jane, _, _ := d.Authenticate(r)
	may := func(verb, part string) bool {
		yes, err := d.Authorize(t.Context(), jane, verb, part, "")
		if err != nil {
			t.Error(err)
		}
		return yes
	}
	for range 3 {
		if !may("get", "log") || may("create", "log") || may("get", "proxy") {
			t.Error("jane may get logs, and nothing else")
		}
	}
	if server.asked != 5 {
		t.Errorf("asked %d times in all", server.asked)
	}
	// What is remembered counts without an API server, and not for ever.
	server.down = true
	if !may("get", "log") {
		t.Error("what was allowed is forgotten")
	}
	now = now.Add(allowedFor)
	if yes, err := d.Authorize(t.Context(), jane, "get", "log", ""); yes || err == nil {
		t.Errorf("nobody answers: %v, %v", yes, err)
	}
	if got, err := ask("Bearer good"); got != "" || err == nil {
		t.Errorf("nobody answers: %q, %v", got, err)
	}
}
