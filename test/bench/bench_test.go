package main

import (
	"strings"
	"testing"
)

func TestWhatIsMissingComesWithItsRemedy(t *testing.T) {
	err := check(options{podo: "/not/there/podo", images: "/not/there", peer: "/nor/there", kubeconfig: "/nowhere"})
	for _, want := range []string{
		"/not/there/podo: no such file or directory: make build", "/not/there/busybox.tar: no such file or directory: make images",
		"/nor/there/kubelet: no such file or directory: make peer", "/nowhere: no such file or directory: give another -kubeconfig",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
	if err := check(options{}); err == nil || !strings.Contains(err.Error(), "nothing to measure") {
		t.Errorf("nothing given: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	n := numbers{1}
	if err := n.Set("10,50,100"); err != nil || n.String() != "10,50,100" {
		t.Errorf("%v, %v", n, err)
	}
	for _, bad := range []string{"", "0", "1,x"} {
		if n.Set(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestOnlyOneGroupIsNamedByItsName(t *testing.T) {
	for _, g := range groups {
		for _, other := range groups {
			if g.name != other.name && strings.Contains(other.name, g.name) {
				t.Errorf("-only %s would measure %s too", g.name, other.name)
			}
		}
	}
}
