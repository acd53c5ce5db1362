package explain_test

import (
	"strings"
	"testing"

	"podo.dev/podo/internal/explain"
)

// Who has not a right is told how he gets it, in commands that do just that, whatever he calls himself.
func TestAllow(t *testing.T) {
	for said, want := range map[string]string{
		`pods is forbidden: User "system:serviceaccount:shop:web" cannot list resource "pods" in API group "" in the namespace "shop"`: "" +
			"create role web-list-pods -n shop --verb=list --resource=pods && podo kubectl create rolebinding web-list-pods -n shop --role=web-list-pods --serviceaccount=shop:web`",
		`deployments.apps "w" is forbidden: User "jane@example.com" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop"`: "" +
			"create role jane-example.com-patch-deployments-apps-scale -n shop --verb=patch --resource=deployments.apps/scale && podo kubectl create rolebinding jane-example.com-patch-deployments-apps-scale -n shop --role=jane-example.com-patch-deployments-apps-scale --user=jane@example.com`",
		`User "jane" cannot get resource "nodes" in API group "" at the cluster scope`:                        "create clusterrole jane-get-nodes --verb=get --resource=nodes && podo kubectl create clusterrolebinding jane-get-nodes --clusterrole=jane-get-nodes --user=jane`",
		`User "jane" cannot * resource "*" in API group "*" at the cluster scope`:                             "",
		`User "$(reboot)" cannot get resource "nodes" in API group "" at the cluster scope`:                   "",
		`User "jane" cannot get resource "pods" in API group "" in the namespace "a; rm -rf /"`:               "",
		`User "-o" cannot get resource "nodes" in API group "" at the cluster scope`:                          "",
		`User "system:serviceaccount:shop:" cannot get resource "nodes" in API group "" at the cluster scope`: "",
		`User "jane" cannot get resource "pods`:                                                               "",
		`connection refused`:                                                                                  "",
	} {
		switch got := explain.Allow(said); {
		case want == "" && got != "":
			t.Errorf("%s: %s", said, got)
		case !strings.HasSuffix(got, want):
			t.Errorf("%s:\n%s\nwant\n%s", said, got, want)
		}
	}
}

// A container is told of what it was itself refused.
func TestHear(t *testing.T) {
	const said = `User "system:serviceaccount:shop:web" cannot list resource "pods" in API group "" in the namespace "shop"`
	own := explain.Report{Namespace: "shop", Do: "Its log: `x`"}
	own.Hear([]string{"starting", said})
	if !strings.HasPrefix(own.Do, "By its own words the API server refuses it that. If system:serviceaccount:shop:web") || !strings.HasSuffix(own.Do, "Its log: `x`") || len(own.Said) != 2 {
		t.Error(own.Do)
	}
	other := explain.Report{Namespace: "elsewhere", Do: "Its log: `x`"}
	other.Hear([]string{said})
	other.Hear([]string{`User "mallory" cannot get resource "secrets" in API group "" at the cluster scope, as User "system:serviceaccount:elsewhere:`})
	if other.Do != "Its log: `x`" {
		t.Error(other.Do)
	}
}

// What programs of all kinds say leads to what they need, told as their words; the API server's refusal goes before.
func TestHearSayings(t *testing.T) {
	for said, want := range map[string]string{
		"listen tcp :8080: bind: address already in use":                                      "By its own words its port is taken. ",
		"nslookup: can't resolve 'db'":                                                        "By its own words a name does not resolve. Podo brings no cluster DNS",
		"sh: can't create /x: Read-only file system":                                          "By its own words it writes where nothing may be written. Mount an emptyDir",
		"open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory": "By its own words it misses the token of its ServiceAccount. ",
		"sh: can't create /d/file: Permission denied":                                         "By its own words it may not have what it asks for. ",
		"Error: connect ECONNREFUSED 10.96.0.7:5432":                                          "By its own words who it wants to speak to does not answer. ",
		"write /d/x: no space left on device":                                                 "By its own words there is no space left where it writes. ",
		"table exists":                                                                        "",
	} {
		r := explain.Report{Namespace: "shop", Do: "Its log: `x`"}
		r.Hear([]string{"starting", said})
		if !strings.HasPrefix(r.Do, want) || !strings.HasSuffix(r.Do, "Its log: `x`") || want == "" && r.Do != "Its log: `x`" {
			t.Errorf("%s: %s", said, r.Do)
		}
	}
}
