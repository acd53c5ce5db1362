package openapi

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
)

// encoding is a form in which a document can be asked for.
type encoding struct {
	accept  []string // media types, all of which mean it
	encode  func(json []byte) ([]byte, error)
	content string
}

var (
	// asJSON is the form in which documents are made.
	asJSON      = &encoding{accept: []string{"application/json"}, content: "application/json"}
	asProtobuf2 = &encoding{
		[]string{"application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"},
		protobuf2, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
	}
	asProtobuf3 = &encoding{
		[]string{"application/com.github.proto-openapi.spec.v3.v1.0+protobuf", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"},
		protobuf3, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
	}
	encodings2 = []*encoding{asJSON, asProtobuf2}
	encodings3 = []*encoding{asJSON, asProtobuf3}
)

func protobuf2(text []byte) ([]byte, error) { return convert(document2, text) }

func protobuf3(text []byte) ([]byte, error) { return convert(document3, text) }

// ServeHTTP serves /openapi/v2, /openapi/v3 and the documents below it.
func (d *Docs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache, private")
	path, below := strings.CutPrefix(r.URL.Path, "/openapi/v3/")
	switch {
	case below:
		d.serveV3(w, r, path)
	case path == "/openapi/v2":
		serve(w, r, d.v2.hashed, d.v2.in, choose(r.Header.Get("Accept"), encodings2))
	case path == "/openapi/v3": // there is one form of it, whatever is asked for
		text, hash, err := d.V3Index()
		serve(w, r, func() (string, error) { return hash, err }, func(*encoding) ([]byte, error) { return pack(text), nil }, asJSON)
	default:
		http.NotFound(w, r)
	}
}

// serveV3 serves one group version. A URL with the right hash may be cached for good; one with a wrong hash leads to the right one.
func (d *Docs) serveV3(w http.ResponseWriter, r *http.Request, path string) {
	doc := d.v3[path]
	if doc == nil {
		w.WriteHeader(http.StatusNotFound) // without a word, as upstream's server
		return
	}
	hash, err := doc.hashed()
	if err != nil {
		fail(w, err)
		return
	}
	if asked := r.URL.Query().Get("hash"); asked != "" {
		if asked != hash {
			to := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {hash}}.Encode()}
			http.Redirect(w, r, to.String(), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	serve(w, r, doc.hashed, doc.in, choose(r.Header.Get("Accept"), encodings3))
}

func fail(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// serve writes the document in a form, the one that the client likes best, nil when it likes none; the hash is its entity tag in every form, and a client that has it
// already makes nobody build anything. in is what is written, compressed: as it is where the client takes that.
func serve(w http.ResponseWriter, r *http.Request, hashed func() (string, error), in func(*encoding) ([]byte, error), e *encoding) {
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	if e == nil {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	hash, err := hashed()
	if err != nil {
		fail(w, err)
		return
	}
	tag := strconv.Quote(hash)
	if r.Header.Get("If-None-Match") == tag {
		w.Header().Set("Etag", tag)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := in(e)
	if err == nil {
		if takesGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
		} else {
			body, err = unpack(body)
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", e.content)
	w.Header().Set("Etag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func takesGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" {
			return strings.TrimSpace(quality) != "q=0"
		}
	}
	return false
}

// choose is the first form that the header accepts, in the header's order of liking; nil when it accepts none.
func choose(accept string, encodings []*encoding) *encoding {
	if accept == "" {
		return encodings[0]
	}
	for _, c := range goautoneg.ParseAccept(accept) {
		for _, e := range encodings {
			if c.Type == "*" || c.Type == "application" && c.SubType == "*" || slices.Contains(e.accept, c.Type+"/"+c.SubType) {
				return e
			}
		}
	}
	return nil
}
