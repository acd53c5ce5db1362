package registry

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// eventTTL is how long an event is kept.
const eventTTL = time.Hour

func eventKind() *Kind {
	validate := func(obj runtime.Object) field.ErrorList { return validateEvent(obj.(*v1.Event)) }
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("Event"),
		Resource:         "events",
		Singular:         "event",
		ShortNames:       []string{"ev"},
		Namespaced:       true,
		Dir:              "events",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &v1.Event{} },
		NewList:          func() runtime.Object { return &v1.EventList{} },
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         validate,
		Updates: map[string]Update{"": {
			Prepare:            func(runtime.Object, runtime.Object) {},
			Validate:           func(obj, _ runtime.Object) field.ErrorList { return validate(obj) },
			AllowCreate:        true,
			AllowUnconditional: true,
		}},
		Selectable: eventFields,
		Columns:    eventColumns(),
		Row:        func(obj runtime.Object, now time.Time) []any { return eventRow(obj.(*v1.Event), now) },
		TTL:        func(runtime.Object) time.Duration { return eventTTL },
		NotCached:  true,
		Dependents: NoDependents,
	}
}

func eventFields(obj runtime.Object) fields.Set {
	ev := obj.(*v1.Event)
	o := ev.InvolvedObject
	return with(metaFields(obj),
		"involvedObject.kind", o.Kind,
		"involvedObject.namespace", o.Namespace,
		"involvedObject.name", o.Name,
		"involvedObject.uid", string(o.UID),
		"involvedObject.apiVersion", o.APIVersion,
		"involvedObject.resourceVersion", o.ResourceVersion,
		"involvedObject.fieldPath", o.FieldPath,
		"reason", ev.Reason,
		"reportingComponent", ev.ReportingController,
		"source", cmp.Or(ev.Source.Component, ev.ReportingController),
		"type", ev.Type,
	)
}

// validateEvent checks an event by the rules of core/v1.
func validateEvent(ev *v1.Event) field.ErrorList { return eventRules(ev, "reportingComponent") }

// eventRules are those of both versions. Events with an eventTime are of the newer form and are checked more; reporter is what the
// version calls the field reportingController.
func eventRules(ev *v1.Event, reporterField string) field.ErrorList {
	var e check.Errors
	about, ns := ev.InvolvedObject.Namespace, ev.Namespace
	wrong := func() {
		e.Invalid(field.NewPath("involvedObject", "namespace"), about, "does not match event.namespace")
	}
	if ev.EventTime.Time.Equal(time.Time{}) {
		// Events about cluster-scoped objects are kept in "default".
		if about == "" && ns != "" && ns != metav1.NamespaceDefault || about != "" && ns != about {
			wrong()
		}
		return e.List()
	}
	if about == "" && ns != metav1.NamespaceDefault && ns != metav1.NamespaceSystem {
		wrong()
	}
	reporter := field.NewPath(reporterField)
	if ev.ReportingController == "" {
		e.Required(reporter, "")
	}
	e.Qualified(reporter, ev.ReportingController)
	short := func(name, s string, limit int, required bool) {
		p := field.NewPath(name)
		if required && s == "" {
			e.Required(p, "")
		}
		if len(s) > limit {
			e.Invalid(p, "", fmt.Sprintf("can have at most %v characters", limit))
		}
	}
	short("reportingInstance", ev.ReportingInstance, 128, true)
	short("action", ev.Action, 128, true)
	short("reason", ev.Reason, 128, true)
	short("message", ev.Message, 1024, false)
	return e.List()
}

func eventColumns() []metav1.TableColumnDefinition {
	doc := v1.Event{}.SwaggerDoc()
	name := nameColumn
	name.Priority = 1
	return []metav1.TableColumnDefinition{
		{Name: "Last Seen", Type: "string", Description: doc["lastTimestamp"]},
		{Name: "Type", Type: "string", Description: doc["type"]},
		{Name: "Reason", Type: "string", Description: doc["reason"]},
		{Name: "Object", Type: "string", Description: doc["involvedObject"]},
		{Name: "Subobject", Type: "string", Priority: 1, Description: v1.ObjectReference{}.SwaggerDoc()["fieldPath"]},
		{Name: "Source", Type: "string", Priority: 1, Description: doc["source"]},
		{Name: "Message", Type: "string", Description: doc["message"]},
		{Name: "First Seen", Type: "string", Priority: 1, Description: doc["firstTimestamp"]},
		{Name: "Count", Type: "string", Priority: 1, Description: doc["count"]},
		name,
	}
}

func eventRow(ev *v1.Event, now time.Time) []any {
	first := age(ev.FirstTimestamp, now)
	if ev.FirstTimestamp.IsZero() {
		first = age(metav1.NewTime(ev.EventTime.Time), now)
	}
	last := first
	if !ev.LastTimestamp.IsZero() {
		last = age(ev.LastTimestamp, now)
	}
	count := ev.Count
	if count == 0 {
		count = 1
	}
	if ev.Series != nil {
		last, count = age(metav1.NewTime(ev.Series.LastObservedTime.Time), now), ev.Series.Count
	}
	object := strings.ToLower(ev.InvolvedObject.Kind)
	if ev.InvolvedObject.Name != "" {
		object += "/" + ev.InvolvedObject.Name
	}
	source := cmp.Or(ev.Source.Component, ev.ReportingController)
	if host := cmp.Or(ev.Source.Host, ev.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, ev.Type, ev.Reason, object, ev.InvolvedObject.FieldPath, source, strings.TrimSpace(ev.Message), first, int64(count), ev.Name,
	}
}
