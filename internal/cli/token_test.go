package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"podo.dev/podo/internal/jointoken"
)

// secretsOnly is an API server of Secrets of kube-system and of what the Service kubernetes leads to.
type secretsOnly struct {
	mu      sync.Mutex
	secrets map[string]v1.Secret
}

func (s *secretsOnly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(code int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}
	refuse := func(code int, reason metav1.StatusReason) {
		answer(code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: int32(code)})
	}
	const secrets = "/api/v1/namespaces/kube-system/secrets"
	name := strings.TrimPrefix(r.URL.Path, secrets+"/")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == secrets:
		var in v1.Secret
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &in)
		}
		if err != nil {
			refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		if _, there := s.secrets[in.Name]; there {
			refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists)
			return
		}
		if in.Data == nil {
			in.Data = map[string][]byte{}
		}
		for k, v := range in.StringData {
			in.Data[k] = []byte(v)
		}
		s.secrets[in.Name] = in
		answer(http.StatusCreated, in)
	case r.Method == http.MethodGet && r.URL.Path == secrets:
		list := v1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}}
		for _, x := range s.secrets {
			if r.URL.Query().Get("fieldSelector") == "type="+string(x.Type) {
				list.Items = append(list.Items, x)
			}
		}
		answer(http.StatusOK, list)
	case r.Method == http.MethodDelete && s.secrets[name].Name != "":
		delete(s.secrets, name)
		answer(http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/endpointslices/kubernetes"):
		port := int32(6443)
		answer(http.StatusOK, discoveryv1.EndpointSlice{
			TypeMeta:  metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.7"}}}, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		})
	default:
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// What the printed command says is enough to join: an address that other machines reach, a token that the cluster knows, and the hash of
// the authority that they are to trust. Secrets of tokens are shown once.
func TestTokens(t *testing.T) {
	api := &secretsOnly{secrets: map[string]v1.Secret{"other": {}}}
	server := httptest.NewTLSServer(api)
	defer server.Close()
	authority := server.Certificate()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}))
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],`+
		`"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"u","user":{"token":"t"}}]}`, server.URL, ca)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := newToken()
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, "--kubeconfig", kubeconfig))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("podo token %v: %v", args, err)
		}
		return out
	}
	hash, err := jointoken.HashDER(authority.Raw)
	if err != nil {
		t.Fatal(err)
	}

	line := must("create", "--description", "rack 4")
	m := regexp.MustCompile(`^podo agent --server https://192\.0\.2\.7:6443 --token (([a-z0-9]{6})\.([a-z0-9]{16})@sha256:[0-9a-f]{64})\n$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("%q is no command to join with", line)
	}
	token, err := jointoken.Parse(m[1])
	if err != nil || token.CAHash != hash {
		t.Errorf("%+v, %v: want the hash %s", token, err, hash)
	}
	kept := api.secrets[jointoken.SecretPrefix+m[2]]
	if k, ok := jointoken.FromSecret(&kept); !ok || k.ID != m[2] || k.End.IsZero() {
		t.Errorf("the cluster has %+v", kept)
	}
	if got := must("create", "abcdef.0123456789abcdef", "-q", "--ttl", "0", "--usages", "authentication,signing", "--groups", "system:bootstrappers:rack"); got != "abcdef.0123456789abcdef@"+hash+"\n" &&
		got != "abcdef.0123456789abcdef@sha256:"+hash+"\n" {
		t.Errorf("a token of one's own is told as %q", got)
	}
	if got := must("create", "-q", "--server", "https://10.0.0.1:6443"); strings.Contains(got, "podo agent") {
		t.Errorf("%q", got)
	}
	if got := must("create", "--server", "https://10.0.0.1:6443"); !strings.HasPrefix(got, "podo agent --server https://10.0.0.1:6443 ") {
		t.Errorf("%q", got)
	}

	list := must("list")
	for _, want := range []string{
		`(?m)^ID +TTL +EXPIRES +USAGES +GROUPS +DESCRIPTION$`, `(?m)^` + m[2] + ` +(23h|24h).* authentication +\S+ +rack 4$`,
		`(?m)^abcdef +<forever> +<never> +authentication,signing +system:bootstrappers:rack`,
	} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("%s is not in\n%s", want, list)
		}
	}
	if strings.Contains(list, m[3]) || strings.Contains(list, "0123456789abcdef") {
		t.Errorf("secrets are shown:\n%s", list)
	}

	for want, args := range map[string][]string{
		"there is a token abcdef already": {"create", "abcdef.0123456789abcdef"},
		"of another cluster":              {"create", "ghijkl.0123456789abcdef@sha256:" + strings.Repeat("0", 64)},
		`there is no token "zzzzzz"`:      {"delete", "zzzzzz"},
	} {
		if _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("podo token %v: %v, want %s", args, err, want)
		}
	}
	for _, args := range [][]string{{"create", "--ttl", "-1s"}, {"create", "--usages", "anything"}, {"create", "--groups", "system:masters"}, {"create", "short.one"}} {
		if _, err := run(args...); err == nil {
			t.Errorf("podo token %v is taken", args)
		}
	}
	if n := len(api.secrets); n != 5 {
		t.Errorf("what was refused left something: %d secrets", n)
	}
	if got := must("delete", "abcdef", m[1]); got != "deleted abcdef\ndeleted "+m[2]+"\n" || len(api.secrets) != 3 {
		t.Errorf("%q, %d secrets", got, len(api.secrets))
	}
}
