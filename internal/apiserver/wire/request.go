package wire

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
)

// info is what a URL and a method ask for. Resource is empty for a path that is no resource.
//
//	/api/v1/[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]
//	/apis/GROUP/VERSION/[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]
//	.../watch/... is the old form of ?watch=true
//	.../proxy/... was the old form of .../proxy, and still is a verb of its own where one is asked what one may do
type info struct {
	Path        string
	Verb        string
	GV          schema.GroupVersion
	Resource    string
	Namespace   string
	Name        string
	Subresource string
	rest        string // behind the subresource
	unnamed     bool   // the path says that there is a namespace, and has nothing where its name should be
	prefixed    bool   // the path says the verb; selectors do not count for what one may do by it
	nowhere     bool   // nothing can be served there, whatever the resource is called
}

func (i *info) ref() client.Ref {
	return client.Ref{
		Resource:  schema.GroupResource{Group: i.GV.Group, Resource: i.Resource},
		Namespace: i.Namespace, Name: i.Name, Subresource: i.Subresource, Version: i.GV.Version,
	}
}

// scope is upstream's word for metrics.
func (i *info) scope() string {
	switch {
	case i.Resource == "":
		return ""
	case i.Name != "" || i.Verb == "create":
		return "resource"
	case i.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// parse fails for a path that names an old verb and nothing else: what it asks for cannot be said, and so not be allowed either.
func parse(r *http.Request) (info, error) {
	i := info{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		i.GV.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		i.GV, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
		i.nowhere = i.GV.Group == ""
	default:
		return i, nil
	}
	special := ""
	if parts[0] == "watch" || parts[0] == "proxy" {
		if len(parts) < 2 {
			return i, fmt.Errorf("unable to determine kind and namespace from url, %v", r.URL)
		}
		special, parts = parts[0], parts[1:]
		i.prefixed, i.nowhere = true, i.nowhere || special == "proxy"
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			i.Namespace, i.unnamed, parts = parts[1], parts[1] == "", parts[2:]
		}
	}
	if parts[0] == "" {
		return info{Path: i.Path, Verb: i.Verb}, nil // two slashes where the resource should be: an ordinary path
	}
	i.Resource = parts[0]
	if len(parts) > 1 {
		i.Name = parts[1]
	}
	if len(parts) > 2 && special != "proxy" {
		i.Subresource = parts[2]
	}
	if len(parts) > 3 {
		i.rest = strings.Join(parts[3:], "/")
	}
	i.Verb = special
	if special == "" {
		i.Verb = verb(r, &i)
	}
	return i, nil
}

func verb(r *http.Request, i *info) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if i.Name == "" {
			return "deletecollection"
		}
		return "delete"
	case http.MethodGet, http.MethodHead:
		switch {
		case i.Name != "":
			return "get"
		case asked(r.URL.Query()["watch"]):
			return "watch"
		}
		return "list"
	}
	return "" // no verb: only a rule for all verbs allows it
}

// asked reads a flag of a query: any value other than "0" and "false" sets it.
func asked(values []string) bool {
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// effect is upstream's metric label for whether a request can change something.
func (i *info) effect() string {
	switch i.Verb {
	case "get", "list", "watch":
		return "readOnly"
	}
	return "mutating"
}

// long tells whether a request lasts as long as its client wants.
func (i *info) long() bool {
	if i.Verb == "watch" {
		return true
	}
	switch i.Subresource {
	case "exec", "attach", "portforward", "proxy", "log":
		return true // also a log that is not followed: it may be long, and its reader slow
	}
	return false
}
