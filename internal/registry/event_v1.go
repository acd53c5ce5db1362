//lint:file-ignore SA1019 the deprecated fields of events are served all the same.

package registry

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// eventV1Kind serves the events of stored, the core group's row, in their newer form, and is stricter about them.
func eventV1Kind(stored *Kind) *Kind {
	of := func(obj runtime.Object) *v1.Event { return obj.(*v1.Event) }
	k := *stored
	k.GVK = eventsv1.SchemeGroupVersion.WithKind("Event")
	k.Served = &Served{
		Stored:  stored,
		New:     func() runtime.Object { return &eventsv1.Event{} },
		NewList: func() runtime.Object { return &eventsv1.EventList{} },
		In:      func(obj runtime.Object) runtime.Object { return eventIn(obj.(*eventsv1.Event)) },
		Out:     func(obj runtime.Object) runtime.Object { return eventOut(of(obj)) },
	}
	k.Validate = func(obj runtime.Object) field.ErrorList { return validateEventV1(of(obj)) }
	k.Updates = map[string]Update{"": {
		Prepare:            func(runtime.Object, runtime.Object) {},
		Validate:           func(obj, old runtime.Object) field.ErrorList { return validateEventV1Update(of(obj), of(old)) },
		AllowCreate:        true,
		AllowUnconditional: true,
	}}
	k.Selectable = func(obj runtime.Object) fields.Set {
		ev, o := of(obj), of(obj).InvolvedObject
		return with(metaFields(obj),
			"regarding.kind", o.Kind, "regarding.namespace", o.Namespace, "regarding.name", o.Name, "regarding.uid", string(o.UID),
			"regarding.apiVersion", o.APIVersion, "regarding.resourceVersion", o.ResourceVersion, "regarding.fieldPath", o.FieldPath,
			"reason", ev.Reason, "reportingController", ev.ReportingController, "type", ev.Type,
		)
	}
	return &k
}

func eventIn(e *eventsv1.Event) *v1.Event {
	out := &v1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Reason: e.Reason, Message: e.Note, Source: e.DeprecatedSource,
		FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
		Type: e.Type, EventTime: e.EventTime, Action: e.Action, Related: e.Related,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
	}
	if s := e.Series; s != nil {
		out.Series = &v1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}

func eventOut(e *v1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		ObjectMeta: e.ObjectMeta, Regarding: e.InvolvedObject, Reason: e.Reason, Note: e.Message, DeprecatedSource: e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
		Type: e.Type, EventTime: e.EventTime, Action: e.Action, Related: e.Related,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
	}
	if s := e.Series; s != nil {
		out.Series = &eventsv1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}

// validateEventV1 checks a new event. Findings have the paths of the older form, as upstream's.
func validateEventV1(ev *v1.Event) field.ErrorList {
	var e check.Errors
	e.Add(eventRules(ev, "reportingController"))
	e.Add(apivalidation.ValidateObjectMetaAccessor(ev, true, apivalidation.NameIsDNSSubdomain, metaPath))
	e.StandardFinalizers(metaPath.Child("finalizers"), ev.Finalizers)
	eventSeries(&e, ev)
	if ev.EventTime.Time.Equal(time.Time{}) {
		e.Required(field.NewPath("eventTime"), "")
	}
	if ev.Type != v1.EventTypeNormal && ev.Type != v1.EventTypeWarning {
		e.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", ev.Type))
	}
	unset := func(name string, set bool) {
		if set {
			e.Invalid(field.NewPath(name), "", "needs to be unset")
		}
	}
	unset("firstTimestamp", !ev.FirstTimestamp.Time.Equal(time.Time{}))
	unset("lastTimestamp", !ev.LastTimestamp.Time.Equal(time.Time{}))
	unset("count", ev.Count != 0)
	unset("source", ev.Source != v1.EventSource{})
	return e.List()
}

func eventSeries(e *check.Errors, ev *v1.Event) {
	if ev.Series == nil {
		return
	}
	if ev.Series.Count < 2 {
		e.Invalid(field.NewPath("series.count"), "", "should be at least 2")
	}
	if ev.Series.LastObservedTime.Time.Equal(time.Time{}) {
		e.Required(field.NewPath("series.lastObservedTime"), "")
	}
}

// validateEventV1Update: only an event's series goes on.
func validateEventV1Update(ev, old *v1.Event) field.ErrorList {
	var e check.Errors
	e.Add(eventRules(ev, "reportingController"))
	if !equality.Semantic.DeepEqual(ev.Series, old.Series) {
		eventSeries(&e, ev)
	}
	fixed := func(name string, value, was any) {
		if !equality.Semantic.DeepEqual(value, was) {
			e.Invalid(field.NewPath(name), value, apivalidation.FieldImmutableErrorMsg)
		}
	}
	fixed("involvedObject", ev.InvolvedObject, old.InvolvedObject)
	fixed("reason", ev.Reason, old.Reason)
	fixed("message", ev.Message, old.Message)
	fixed("source", ev.Source, old.Source)
	fixed("firstTimestamp", ev.FirstTimestamp, old.FirstTimestamp)
	fixed("lastTimestamp", ev.LastTimestamp, old.LastTimestamp)
	fixed("count", ev.Count, old.Count)
	fixed("type", ev.Type, old.Type)
	// Clients cut times to microseconds, or do not.
	if !ev.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		fixed("eventTime", ev.EventTime, old.EventTime)
	}
	fixed("action", ev.Action, old.Action)
	fixed("related", ev.Related, old.Related)
	fixed("reportingController", ev.ReportingController, old.ReportingController)
	fixed("reportingInstance", ev.ReportingInstance, old.ReportingInstance)
	return e.List()
}
