package wire

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/pki"
)

// A watch over a WebSocket, as browsers and the Java client make it: each event is a message, and the connection ends with the watch.
func TestWatchOverWebSocket(t *testing.T) {
	w := newWorld(t)
	maps := w.client(jsonType).CoreV1().ConfigMaps("default")
	create := func(name string) {
		t.Helper()
		if _, err := maps.Create(w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "line\nline"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("one")
	create("two")
	tlsConfig, err := rest.TLSConfigFor(w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	dial := func(query, accept string) (*websocket.Conn, *http.Response, error) {
		d := websocket.Dialer{TLSClientConfig: tlsConfig, Subprotocols: []string{"base64.binary.k8s.io"}}
		return d.DialContext(w.ctx, strings.Replace(w.address, "https", "wss", 1)+"/api/v1/namespaces/default/configmaps?watch=true&"+query,
			http.Header{"Accept": {accept}, "Origin": {"https://elsewhere.example.com"}})
	}
	conn, _, err := dial("", "*/*")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, name := range []string{"one", "two", "three"} {
		if name == "three" {
			create(name)
		}
		kind, text, err := conn.ReadMessage()
		var e struct {
			Type   string
			Object v1.ConfigMap
		}
		if err != nil || kind != websocket.TextMessage || json.Unmarshal(text, &e) != nil || e.Type != "ADDED" || e.Object.Name != name {
			t.Fatalf("%s: %d %s %v", name, kind, text, err)
		}
	}
	if conn.Subprotocol() != "base64.binary.k8s.io" {
		t.Errorf("the protocol is %q", conn.Subprotocol())
	}
	conn, _, err = dial("timeoutSeconds=1", protoType)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		if kind, b, err := conn.ReadMessage(); err != nil || kind != websocket.BinaryMessage || !strings.HasPrefix(string(b), "\x0a\x05ADDED\x12") {
			t.Fatalf("%d %q %v", kind, b, err)
		}
	}
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("after its time: %v", err)
	}
	if _, res, err := dial("resourceVersion=x", "*/*"); err == nil || res == nil || res.StatusCode != http.StatusInternalServerError {
		t.Errorf("of no version: %+v, %v", res, err)
	}
}

// A client that does not read is cut off, also between two messages.
func TestAWebSocketIsCutForGood(t *testing.T) {
	sent := make(chan error, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: &response{ResponseWriter: w}, r: r}
		to, ok := c.overWebSocket(form{media: jsonType})
		if !ok {
			t.Error("no upgrade")
			return
		}
		defer to.close()
		for range 2 {
			sent <- to.send([]byte("{}\n"))
			to.cut()
		}
		<-to.gone.Done()
	}))
	defer s.Close()
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if before, after := <-sent, <-sent; before != nil || after == nil {
		t.Errorf("before: %v, after: %v", before, after)
	}
}
