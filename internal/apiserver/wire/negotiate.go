package wire

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
)

// The media types served.
const (
	jsonType  = "application/json"
	yamlType  = "application/yaml"
	protoType = "application/vnd.kubernetes.protobuf"
)

// as is what objects are converted to for the client.
type as int

const (
	whole    as = iota
	table       // metav1.Table
	partial     // metav1.PartialObjectMetadata
	partials    // metav1.PartialObjectMetadataList; not for watches
)

// form is how an answer is written.
type form struct {
	media  string // jsonType, yamlType or protoType
	as     as
	in     schema.GroupVersion // of what objects are converted to; empty for whole objects
	pretty bool
}

// contentType is what the answer calls itself.
func (f form) contentType() string { return f.media }

// negotiate reads the Accept header: the first of the client's choices, by weight, that can be served. Kinds that are not stored
// have no tables.
func negotiate(r *http.Request, tables bool) (form, error) {
	pretty := isPretty(r)
	accept := r.Header.Get("Accept")
	if accept == "" {
		return form{media: jsonType, pretty: pretty}, nil
	}
	of := all
	if !tables {
		of = noTables
	}
	f := choices.choice(accept, of)
	if f.media == "" {
		return form{}, notAcceptable()
	}
	f.pretty = f.pretty || pretty
	return f, nil
}

// formOfStatus is the form of a Status, which is never converted. ok is false when the client accepts no whole objects.
func formOfStatus(r *http.Request) (f form, ok bool) {
	f.media = jsonType
	if accept := r.Header.Get("Accept"); accept != "" {
		f = choices.choice(accept, wholeOnly)
	}
	f.pretty = f.pretty || isPretty(r)
	return f, f.media != ""
}

// forms is a set of media types and conversions that can be served.
type forms int

const (
	all forms = iota
	noTables
	wholeOnly
)

// choices caches parsed headers: programs send the same one with each request.
var choices accepts

type accepts struct {
	known sync.Map // of wish -> form
	count atomic.Int64
}

type wish struct {
	accept string
	of     forms
}

// Bounds of the cache, since clients may send any number of different and long headers.
const maxChoices, maxAccept = 256, 256

func (a *accepts) choice(accept string, of forms) form {
	if f, ok := a.known.Load(wish{accept, of}); ok {
		return f.(form)
	}
	f := choose(accept, of)
	if len(accept) <= maxAccept && a.count.Add(1) <= maxChoices {
		a.known.Store(wish{strings.Clone(accept), of}, f)
	}
	return f
}

// choose is the first of accept's choices that can be served, in the order of upstream's library: mostly by weight, but exact
// names come before wildcards whatever their weights, and a weight of 0 excludes nothing. A choice without a media type cannot be
// served.
func choose(accept string, of forms) form {
	for _, c := range goautoneg.ParseAccept(accept) {
		if f, ok := serveable(c.Type+"/"+c.SubType, c.Params, of); ok {
			return f
		}
	}
	return form{}
}

func serveable(media string, params map[string]string, of forms) (form, bool) {
	f := form{pretty: params["pretty"] == "1"}
	switch media {
	case "*/*", "application/*", jsonType:
		f.media = jsonType
	case yamlType, protoType:
		f.media = media
	default:
		return f, false
	}
	if s := params["stream"]; s != "" && (s != "watch" || f.media == yamlType) {
		return f, false
	}
	if v := params["sv"]; v != "" && v != metaGV.Version {
		return f, false
	}
	_, g := params["g"]
	_, v := params["v"]
	if of == wholeOnly && (params["as"] != "" || params["sv"] != "") {
		return f, false
	}
	switch params["as"] {
	case "":
		return f, !g && !v
	case "Table":
		f.as = table
		if of == noTables || f.media == protoType {
			return f, false
		}
	case "PartialObjectMetadata":
		f.as = partial
	case "PartialObjectMetadataList":
		f.as = partials
	default:
		return f, false
	}
	f.in = schema.GroupVersion{Group: params["g"], Version: params["v"]}
	return f, f.in == metaGV || f.in == metav1beta1.SchemeGroupVersion
}

// isPretty tells whether JSON is indented, as for people who use curl or a browser.
func isPretty(r *http.Request) bool {
	if p := r.URL.Query().Get("pretty"); p != "" {
		yes, err := strconv.ParseBool(p)
		return err == nil && yes
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

func notAcceptable() error { return onlyThese(jsonType, yamlType, protoType) }

func onlyThese(media ...string) error {
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+strings.Join(media, ", "))
}

// routed refuses, first of all, headers that upstream's router has no route for: it knows only exact media types, and of
// wildcards only */*.
func (c *call) routed() error {
	if c.r.Method == http.MethodPatch && !names(c.r.Header.Get("Content-Type"), patchTypes, "") {
		return unroutedMedia(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	made := []string{jsonType, yamlType, protoType}
	accept := c.r.Header.Get("Accept")
	if accept == "" || names(accept, made, "*/*") {
		return nil
	}
	if c.info.Verb == "list" || c.info.Verb == "watch" {
		made = append(made, jsonType+streamed, protoType+streamed)
	}
	return unroutedMedia(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+strings.Join(made, ", "))
}

// names tells whether a header contains one of the media types, or any.
func names(header string, those []string, anyOf string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); slices.Contains(those, name) || name == anyOf && anyOf != "" {
			return true
		}
	}
	return false
}

func unroutedMedia(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

// otherForm is the error for converting an object to a list's form, or a list to an object's.
func otherForm(asked, is string, k *registry.Kind, suffix string) error {
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested "+asked+", but the requested object is "+is+" (*"+verbs.Internal(k.GVK)+suffix+")")
}

func unsupportedMedia(accepted ...string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted, ", "))
}

// unrouted is the error when nothing is served at the path (404), or not with the method (405).
func unrouted(code int) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
}

func statusError(code int, reason metav1.StatusReason, message string) error {
	e := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
	e.ErrStatus.Reason, e.ErrStatus.Message, e.ErrStatus.Details = reason, message, nil
	return e
}
