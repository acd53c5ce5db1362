package wire

import (
	"slices"
	"testing"
)

// TestOldAppArmor: who gives a profile by an annotation alone is told of the field.
func TestOldAppArmor(t *testing.T) {
	l := newLocked(t, nil, town()...)
	const (
		key  = `container.apparmor.security.beta.kubernetes.io/c`
		said = `299 - "metadata.annotations[` + key + `]: deprecated since v1.30; use the \"appArmorProfile\" field instead"`
	)
	pod := func(profile, spec string) string {
		return `{"metadata":{"name":"x","annotations":{"` + key + `":"` + profile + `"}},"spec":{"containers":[{"name":"c","image":"i"}]` + spec + `}}`
	}
	for _, c := range []struct {
		body   string
		warned bool
	}{
		{pod("unconfined", ""), true},
		{pod("localhost/x", ""), true},
		{pod("unconfined", `,"securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}}`), true},
		{pod("unconfined", `,"securityContext":{"appArmorProfile":{"type":"Unconfined"}}`), false},
		{pod("unconfined", `,"os":{"name":"windows"}`), false},
	} {
		w := l.ask("root|system:masters", "POST /api/v1/namespaces/team/pods?dryRun=All", "", c.body)
		if w.Code != 201 || slices.Contains(w.Header().Values("Warning"), said) != c.warned {
			t.Errorf("%s: %d %v", c.body, w.Code, w.Header())
		}
	}
}
