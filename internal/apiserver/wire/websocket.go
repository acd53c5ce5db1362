package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

// overWebSocket serves browsers, and programs that want to notice a broken connection at once. Each event is a message: text for
// JSON; for protobuf, its bytes without their length. When ok is false it has answered.
func (c *call) overWebSocket(f form) (teller, bool) {
	up := websocket.Upgrader{
		CheckOrigin:  func(*http.Request) bool { return true }, // as upstream
		Subprotocols: websocket.Subprotocols(c.r),
	}
	conn, err := up.Upgrade(c.w, c.r, http.Header{"Warning": c.warn.headers()})
	if err != nil {
		return teller{}, false
	}
	gone, left := context.WithCancel(c.r.Context())
	go func() { // only the end of the connection matters
		defer left()
		for {
			if _, _, err := conn.NextReader(); err != nil {
				return
			}
		}
	}()
	send := func(frames []byte) error {
		for len(frames) > 0 {
			var message []byte
			kind := websocket.TextMessage
			if f.media == protoType {
				kind, message, frames = websocket.BinaryMessage, frames[4:4+binary.BigEndian.Uint32(frames)], frames[4+binary.BigEndian.Uint32(frames):]
			} else {
				end := bytes.IndexByte(frames, '\n') + 1 // JSON contains no newlines
				message, frames = frames[:end], frames[end:]
			}
			if err := conn.WriteMessage(kind, message); err != nil {
				return err
			}
		}
		return nil
	}
	cut := func() { _ = conn.Close() } // a deadline would only hold for the current message
	end := func() {
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second)) // or the client sees the connection end
		_ = conn.Close()
		left()
	}
	return teller{gone: gone, send: send, cut: cut, close: end}, true
}
