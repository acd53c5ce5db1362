package server

import (
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
	accept := strings.TrimSpace(r.Header.Get("Accept"))
	for _, part := range strings.Split(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		switch {
		case accept == "", err == nil && slices.Contains([]string{"text/plain", "text/*", "*/*"}, media):
			heading := "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"
			writeText(w, fmt.Sprintf(heading, component, strings.ToLower(p.kind))+p.text())
			return
		case err == nil && params["g"] == "config.k8s.io" && params["as"] == p.kind && slices.Contains(pageVersions, params["v"]):
			if params["v"] != pageVersions[0] {
				w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(p.kind)))
			}
			object := p.object(metav1.TypeMeta{APIVersion: "config.k8s.io/" + params["v"], Kind: p.kind})
			switch media {
			case "application/json":
				writeJSON(w, object)
				return
			case "application/yaml":
				b, err := yaml.Marshal(object)
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				w.Header().Set("Content-Type", "application/yaml")
				_, _ = w.Write(b)
				return
			}
		}
	}
	http.Error(w, "only the following media types are accepted: text/plain, application/json, application/yaml", http.StatusNotAcceptable)
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
		mux.Handle("GET /flagz", page{
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
	mux.Handle("GET /statusz", page{
		kind: "Statusz",
		text: func() string {
			up := int64(time.Since(s.started).Seconds())
			return fmt.Sprintf("\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
				s.started.Format(time.UnixDate), up/3600, up/60%60, up%60, runtime.Version(), number(s.cfg.Version), majorMinor(s.cfg.Version),
				strings.Join(mux.folders(), " "))
		},
		object: func(m metav1.TypeMeta) any {
			return statusz{
				TypeMeta: m, ObjectMeta: metav1.ObjectMeta{Name: component}, StartTime: metav1.NewTime(s.started),
				UptimeSeconds: int64(time.Since(s.started).Seconds()), GoVersion: runtime.Version(),
				BinaryVersion: number(s.cfg.Version), EmulationVersion: majorMinor(s.cfg.Version), Paths: mux.folders(),
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
