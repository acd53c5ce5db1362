package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// component is what the kubelet calls itself in its pages.
const component = "kubelet"

// pageVersions of config.k8s.io are served alike; the older one with a warning.
var pageVersions = []string{"v1beta1", "v1alpha1"}

// page is one of /statusz and /flagz: text for people, or an object for programs that ask for it by the Accept header
// (application/json;g=config.k8s.io;v=v1beta1;as=Statusz).
type page struct {
	kind   string
	text   func() string
	object func(metav1.TypeMeta) any
}

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wanted := clauses(r.Header.Get("Accept"))
	for _, c := range wanted {
		switch v := c.params["v"]; {
		case slices.Contains([]string{"text/plain", "text/*", "*/*"}, c.media):
			heading := "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = fmt.Fprintf(w, heading, component, strings.ToLower(p.kind))
			_, _ = fmt.Fprint(w, p.text())
			return
		case c.structured() && c.params["g"] == "config.k8s.io" && c.params["as"] == p.kind && slices.Contains(pageVersions, v):
			if v != pageVersions[0] {
				w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(p.kind)))
			}
			object := p.object(metav1.TypeMeta{APIVersion: "config.k8s.io/" + v, Kind: p.kind})
			writeAs(w, http.StatusOK, c.media, fmt.Sprintf("%s;g=config.k8s.io;v=%s;as=%s", c.media, v, p.kind), object)
			return
		}
	}
	refusal := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotAcceptable,
		Code: http.StatusNotAcceptable, Message: "only the following media types are accepted: application/json, application/yaml, text/plain",
	}
	media := "application/json"
	if i := slices.IndexFunc(wanted, func(c clause) bool { return c.structured() && len(c.params) == 0 }); i >= 0 {
		media = wanted[i].media
	}
	writeAs(w, http.StatusNotAcceptable, media, media, refusal)
}

// clause is a media type that a client takes.
type clause struct {
	media  string
	params map[string]string
}

func (c clause) structured() bool {
	return c.media == "application/json" || c.media == "application/yaml"
}

// clauses are those of an Accept header, what the client likes best first. Who says nothing takes anything.
func clauses(accept string) []clause {
	if strings.TrimSpace(accept) == "" {
		return []clause{{media: "*/*"}}
	}
	var out []clause
	for part := range strings.SplitSeq(accept, ",") {
		if media, params, err := mime.ParseMediaType(part); err == nil {
			out = append(out, clause{media, params})
		}
	}
	liked := func(c clause) float64 {
		if q, err := strconv.ParseFloat(c.params["q"], 64); err == nil {
			return q
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b clause) int { return cmp.Compare(liked(b), liked(a)) })
	return out
}

// writeAs writes an object in JSON or YAML.
func writeAs(w http.ResponseWriter, code int, media, contentType string, object any) {
	b, err := json.Marshal(object)
	if err == nil && media == "application/yaml" {
		b, err = yaml.JSONToYAML(b)
	} else {
		b = append(b, '\n')
	}
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	_, _ = w.Write(b)
}

type statusz struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	StartTime         metav1.Time `json:"startTime"`
	UptimeSeconds     int64       `json:"uptimeSeconds"`
	GoVersion         string      `json:"goVersion"`
	BinaryVersion     string      `json:"binaryVersion"`
	EmulationVersion  string      `json:"emulationVersion,omitempty"`
	Paths             []string    `json:"paths"`
}

type flagz struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Flags             map[string]string `json:"flags,omitempty"`
}

// pages adds /flagz, and then /statusz, which lists all paths before it.
func (s *Server) pages(mux *router) {
	if flags := s.cfg.Flags; flags != nil {
		mux.Handle("/flagz", page{
			kind: "Flagz",
			text: func() string {
				var out strings.Builder
				all := flags()
				for _, name := range slices.Sorted(maps.Keys(all)) {
					fmt.Fprintf(&out, "%s=%s\n", name, all[name])
				}
				return out.String()
			},
			object: func(m metav1.TypeMeta) any {
				return flagz{TypeMeta: m, ObjectMeta: metav1.ObjectMeta{Name: component}, Flags: flags()}
			},
		})
	}
	paths := mux.folders()
	mux.Handle("/statusz", page{
		kind: "Statusz",
		text: func() string {
			up := int64(time.Since(s.started).Seconds())
			return fmt.Sprintf("\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
				s.started.Format(time.UnixDate), up/3600, up/60%60, up%60, runtime.Version(), number(s.cfg.Version), majorMinor(s.cfg.Version),
				strings.Join(paths, " "))
		},
		object: func(m metav1.TypeMeta) any {
			return statusz{
				TypeMeta: m, ObjectMeta: metav1.ObjectMeta{Name: component}, StartTime: metav1.NewTime(s.started),
				UptimeSeconds: int64(time.Since(s.started).Seconds()), GoVersion: runtime.Version(),
				BinaryVersion: number(s.cfg.Version), EmulationVersion: majorMinor(s.cfg.Version), Paths: paths,
			}
		},
	})
}

func number(version string) string { return strings.TrimPrefix(version, "v") }

func majorMinor(version string) string {
	parts := strings.SplitN(number(version), ".", 3)
	if len(parts) < 2 {
		return version
	}
	if _, err := strconv.Atoi(parts[1]); err != nil {
		return version
	}
	return parts[0] + "." + parts[1]
}
