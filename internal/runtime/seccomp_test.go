package runtime

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
)

// The profile refuses what it does not name, and names each call once, those that pause makes among them.
func TestSandboxSeccomp(t *testing.T) {
	var p struct {
		DefaultAction string
		Architectures []string // none: the machine's own alone
		Syscalls      []struct {
			Names  []string
			Action string
		}
	}
	if err := json.Unmarshal(sandboxSeccomp(), &p); err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != "SCMP_ACT_ERRNO" || len(p.Architectures) != 0 || len(p.Syscalls) != 1 || p.Syscalls[0].Action != "SCMP_ACT_ALLOW" {
		t.Fatalf("%+v", p)
	}
	names := slices.Sorted(slices.Values(p.Syscalls[0].Names))
	if once := slices.Compact(slices.Clone(names)); len(once) != len(names) {
		t.Errorf("%d names, %d different ones", len(names), len(once))
	}
	source, err := os.ReadFile("../../tools/pause/pause.c")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`SYS_(\w+) =`).FindAllSubmatch(source, -1)
	if len(calls) == 0 {
		t.Fatal("pause makes no calls?")
	}
	for _, c := range calls {
		if _, ok := slices.BinarySearch(names, string(c[1])); !ok {
			t.Errorf("pause calls %s, which the profile refuses", c[1])
		}
	}
}
