package oracle

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
)

const inNamespace = "default"

// created is the time at which every object of a comparison is created: long ago, so that ages do not tick.
var created = metav1.NewTime(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))

// asker is whose requests they are.
var asker = &user.DefaultInfo{Name: "oracle", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// recorder keeps the warnings of one request.
type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

// requestContext is what upstream's handlers put in the context of a request.
func (k Kind) requestContext(subresource string, name string, w *recorder) context.Context {
	p := k.Podo
	ns := ""
	if p.Namespaced {
		ns = inNamespace
	}
	ctx := request.WithNamespace(context.Background(), ns)
	ctx = request.WithUser(ctx, asker)
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, APIGroup: p.GVK.Group, APIVersion: p.GVK.Version, Resource: p.Resource, Subresource: subresource,
		Namespace: ns, Name: name,
	})
	return warning.WithWarningRecorder(ctx, w)
}

// internal defaults and converts as upstream's decoder does.
func (k Kind) internal(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	legacyscheme.Scheme.Default(obj)
	// As upstream's decoder does: what the defaults let two fields share, they go on sharing.
	out, err := legacyscheme.Scheme.UnsafeConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		panic(err)
	}
	return out
}

func (k Kind) external(obj runtime.Object) runtime.Object {
	out, err := legacyscheme.Scheme.ConvertToVersion(obj, k.Podo.GroupVersion())
	if err != nil {
		panic(err)
	}
	out.GetObjectKind().SetGroupVersionKind(k.Podo.GVK)
	return out
}

// UpstreamCreate is a POST as upstream's registry does it.
func (k Kind) UpstreamCreate(obj runtime.Object) Outcome {
	return guarded(func() Outcome {
		in := k.internal(obj)
		var w recorder
		m := meta1(in)
		if err := rest.BeforeCreate(k.Create, k.requestContext("", m.GetName(), &w), in); err != nil {
			return Outcome{Causes: refused(err)}
		}
		return Outcome{Object: k.external(in), Warnings: w.texts}
	})
}

// readable says that an object can be read as one of its kind at all.
func (k Kind) readable(obj runtime.Object) bool {
	return k.Podo.Unreadable == nil || k.Podo.Unreadable(k.Podo.In(obj)) == nil
}

// stands is the object as Podo's rules know it, defaulted.
func (k Kind) stands(obj runtime.Object) runtime.Object {
	obj = k.Podo.In(obj.DeepCopyObject())
	if f := k.Podo.Unreadable; f != nil {
		if err := f(obj); err != nil {
			panic(err)
		}
	}
	k.Podo.Default(obj)
	return obj
}

// PodoCreate is a POST as internal/apiserver/verbs does it.
func (k Kind) PodoCreate(obj runtime.Object) Outcome {
	return guarded(func() Outcome {
		p := k.Podo
		obj := k.stands(obj)
		if p.PrepareForCreate != nil {
			p.PrepareForCreate(obj)
		}
		if p.NoteCreator != nil {
			p.NoteCreator(obj, authenticationv1.UserInfo{Username: asker.Name, Groups: asker.Groups})
		}
		if errs := p.CheckCreate(obj); len(errs) > 0 {
			return Outcome{Causes: refused(apierrors.NewInvalid(p.GVK.GroupKind(), meta1(obj).GetName(), errs))}
		}
		o := Outcome{Object: p.Out(obj)}
		if p.Warnings != nil {
			o.Warnings = p.Warnings(obj)
		}
		o.Object.GetObjectKind().SetGroupVersionKind(p.GVK)
		return o
	})
}

// UpstreamUpdate is a PUT to an endpoint of the kind ("" or a subresource) as upstream's registry does it.
func (k Kind) UpstreamUpdate(endpoint string, obj, old runtime.Object) Outcome {
	return guarded(func() Outcome {
		in, was := k.internal(obj), k.internal(old)
		var w recorder
		if err := rest.BeforeUpdate(k.Update[endpoint], k.requestContext(endpoint, meta1(was).GetName(), &w), in, was); err != nil {
			return Outcome{Causes: refused(err)}
		}
		return Outcome{Object: k.external(in), Warnings: w.texts}
	})
}

// PodoUpdate is a PUT as internal/apiserver/verbs does it.
func (k Kind) PodoUpdate(endpoint string, obj, old runtime.Object) Outcome {
	return guarded(func() Outcome {
		p := k.Podo
		rules := p.Updates[endpoint]
		obj, old := k.stands(obj), k.stands(old)
		m, was := meta1(obj), meta1(old)
		m.SetGeneration(was.GetGeneration())
		if rules.Prepare != nil {
			rules.Prepare(obj, old)
		}
		if rules.Stamp != nil {
			rules.Stamp(obj, old, created.Time)
		}
		if m.GetUID() == "" {
			m.SetUID(was.GetUID())
		}
		m.SetCreationTimestamp(was.GetCreationTimestamp())
		if was.GetDeletionTimestamp() != nil {
			m.SetDeletionTimestamp(was.GetDeletionTimestamp())
		}
		if m.GetDeletionGracePeriodSeconds() == nil {
			m.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
		}
		if errs := p.CheckUpdate(rules.At(created.Time), obj, old); len(errs) > 0 {
			return Outcome{Causes: refused(apierrors.NewInvalid(p.GVK.GroupKind(), m.GetName(), errs))}
		}
		o := Outcome{Object: p.Out(obj)}
		o.Object.GetObjectKind().SetGroupVersionKind(p.GVK)
		if rules.Warnings != nil {
			o.Warnings = rules.Warnings(obj, old)
		}
		return o
	})
}

// complete sets the metadata that the server sets before the rules run.
func (k Kind) complete(obj runtime.Object) {
	m := meta1(obj)
	m.SetCreationTimestamp(created)
	m.SetUID("11111111-2222-3333-4444-555555555555")
	m.SetResourceVersion("")
	m.SetSelfLink("")
	m.SetManagedFields(nil)
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	if k.Podo.Namespaced {
		m.SetNamespace(inNamespace)
	} else {
		m.SetNamespace("")
	}
	if m.GetName() == "" {
		m.SetName("x")
	}
	obj.GetObjectKind().SetGroupVersionKind(k.Podo.GVK)
}

func meta1(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return m
}

func init() {
	klog.SetLogger(klog.Logger{}) // what upstream logs of objects that it refuses is nobody's news
	// As on every cluster that passes conformance: kube-apiserver --allow-privileged.
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
}
