package routes

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/view/viewtest"
)

func apiNode(name, ip, pods string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{PodCIDR: pods, PodCIDRs: []string{pods}},
		Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeHostName, Address: name}, {Type: v1.NodeInternalIP, Address: ip}}},
	}
}

// A node hears of the others as they come and change, and of nothing when nothing that counts has changed.
func TestNodesAreToldOfEachOther(t *testing.T) {
	vw, s := viewtest.New(t, apiNode("a", "192.0.2.1", "10.0.0.0/24"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	srv := httptest.NewServer(Serve(ctx, InView{vw}))
	defer srv.Close()
	told := NewTold(func(ctx context.Context, known string) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"?known="+known, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}, slog.New(slog.DiscardHandler))
	first := told.Changed()
	if _, known := told.Nodes(); known {
		t.Error("nobody has told anything, and it is known")
	}
	done := make(chan struct{})
	go func() { defer close(done); told.Run(ctx) }()
	<-first
	next := told.Changed()
	if all, known := told.Nodes(); !known || len(all) != 1 || all[0].Name != "a" || all[0].IP != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("told of %v", all)
	}
	labelled := apiNode("a", "192.0.2.1", "10.0.0.0/24")
	labelled.Labels = map[string]string{"is": "nobody's business"}
	viewtest.Put(t, s, labelled)
	viewtest.Put(t, s, apiNode("b", "192.0.2.2", "10.0.1.0/24"))
	<-next
	if all, _ := told.Nodes(); len(all) != 2 || all[1].Pods[0].String() != "10.0.1.0/24" {
		t.Errorf("told of %v", all)
	}
	cancel() // ends what is held, too: the server need not wait for it
	<-done
}
