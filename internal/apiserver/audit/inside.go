package audit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"podo.dev/podo/internal/apiserver/authz"
)

// Call is what one of the server's own parts asks of the API, without a connection.
type Call struct {
	authz.Attributes
	Version string
	Agent   string // the part, as a user agent
}

// Inside records that a part of the server makes a request; the returned context records what is decided about it. The Request is
// nil when the policy does not want it: then all that this costs is the evaluation of the policy.
func (l *Log) Inside(ctx context.Context, c *Call, received time.Time) (context.Context, *Request) {
	if c.aNamespace() {
		c.Namespace = c.Name // as for clients: a namespace is inside itself
	}
	record := recordOf(&c.Attributes, c.Version, "")
	config, wanted := l.wants(&c.Attributes, record)
	if !wanted {
		return ctx, nil
	}
	record.Path = c.path()
	own := audit.WithAuditContext(context.WithoutCancel(ctx))
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: record.Path}, Header: http.Header{"User-Agent": {c.Agent}}}
	q := l.begin(own, r, record, config, string(uuid.NewUUID()), received)
	if q == nil {
		return ctx, nil
	}
	q.event.ProcessEventStage(own, auditinternal.StageRequestReceived)
	return authz.WithWatch(ctx, q.Decided), q
}

func (c *Call) aNamespace() bool { return c.Resource == "namespaces" && c.Group == "" }

// path is the URL that an outside client would have requested.
func (c *Call) path() string {
	parts := []string{"", "api", c.Version}
	if c.Group != "" {
		parts = []string{"", "apis", c.Group, c.Version}
	}
	if c.Namespace != "" && !c.aNamespace() {
		parts = append(parts, "namespaces", c.Namespace)
	}
	parts = append(parts, c.Resource)
	for _, part := range []string{c.Name, c.Subresource} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// Brings records the object that a part of the server passes in.
func (c *Call) Brings(q *Request, obj runtime.Object) {
	if q != nil && obj != nil {
		q.Object(obj, schema.GroupVersionResource{Group: c.Group, Version: c.Version, Resource: c.Resource}, c.Subresource)
	}
}

// Ended records how a call of the server's own ended: with out, which may be nil, or with an error.
func (q *Request) Ended(code int, out runtime.Object, err error) {
	if q == nil {
		return
	}
	if err != nil {
		status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
		if known := apierrors.APIStatus(nil); errors.As(err, &known) {
			status = known.Status()
		}
		q.Answer(&status, nil)
		q.Started(int(status.Code))
		q.Completed()
		return
	}
	var raw []byte
	if out != nil && q.WantsAnswer() {
		raw, _ = json.Marshal(out) // an object that cannot be encoded is left out
	}
	q.Answer(nil, raw)
	q.Started(code)
	q.Completed()
}
