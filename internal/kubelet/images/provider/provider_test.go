package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/images/keyring"
)

// A plug-in of the tests writes down what it was asked and answers with the file beside it.
const script = `#!/bin/sh
cat >> "$0.asked"
echo >> "$0.asked"
echo "$*/$GREETING" >> "$0.args"
cat "$0.answer"
`

type rig struct {
	*Plugins
	t    *testing.T
	dir  string
	now  time.Time
	last string // the newest token
}

func (r *rig) Account(_ context.Context, ns, name string) (*corev1.ServiceAccount, error) {
	if name == "missing" {
		return nil, errors.New("not found")
	}
	a := &corev1.ServiceAccount{}
	a.Namespace, a.Name, a.UID = ns, name, "uid-1"
	if name != "plain" {
		a.Annotations = map[string]string{"example.com/role": name, "other": "x"}
	}
	return a, nil
}

func (r *rig) AccountToken(_ context.Context, pod *corev1.Pod, a *corev1.ServiceAccount, audience string) (string, error) {
	r.last = fmt.Sprintf("token of %s for %s by %s", a.Name, audience, pod.Name)
	return r.last, nil
}

func newRig(t *testing.T, config string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), now: time.Unix(1e9, 0)}
	for _, name := range []string{"one", "two"} {
		r.write(name, script, 0o755)
		r.answer(name, "Image", "0s", `"reg.example":{"username":"`+name+`","password":"secret"}`)
	}
	r.write("config.yaml", config, 0o600)
	var err error
	r.Plugins, err = New(Config{
		Path: filepath.Join(r.dir, "config.yaml"), BinDir: r.dir, Accounts: r, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) write(name, text string, mode os.FileMode) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) answer(name, key, life, auth string) {
	r.t.Helper()
	if life != "" {
		life = `"cacheDuration":"` + life + `",`
	}
	r.write(name+".answer", `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"`+key+`",`+life+`"auth":{`+auth+`}}`, 0o600)
}

func (r *rig) asked(name string) []string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name+".asked"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func (r *rig) lookup(account, repo string) string {
	r.t.Helper()
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.UID, pod.Spec.ServiceAccountName = "p", "ns", "uid-p", account
	return told(r.Lookup(r.t.Context(), pod, repo))
}

func told(all []keyring.Credential) string {
	var out []string
	for _, c := range all {
		s := c.Auth.Username + ":" + c.Auth.Password
		if c.Account != nil {
			s += "(" + c.Account.Namespace + "/" + c.Account.Name + " " + c.Account.UID + ")"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

func entry(name, match, more string) string {
	return "- {name: " + name + ", matchImages: [\"" + match + "\"], defaultCacheDuration: 10m, apiVersion: credentialprovider.kubelet.k8s.io/v1" + more + "}\n"
}

func TestPluginsAnswerForImagesThatMatch(t *testing.T) {
	r := newRig(t, head+entry("one", "*.example/team", ", args: [a, b], env: [{name: GREETING, value: hello}]")+entry("two", "reg.example", ""))
	if got, want := r.lookup("", "reg.example/team/x"), "one:secret two:secret"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := r.lookup("", "reg.example/x"), "two:secret"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := r.lookup("", "other.example:5000/x"); got != "" {
		t.Error(got)
	}
	if got, want := r.asked("one"), `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"reg.example/team/x"}`; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(r.dir, "one.args")); err != nil || string(b) != "a b/hello\n" {
		t.Errorf("%q %v", b, err)
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	r := newRig(t, head+entry("one", "*.example", ""))
	times := 0
	expect := func(repo string, asked bool) {
		t.Helper()
		if asked {
			times++
		}
		if got := r.lookup("", repo); got != "one:secret" || len(r.asked("one")) != times {
			t.Errorf("%s: %q, asked %d times, want %d", repo, got, len(r.asked("one")), times)
		}
	}
	auth := `"*.example":{"username":"one","password":"secret"}`
	r.answer("one", "Image", "0s", auth)
	expect("a.example/x", true)
	expect("a.example/x", true) // not at all
	r.answer("one", "Image", "1m", auth)
	expect("a.example/x", true)
	expect("a.example/x", false)
	expect("a.example/y", true)
	r.now = r.now.Add(61 * time.Second)
	r.answer("one", "Registry", "", auth) // as long as the configuration says
	expect("a.example/x", true)
	r.now = r.now.Add(9 * time.Minute)
	expect("a.example/y", false)
	expect("b.example/y", true)
	r.now = r.now.Add(2 * time.Hour)
	r.answer("one", "Global", "1h", auth)
	expect("a.example/x", true)
	expect("b.example/y", false)
}

func TestTokens(t *testing.T) {
	tokens := func(cache, more string) string {
		return ", tokenAttributes: {serviceAccountTokenAudience: reg, cacheType: " + cache + more + "}"
	}
	r := newRig(t, head+entry("one", "reg.example", tokens("ServiceAccount", ", requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [example.com/role]"))+
		entry("two", "reg.example", tokens("Token", ", requireServiceAccount: false, optionalServiceAccountAnnotationKeys: [none]")))
	r.answer("one", "Registry", "1h", `"reg.example":{"username":"one","password":"secret"}`)
	if got, want := r.lookup("sa", "reg.example/x"), "one:secret(ns/sa uid-1) two:secret(ns/sa uid-1)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := r.asked("one")[0], `"image":"reg.example/x","serviceAccountToken":"token of sa for reg by p","serviceAccountAnnotations":{"example.com/role":"sa"}}`; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := r.lookup("sb", "reg.example/x"), "one:secret(ns/sb uid-1) two:secret(ns/sb uid-1)"; got != want || len(r.asked("one")) != 2 {
		t.Errorf("%s, want %s, asked anew for another account", got, want)
	}
	if r.lookup("sa", "reg.example/y"); len(r.asked("one")) != 2 {
		t.Error("what an account got for a registry is remembered for it")
	}
	if got, want := r.lookup("plain", "reg.example/x"), "two:secret(ns/plain uid-1)"; got != want {
		t.Errorf("an account without the annotation: %s, want %s", got, want)
	}
	if got, want := r.lookup("", "reg.example/x"), "two:secret"; got != want {
		t.Errorf("a pod without an account: %s, want %s", got, want)
	}
	if got := r.lookup("missing", "reg.example/x"); got != "" {
		t.Error(got)
	}
	// Only what is remembered by the token may be the token.
	r.answer("one", "Image", "0s", `"reg.example":{"username":"t","password":"token of sc for reg by p"}`)
	r.answer("two", "Image", "0s", `"reg.example":{"username":"t","password":"token of sc for reg by p"}`)
	if got, want := r.lookup("sc", "reg.example/x"), "t:token of sc for reg by p(ns/sc uid-1)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPluginsThatFail(t *testing.T) {
	r := newRig(t, head+entry("one", "reg.example", "")+entry("two", "reg.example", ""))
	for _, bad := range []string{
		"{", `{"apiVersion":"v1","kind":"CredentialProviderResponse"}`, `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"X","cacheKeyType":"Image"}`,
		`{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Nothing"}`,
		`{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Image","password":"x"}`,
	} {
		r.write("one.answer", bad, 0o600)
		if got := r.lookup("", "reg.example/x"); got != "two:secret" {
			t.Errorf("%s: %s", bad, got)
		}
	}
	r.write("one", "#!/bin/sh\necho no luck >&2\nexit 3\n", 0o755)
	_, _, err := r.all[0].ask(t.Context(), &corev1.Pod{}, "reg.example/x")
	const want = "failed to get credential from external registry credential provider: error execing credential provider plugin one for image reg.example/x: exit status 3: no luck\n"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "c.yaml")
	for text, want := range map[string]string{
		head + entry("one", "*.example", ""):                          "",
		strings.TrimSpace(head) + " []":                               "at least 1 item in plugins is required",
		head + entry("three", "x", ""):                                "three did not exist",
		head + entry("one", "x", "") + entry("one", "y", ""):          `duplicate provider name "one" found`,
		head + entry("a/b", "x", ""):                                  "provider name cannot contain '/'",
		head + entry("..", "x", ""):                                   "provider name cannot be '..'",
		head + "- {name: one}":                                        "providers.apiVersion: Required value, providers.matchImages: Required value: at least 1 item in matchImages is required, providers.defaultCacheDuration: Required value",
		head + entry("one", "x", ", tokens: 1"):                       `unknown field "providers[0].tokens"`,
		head + entry("one", "%zz", ""):                                "match image is invalid",
		strings.Replace(head, "/v1\n", "/v7\n", 1):                    `it is a "CredentialProviderConfig" of "kubelet.config.k8s.io/v7"`,
		head + entry("one", "x", ", tokenAttributes: {}"):             "serviceAccountTokenAudience: Required value",
		head + entry("one", "x", ", tokenAttributes: {cacheType: x}"): `Unsupported value: "x": supported values: "ServiceAccount", "Token"`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := read(path, dir)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
	// A folder's files are one configuration.
	folder := t.TempDir()
	for name, text := range map[string]string{"b.yaml": head + entry("one", "x", ""), "a.json": head + entry("two", "x", ""), "c.txt": "{"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := read(folder, dir); err != nil || len(all) != 2 || all[0].Name != "two" {
		t.Errorf("%v %v", all, err)
	}
	if _, err := read(folder, dir+"/none"); err == nil || !strings.Contains(err.Error(), "did not exist") {
		t.Error(err)
	}
}
