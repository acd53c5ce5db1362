package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/worker"
)

func TestParseEnvFile(t *testing.T) {
	const text = "# comment\n\n  A='1'\nB='two words' # why\nC='first\n second'\nD= 'nothing'\nE='$(A) $A \\n'\r\nF=''\nA='again'\n"
	for key, want := range map[string]string{
		"A": "1", "B": "two words", "C": "first\n second", "D": "", "E": `$(A) $A \n`, "F": "", "Z": "",
	} {
		if got, err := parseEnvFile(text, key); err != nil || got != want {
			t.Errorf("%s: %q %v", key, got, err)
		}
	}
	for bad, why := range map[string]string{
		"A": "line 1: there is no '='", "\nA ='1'": "line 2: a name must", "='1'": "a name must", "A=1": "single quotes", "A=\"1\"": "single quotes",
		"A='1": "not closed", "A='1\n2": "not closed", "A='1'x": "behind the closing quote", "A=": "single quotes",
	} {
		if _, err := parseEnvFile(bad, "Z"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if got, err := parseEnvFile("A='1'\nnonsense", "A"); err != nil || got != "1" {
		t.Errorf("what stands behind it counts: %q %v", got, err)
	}
}

// inDir has every volume at one folder.
type inDir struct {
	volumes
	dir string
}

func (v inDir) Path(*v1.Pod, string) (string, bool, error) { return v.dir, false, nil }

func TestEnvFromFile(t *testing.T) {
	dir := t.TempDir()
	n := newTest(t, func(c *Config) { c.Volumes = inDir{c.Volumes.(volumes), dir} })
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte("A='x'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(outside, []byte("A='stolen'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": outside, "up": "../../env", "root": "/env", "round": "round"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := "v"
	of := func(path, key string, optional bool) (string, error) {
		cfg, err := n.of(testPod(func(p *v1.Pod) {
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "V", ValueFrom: &v1.EnvVarSource{
				FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: path, Key: key, Optional: &optional},
			}}}
			p.Spec.InitContainers = []v1.Container{{Name: "i", VolumeMounts: []v1.VolumeMount{{Name: in, MountPath: "/v"}}}}
		}))
		if err != nil {
			return "", err
		}
		return envOf(cfg), nil
	}
	for _, path := range []string{"env", "root", "up"} { // links are the volume's own: its root is theirs, which has nothing above it
		if got, err := of(path, "A", false); err != nil || got != "V=x" {
			t.Error(path, got, err)
		}
	}
	for path, key := range map[string]string{"env": "B", "none": "A", "link": "A"} {
		if got, err := of(path, key, true); err != nil || got != "" {
			t.Error(path, got, err)
		}
	}
	if _, err := of("env", "B", false); err == nil || err.Error() != `environment variable key "B" not found in file "`+filepath.Join(dir, "env")+`"` {
		t.Error(err)
	}
	for path, optional := range map[string]bool{"link": false, "none": false, ".": true, "pipe": true, "round": true} {
		if _, err := of(path, "A", optional); err == nil || err.Error() != "couldn't parse env file" {
			t.Error(path, err)
		}
	}
	in = "other" // what nobody mounts is not there
	if _, err := of("env", "A", true); err == nil || err.Error() != `cannot find the volume "v" referenced by FileKeyRef` {
		t.Error(err)
	}
}

// An ephemeral container sees the processes of its target, unless all containers see each other's anyway.
func TestTarget(t *testing.T) {
	n := newTest(t)
	for share, want := range map[bool]runtimev1.NamespaceMode{false: runtimev1.NamespaceMode_TARGET, true: runtimev1.NamespaceMode_POD} {
		p := testPod(func(p *v1.Pod) { p.Spec.ShareProcessNamespace = &share })
		cfg, err := n.Container(t.Context(), worker.ContainerInput{Pod: p, Container: &p.Spec.Containers[0], ImageRef: "root", Target: "id"})
		if err != nil || cfg.Linux.SecurityContext.NamespaceOptions.Pid != want {
			t.Errorf("%v %v", cfg, err)
		}
	}
}
