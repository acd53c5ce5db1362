package wire

import (
	"bytes"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/verbs"
)

// audit begins to record the request; u is nil when its credentials are invalid.
func (c *call) audit(u user.Info, start time.Time, long bool) {
	if c.s.c.Audit == nil {
		return
	}
	long = long || c.info.Subresource == "log" || c.info.Subresource == "proxy"
	c.audited = c.s.c.Audit.Begin(c.w, c.r, c.attributes(u), c.info.GV.Version, start, long)
	if c.audited != nil {
		c.w.began = c.audited.Started
		c.r = c.r.WithContext(authz.WithWatch(c.r.Context(), c.audited.Decided))
	}
}

// brings records the object that came with the request; one of the URL's kind with what its kind fills in, as upstream decodes it.
func (c *call) brings(obj runtime.Object) {
	if k := c.kind; c.audited.WantsObject() && k != nil && k.Default != nil && obj.GetObjectKind().GroupVersionKind() == k.GVK {
		obj = k.In(obj.DeepCopyObject())
		k.Default(obj)
		if k.Served != nil {
			obj = k.Out(obj)
		}
		obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	}
	c.audited.Object(obj, c.info.GV.WithResource(c.info.Resource), c.info.Subresource)
}

// answers notes the object of the answer.
func (c *call) answers(obj runtime.Object) {
	if c.audited == nil {
		return
	}
	status, _ := obj.(*metav1.Status)
	if !c.audited.WantsAnswer() {
		c.audited.Answer(status, nil)
		return
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		raw = nil // then it cannot be sent either
	}
	c.audited.Answer(status, raw)
}

// answersList records the list of the answer; b is its encoding for the client.
func (c *call) answersList(l *verbs.List, f form, b *body) {
	if !c.audited.WantsAnswer() || b == nil {
		return
	}
	if f.media != jsonType {
		var err error
		if b, err = listBody(form{media: jsonType}, l); err != nil {
			return
		}
	}
	c.audited.Answer(nil, bytes.Join(b.pieces, nil))
}
