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

// as is what the client wants objects turned into.
type as int

const (
	whole    as = iota
	table       // metav1.Table
	partial     // metav1.PartialObjectMetadata
	partials    // metav1.PartialObjectMetadataList; a watch has nothing to show as one
)

// form is how an answer is written.
type form struct {
	media  string // jsonType, yamlType or protoType
	as     as
	in     schema.GroupVersion // of what objects are turned into; empty for whole ones
	pretty bool
}

// contentType is what the answer calls itself.
func (f form) contentType() string { return f.media }

// negotiate reads the Accept header: the first of the client's choices, by weight, that can be served. What is answered but not stored
// has no tables.
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

// formOfStatus is how a Status is told: it is turned into nothing else. ok is false where the client takes nothing that is whole.
func formOfStatus(r *http.Request) (f form, ok bool) {
	f.media = jsonType
	if accept := r.Header.Get("Accept"); accept != "" {
		f = choices.choice(accept, wholeOnly)
	}
	f.pretty = f.pretty || isPretty(r)
	return f, f.media != ""
}

// forms are those that something can be told in.
type forms int

const (
	all forms = iota
	noTables
	wholeOnly
)

// choices are those of headers that have been read: programs say the same with each request.
var choices accepts

type accepts struct {
	known sync.Map // of wish -> form
	count atomic.Int64
}

type wish struct {
	accept string
	of     forms
}

// Clients may make up headers without end, and long ones.
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

// choose is the first that can be served of what accept names, in the order in which upstream's library has it: that is by weight for the most
// part, but names before what stands for many, whatever either weighs; a weight of nothing keeps nobody from taking it. Without a media type none
// of it can be served.
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

// isPretty: for people, who use curl or a browser, JSON is indented.
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

// routed refuses, before anything else is looked at, headers for which upstream's router has no way: it knows names of media types and no more,
// and of what stands for many only all.
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

// names says that one of the media types in a header is among those, or is any.
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

// otherForm refuses to turn an object into what is made of lists, or a list into what is made of objects.
func otherForm(asked, is string, k *registry.Kind, suffix string) error {
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested "+asked+", but the requested object is "+is+" (*"+verbs.Internal(k.GVK)+suffix+")")
}

func unsupportedMedia(accepted ...string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted, ", "))
}

// unrouted says that nothing is served at the path (404), or not with the method (405).
func unrouted(code int) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
}

func statusError(code int, reason metav1.StatusReason, message string) error {
	e := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
	e.ErrStatus.Reason, e.ErrStatus.Message, e.ErrStatus.Details = reason, message, nil
	return e
}
