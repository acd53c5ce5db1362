package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/apiserver/authz"
)

// Request is one request that the policy wants to know of, on its way:
//
//	RequestReceived ─► [ResponseStarted, when it lasts] ─► ResponseComplete
//	                                                    └► Panic
type Request struct {
	ctx   context.Context
	event *audit.AuditContext
	omit  bool // managed fields
	long  bool
	// stranger says that the request could not be authenticated: it has one stage, its refusal.
	stranger bool

	mu       sync.Mutex
	decision string
	reason   string
	started  bool
	over     bool // nothing more is noted
}

// Prepare lets authentication annotate the record (audit.AddAuditAnnotation) before Begin knows the user.
func Prepare(ctx context.Context) context.Context { return audit.WithAuditContext(ctx) }

// Identify answers with the request's ID, the client's or a new one, whether or not the request is recorded.
func Identify(w http.ResponseWriter, r *http.Request) string {
	id := w.Header().Get(auditinternal.HeaderAuditID)
	if id != "" {
		return id
	}
	if id = r.Header.Get(auditinternal.HeaderAuditID); id == "" {
		id = string(uuid.NewUUID())
	}
	w.Header().Set(auditinternal.HeaderAuditID, id)
	return id
}

// Begin records that a request has come, and answers with its ID. It returns nil when the policy does not want the request.
// a.User is nil when the request could not be authenticated. long says that the answer lasts.
func (l *Log) Begin(w http.ResponseWriter, r *http.Request, a *authz.Attributes, version string, received time.Time, long bool) *Request {
	if l == nil {
		return nil
	}
	id := Identify(w, r)
	record := recordOf(a, version, r.URL.Path)
	config, wanted := l.wants(a, record)
	if !wanted {
		return nil
	}
	ctx := audit.WithAuditContext(context.WithoutCancel(r.Context())) // that of Prepare
	q := l.begin(ctx, r, record, config, id, received)
	if q == nil {
		return nil
	}
	q.long = long
	if a.User == nil {
		q.event.SetEventResponseStatus(&metav1.Status{Message: attempted(r)})
		q.long, q.stranger = true, true
		return q
	}
	q.event.ProcessEventStage(ctx, auditinternal.StageRequestReceived)
	return q
}

func recordOf(a *authz.Attributes, version, path string) *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{
		User: a.User, Verb: a.Verb, Namespace: a.Namespace, APIGroup: a.Group, APIVersion: version, Resource: a.Resource,
		Subresource: a.Subresource, Name: a.Name, ResourceRequest: a.OnResource(), Path: path,
	}
}

// wants is what the policy wants to record of a request, if anything.
func (l *Log) wants(a *authz.Attributes, record *authorizer.AttributesRecord) (audit.RequestAuditConfig, bool) {
	config := l.policy.EvaluatePolicyRule(record)
	if config.Level == auditinternal.LevelNone {
		return config, false
	}
	if carriesSecrets(a) && auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config, true
}

func (l *Log) begin(ctx context.Context, r *http.Request, record *authorizer.AttributesRecord, config audit.RequestAuditConfig, id string, received time.Time) *Request {
	q := &Request{ctx: ctx, event: audit.AuditContextFrom(ctx), omit: config.OmitManagedFields}
	audit.WithAuditID(ctx, types.UID(id))
	if err := q.event.Init(config, l.sink); err != nil {
		return nil // only a second Init fails
	}
	audit.LogRequestMetadata(ctx, r, received, record)
	return q
}

// carriesSecrets: credentials, and contents of Secrets, are never recorded, whatever the policy says. Upstream records Secrets
// where the policy wants bodies.
func carriesSecrets(a *authz.Attributes) bool {
	return a.Resource == "secrets" && a.Group == "" || a.Resource == "tokenreviews" || a.Resource == "serviceaccounts" && a.Subresource == "token"
}

// attempted names the kind of credentials of a request that could not be authenticated.
func attempted(r *http.Request) string {
	var how []string
	if _, _, ok := r.BasicAuth(); ok {
		how = append(how, "basic")
	}
	if kind, _, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); ok && strings.EqualFold(kind, "bearer") {
		how = append(how, "bearer")
	}
	if strings.TrimSpace(r.URL.Query().Get("access_token")) != "" {
		how = append(how, "access_token")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		how = append(how, "x509")
	}
	if len(how) == 0 {
		return "Authentication failed, no credentials provided"
	}
	return "Authentication failed, attempted: " + strings.Join(how, ", ")
}

// Impersonates notes whom the request acts as.
func (q *Request) Impersonates(u user.Info, constraint string) {
	if q != nil {
		q.event.LogImpersonatedUser(u, constraint)
	}
}

// Decided records the authorizer's decision. Of several, a refusal counts.
func (q *Request) Decided(allowed bool, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.decision == "forbid" {
		return
	}
	q.decision, q.reason = "allow", reason
	if !allowed {
		q.decision = "forbid"
	}
}

// WantsObject tells whether the object that came with the request is to be recorded.
func (q *Request) WantsObject() bool {
	return q != nil && !q.event.GetEventLevel().Less(auditinternal.LevelRequest)
}

// Object records the object that came with the request.
func (q *Request) Object(obj runtime.Object, gvr schema.GroupVersionResource, subresource string) {
	if q != nil {
		audit.LogRequestObject(q.ctx, obj, gvr.GroupVersion(), gvr, subresource, plain{})
	}
}

// Patch records the patch that came with the request, in JSON or YAML.
func (q *Request) Patch(data []byte) {
	if !q.WantsObject() {
		return
	}
	if !json.Valid(data) {
		var err error
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return
		}
	}
	q.event.LogRequestPatch(data)
}

// WantsAnswer tells whether the answer's body is to be recorded.
func (q *Request) WantsAnswer() bool {
	return q != nil && !q.event.GetEventLevel().Less(auditinternal.LevelRequestResponse)
}

// Answer records the answer: a status, or the JSON of an object, which may be nil.
func (q *Request) Answer(status *metav1.Status, object []byte) {
	if q == nil {
		return
	}
	var body *runtime.Unknown
	if object != nil {
		if q.omit {
			object = withoutManagedFields(object)
		}
		body = &runtime.Unknown{Raw: object, ContentType: runtime.ContentTypeJSON}
	}
	q.event.LogResponseObject(status, body)
}

// Started notes that the answer begins.
func (q *Request) Started(code int) {
	if q == nil || q.over {
		return
	}
	q.started = true
	q.event.SetEventResponseStatusCode(int32(code))
	if q.long {
		q.annotate()
		q.event.ProcessEventStage(q.ctx, auditinternal.StageResponseStarted)
	}
}

// Completed notes that the answer is over.
func (q *Request) Completed() {
	if q == nil {
		return
	}
	if q.stranger {
		return
	}
	q.annotate()
	if !q.started {
		q.event.SetEventResponseStatus(&metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"})
		if q.long {
			q.event.ProcessEventStage(q.ctx, auditinternal.StageResponseStarted)
		}
	}
	q.event.ProcessEventStage(q.ctx, auditinternal.StageResponseComplete)
}

// Panicked records that the request ended in a panic.
func (q *Request) Panicked(p any) {
	if q == nil {
		return
	}
	q.over = true
	q.annotate()
	q.event.SetEventResponseStatus(&metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", p),
	})
	q.event.ProcessEventStage(q.ctx, auditinternal.StagePanic)
}

func (q *Request) annotate() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.decision != "" {
		audit.AddAuditAnnotations(q.ctx, "authorization.k8s.io/decision", q.decision, "authorization.k8s.io/reason", q.reason)
	}
}
