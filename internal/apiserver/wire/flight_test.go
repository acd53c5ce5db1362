package wire

import (
	"strings"
	"testing"
)

// When all turns are taken, who does not get one in time is told to come back, and health is answered all the same.
func TestTooManyRequests(t *testing.T) {
	l := newLocked(t, nil, town()...)
	srv := l.Handler.(*Server)
	for range cap(srv.flight) {
		if !srv.flight.enter(t.Context()) {
			t.Fatal("no turn")
		}
	}
	const pods = "GET /api/v1/namespaces/team/pods"
	w := l.ask("jane", pods+"?timeout=20ms", "", "")
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "Too many requests, please try again later.") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := l.ask("", "GET /livez", "", ""); w.Code != 200 {
		t.Errorf("health: %d %s", w.Code, w.Body)
	}
	if text := l.ask("root|system:masters", "GET /metrics", "", "").Body.String(); !strings.Contains(text,
		`apiserver_request_terminations_total{code="429",component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1`) {
		t.Error("what was sent away is not counted")
	}
	srv.flight.leave()
	if w := l.ask("jane", pods, "", ""); w.Code != 200 {
		t.Errorf("once there is a turn: %d %s", w.Code, w.Body)
	}
}
