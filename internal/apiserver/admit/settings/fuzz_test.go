package settings

import (
	"os"
	"path/filepath"
	"testing"

	"podo.dev/podo/internal/view/viewtest"
)

// FuzzRules: a configuration of admission is refused, or makes rules.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: []\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    defaults: {enforce: baseline, enforce-version: latest}\n    exemptions: {namespaces: [kube-system]}\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ResourceQuota\n  configuration:\n    apiVersion: apiserver.config.k8s.io/v1\n    kind: ResourceQuotaConfiguration\n    limitedResources: [{resource: pods, matchContains: [cpu], matchScopes: [{scopeName: PriorityClass, operator: In, values: [a]}]}]\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: PodSecurity, path: x}]\n", "a: &a [*a]", "\x00",
	} {
		f.Add([]byte(seed))
	}
	vw, _ := viewtest.New(f)
	file := filepath.Join(f.TempDir(), "admission.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		rules, err := Rules(file, vw)
		if (err == nil) != (len(rules) > 0) {
			t.Errorf("%d rules, %v", len(rules), err)
		}
	})
}
