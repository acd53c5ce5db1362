package storageobject

import (
	"math"
	"unicode/utf8"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podfill"
	"podo.dev/podo/internal/registry/podspec"
)

// DefaultAttachment fills what is left out of a volume that an attachment describes itself.
func DefaultAttachment(a *storagev1.VolumeAttachment) {
	if s := a.Spec.Source.InlineVolumeSpec; s != nil {
		check.RoundUp(s.Capacity)
		podfill.DefaultPersistent(&s.PersistentVolumeSource)
	}
}

// ValidateAttachment judges a new attachment of a volume to a node.
func ValidateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	var e check.Errors
	e.Add(attachment(a))
	attacher(&e, specPath.Child("attacher"), a.Spec.Attacher)
	return e.List()
}

// attachment judges all but who attaches.
func attachment(a *storagev1.VolumeAttachment) field.ErrorList {
	var e check.Errors
	p, s := specPath.Child("source"), &a.Spec.Source
	switch {
	case s.InlineVolumeSpec == nil && s.PersistentVolumeName == nil:
		e.Required(p, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case s.InlineVolumeSpec != nil && s.PersistentVolumeName != nil:
		e.Forbidden(p, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case s.PersistentVolumeName != nil && *s.PersistentVolumeName == "":
		e.Required(p.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")
	case s.InlineVolumeSpec != nil:
		e.Add(podspec.InlineVolumeSpec(s.InlineVolumeSpec, p.Child("inlineVolumeSpec")))
	}
	e.Each(specPath.Child("nodeName"), a.Spec.NodeName, apivalidation.NameIsDNSSubdomain(a.Spec.NodeName, false))
	e.Add(attachmentStatus(&a.Status))
	if name := s.PersistentVolumeName; name != nil {
		e.Each(p.Child("persistentVolumeName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))
	}
	return e.List()
}

// attacher checks for the name of a driver, by a rule that upstream generates: it comes last, and its words are others than elsewhere. On
// an update that rule is never reached: the older one is told.
func attacher(e *check.Errors, p *field.Path, name string) {
	const longest = 63
	if name == "" {
		e.Required(p, "")
		return
	}
	//lint:ignore SA1019 upstream's API takes drivers' names in capitals, and so do objects that are stored
	e.Each(p, name, content.IsDNS1123SubdomainCaseless(name))
	if utf8.RuneCountInString(name) > longest {
		e.Put(field.TooLongCharacters(p, name, longest))
	}
}

// ValidateAttachmentUpdate judges a change: what is attached to which node never changes.
func ValidateAttachmentUpdate(a, old *storagev1.VolumeAttachment) field.ErrorList {
	var e check.Errors
	e.Add(podspec.DriverName(specPath.Child("attacher"), a.Spec.Attacher))
	e.Add(attachment(a))
	immutable(&e, specPath, a.Spec, old.Spec)
	return e.List()
}

const (
	attachmentSize = 256 << 10
	mostOfAnError  = 1024
)

func attachmentStatus(s *storagev1.VolumeAttachmentStatus) field.ErrorList {
	var e check.Errors
	size := 0
	for k, v := range s.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > attachmentSize {
		e.TooLong(statusPath.Child("attachmentMetadata"), attachmentSize)
	}
	for _, f := range []struct {
		name string
		err  *storagev1.VolumeError
	}{{"attachError", s.AttachError}, {"detachError", s.DetachError}} {
		if f.err == nil {
			continue
		}
		p := statusPath.Child(f.name)
		if len(f.err.Message) > mostOfAnError {
			e.TooLong(p.Child("message"), mostOfAnError)
		}
		if code := f.err.ErrorCode; code != nil && *code < 0 {
			e.Invalid(p.Child("errorCode"), *code, validation.InclusiveRangeError(0, math.MaxInt32))
		}
	}
	return e.List()
}
