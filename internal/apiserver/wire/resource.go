package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
)

// resource serves a request for an object or a collection.
func (c *call) resource(u user.Info) {
	c.kind = c.s.kinds[c.info.GV.WithResource(c.info.Resource)]
	if c.kind == nil || c.info.nowhere || c.info.rest != "" && !c.proxied() || c.misplaced() || !c.hasPart() {
		c.unknown(u)
		return
	}
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead || c.info.prefixed {
		// Before the body is read: whoever may not write learns nothing about what he sent. And who watches by an old path needs the right
		// to watch all, which the verbs do not ask of a selector for one name.
		if err := authz.Check(c.r.Context(), c.s.c.Verbs.Authorizer(), c.attributes(u)); err != nil {
			c.fail(err)
			return
		}
	}
	if err := c.incomplete(u); err != nil {
		c.fail(err)
		return
	}
	if c.proxied() {
		if err := c.proxy(u); err != nil {
			c.fail(err)
		}
		return
	}
	if c.special(u) {
		return
	}
	if !c.served() {
		c.fail(c.unserved(u))
		return
	}
	if err := c.routed(); err != nil {
		c.fail(err)
		return
	}
	if c.kind.Deprecated != "" && authz.Check(c.r.Context(), c.s.c.Verbs.Authorizer(), c.attributes(u)) == nil {
		c.warn.add(c.kind.Deprecated)
		audit.AddAuditAnnotation(c.r.Context(), "k8s.io/deprecated", "true")
	}
	// A form of answer that the client does not accept is refused before anything is done.
	f, err := negotiate(c.r, !c.kind.Unstored || c.kind.Computed)
	if err != nil {
		c.fail(err)
		return
	}
	c.form = f
	if err := c.nameless(u); err != nil {
		c.fail(err)
		return
	}
	switch c.info.Verb {
	case "get":
		err = c.get(u)
	case "list":
		err = c.listVerb(u)
	case "watch":
		err = c.watch(u)
	case "create":
		err = c.create(u)
	case "update":
		err = c.update(u)
	case "patch":
		err = c.patch(u)
	case "delete":
		err = c.delete(u)
	case "deletecollection":
		err = c.deleteCollection(u)
	}
	if err != nil {
		c.fail(err)
	}
}

// nameless refuses a name that no object can have because it would be another path in the store; the user must be allowed to ask
// for it.
func (c *call) nameless(u user.Info) error {
	if c.info.Name == "" || c.info.Verb == "watch" || c.info.Verb == "list" {
		return nil
	}
	faults := content.IsPathSegmentName(c.info.Name)
	if len(faults) == 0 {
		return nil
	}
	if err := authz.Check(c.r.Context(), c.s.c.Verbs.Authorizer(), c.attributes(u)); err != nil {
		return err
	}
	return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", c.info.Name, strings.Join(faults, ";")))
}

// incomplete refuses a path with nothing where the namespace of an object, or the name of one whose part is meant, should be; the
// user must be allowed to ask.
func (c *call) incomplete(u user.Info) error {
	var text string
	switch {
	case c.info.Name == "" && c.info.Subresource != "":
		text = "name must be provided"
	case !c.info.unnamed || c.info.Name == "" && c.r.Method != http.MethodDelete:
		return nil
	case c.info.Subresource == "proxy":
		text = "missing required namespace"
	default:
		text = "Namespace parameter required."
	}
	if err := authz.Check(c.r.Context(), c.s.c.Verbs.Authorizer(), c.attributes(u)); err != nil {
		return err
	}
	has := c.kind.Verbs
	for _, s := range subs(c.kind) {
		if s.Name == c.info.Subresource {
			has = s.Verbs
		}
	}
	routed := slices.Contains(has, methodVerbs[c.r.Method]) && (c.info.Subresource != "" || c.r.Method != http.MethodPost)
	if c.proxied() {
		routed = slices.Contains(proxyMethods, c.r.Method)
	}
	if !routed {
		return unrouted(http.StatusMethodNotAllowed)
	}
	return apierrors.NewBadRequest(text)
}

// methodVerbs are the verbs of the methods for one object.
var methodVerbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// misplaced tells whether the path has a namespace although the kind has none, or none although one object of the kind is named,
// or is the old form of a watch with something after the object, or begins with two slashes. Otherwise a right in a namespace
// would be one to objects of the whole cluster, and a right to watch one to run commands.
func (c *call) misplaced() bool {
	if c.info.Verb == "watch" && c.info.Subresource != "" || strings.HasPrefix(c.info.Path, "//") {
		return true
	}
	if c.kind.Unstored && !c.kind.Computed && c.info.Name != "" {
		return true // nothing that is only asked has a name
	}
	if c.kind.Namespaced {
		return c.info.Namespace == "" && c.info.Name != "" && (!c.info.unnamed || c.info.Verb == "watch")
	}
	return c.info.Namespace != ""
}

// hasPart says that the kind has the subresource that the path names, if it names one.
func (c *call) hasPart() bool {
	return c.info.Subresource == "" ||
		slices.ContainsFunc(subs(c.kind), func(s registry.Subresource) bool { return s.Name == c.info.Subresource })
}

// unknown answers for a path that is no resource here; users who may not even ask get Forbidden.
func (c *call) unknown(u user.Info) {
	if err := c.s.c.Verbs.Authorize(c.r.Context(), u, c.info.Verb, c.info.ref()); err != nil {
		c.fail(err)
		return
	}
	if c.info.Verb == "list" && c.info.Path == definitionsPath {
		noDefinitions.ServeHTTP(c.w, c.r)
		return
	}
	c.absent()
}

// Custom resources are not served, and the list of their definitions is answered as empty: kubectl asks for it before it creates
// an object that cannot be patched, such as an access review, and creates nothing without an answer.
const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

var noDefinitions = static(jsonType, []byte(`{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","metadata":{},"items":[]}`+"\n"))

// absent answers that nothing is served at the path: with an API error below what is served, elsewhere in plain text.
func (c *call) absent() {
	parts := strings.SplitN(strings.TrimPrefix(c.info.Path, "/"), "/", 3)
	switch {
	case parts[0] == "api", parts[0] == "version", parts[0] == "apis" && len(parts) > 1 && c.s.routes["/apis/"+parts[1]] != nil:
		c.fail(unrouted(http.StatusNotFound))
	default:
		notFound(c.w)
	}
}

func notFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte("404 page not found\n")) // the client has gone: nobody to tell
}

// served tells whether the kind, or its subresource, has the verb.
func (c *call) served() bool {
	if c.info.Verb == "watch" && c.r.Method != http.MethodGet {
		return false // the old path, whatever the method
	}
	if c.r.Method == http.MethodHead {
		return false // whatever authorization calls the verb
	}
	if c.info.Subresource == "" {
		// A create names no object in its URL, and everything else but lists does.
		// Of a namespaced kind, a collection is deleted in one namespace.
		onOne := c.info.Verb == "get" || c.info.Verb == "update" || c.info.Verb == "patch" || c.info.Verb == "delete"
		inOne := c.info.Verb == "create" || c.info.Verb == "deletecollection"
		if onOne && c.info.Name == "" || c.info.Verb == "create" && c.info.Name != "" || inOne && c.kind.Namespaced && c.info.Namespace == "" && !c.info.unnamed {
			return false
		}
		return slices.Contains(c.kind.Verbs, c.info.Verb)
	}
	u, ok := c.kind.Updates[c.info.Subresource]
	if part, is := c.kind.Parts[c.info.Subresource]; is {
		c.kind, ok = part.Kind, true // what is read and answered has the part's type
	}
	return ok && c.info.Name != "" && (c.info.Verb == "update" || !u.PutOnly && (c.info.Verb == "get" || c.info.Verb == "patch"))
}

// unserved is the error for a verb that the resource does not have, for users who could use it otherwise. A list can be asked for
// as a watch by the same path, and is refused with its own text.
func (c *call) unserved(u user.Info) error {
	if err := authz.Check(c.r.Context(), c.s.c.Verbs.Authorizer(), c.attributes(u)); err != nil {
		return err
	}
	if c.info.Verb == "watch" && c.r.Method == http.MethodGet && asked(c.r.URL.Query()["watch"]) && slices.Contains(c.kind.Verbs, "list") {
		return apierrors.NewMethodNotSupported(c.kind.GroupResource(), "watch")
	}
	return unrouted(http.StatusMethodNotAllowed)
}

func (c *call) get(u user.Info) error {
	q := c.r.URL.Query()
	if old := q["export"]; len(old) > 0 && old[0] != "false" && old[0] != "0" {
		return apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	e, err := c.s.c.Verbs.Get(c.r.Context(), u, c.info.ref(), q.Get("resourceVersion"))
	if err != nil {
		return err
	}
	c.object(http.StatusOK, e.Object, e)
	return nil
}

// listOptions reads the query. In the old form, an object's URL watches that object.
func (c *call) listOptions() (*internalversion.ListOptions, error) {
	o := &internalversion.ListOptions{}
	if err := internalscheme.ParameterCodec.DecodeParameters(c.r.URL.Query(), metaGV, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if c.info.Name == "" {
		return o, nil
	}
	if o.FieldSelector != nil && !o.FieldSelector.Empty() && !o.FieldSelector.Matches(fields.Set{"metadata.name": c.info.Name}) {
		return nil, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	o.FieldSelector = fields.OneTermEqualSelector("metadata.name", c.info.Name)
	return o, nil
}

func (c *call) listVerb(u user.Info) error {
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	l, err := c.s.c.Verbs.List(c.r.Context(), u, c.info.ref(), o)
	if err != nil {
		return err
	}
	c.list(l)
	return nil
}

// params reads a kind of options from the query and validates them.
func params[T runtime.Object](q url.Values, into T, check func(T) field.ErrorList) error {
	kind := into.GetObjectKind().GroupVersionKind().Kind
	if len(q) > 0 {
		if err := internalscheme.ParameterCodec.DecodeParameters(q, metaGV, into); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if errs := check(into); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	return nil
}

// decode reads the body as an object of the URL's kind, in its version or one of the accepted ones.
func (c *call) decode(want schema.GroupVersionKind, obj runtime.Object, directive string, accepts ...schema.GroupVersion) error {
	media, err := bodyMedia(c.r)
	if err != nil {
		return err
	}
	data, err := readBody(c.w, c.r)
	if err != nil {
		return err
	}
	strict, err := decodeInto(media, data, want, obj, accepts...)
	if err != nil {
		return err
	}
	c.brings(obj)
	return judge(strict, directive, want, c.warn.add)
}

func (c *call) create(u user.Info) error {
	var o metav1.CreateOptions
	o.Kind = "CreateOptions"
	if err := params(c.r.URL.Query(), &o, metavalidation.ValidateCreateOptions); err != nil {
		return err
	}
	obj := c.kind.NewServed()
	if err := c.decode(c.kind.GVK, obj, o.FieldValidation); err != nil {
		return err
	}
	if c.info.unnamed {
		return homeless(c.kind, obj)
	}
	out, err := c.s.c.Verbs.Create(c.r.Context(), u, c.info.ref(), c.kind.In(obj), c.writer(o.DryRun, o.FieldManager))
	if err != nil {
		return err
	}
	c.object(http.StatusCreated, out, nil)
	return nil
}

// homeless refuses an object whose path has nothing where its namespace should be. What the object says of it does not count.
func homeless(k *registry.Kind, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var faults field.ErrorList
	if m.GetName() == "" && m.GetGenerateName() == "" {
		faults = append(faults, field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
	}
	return apierrors.NewInvalid(k.GVK.GroupKind(), m.GetName(), append(faults, field.Required(field.NewPath("metadata", "namespace"), "")))
}

func (c *call) update(u user.Info) error {
	var o metav1.UpdateOptions
	o.Kind = "UpdateOptions"
	if err := params(c.r.URL.Query(), &o, metavalidation.ValidateUpdateOptions); err != nil {
		return err
	}
	obj := c.kind.NewServed()
	if err := c.decode(c.kind.GVK, obj, o.FieldValidation); err != nil {
		return err
	}
	out, created, err := c.s.c.Verbs.Update(c.r.Context(), u, c.info.ref(), c.kind.In(obj), c.writer(o.DryRun, o.FieldManager))
	if err != nil {
		return err
	}
	c.object(codeOf(created), out, nil)
	return nil
}

func codeOf(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// patchTypes are the media types of patches.
var patchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
}

func (c *call) patch(u user.Info) error {
	var o metav1.PatchOptions
	o.Kind = "PatchOptions"
	kind := types.PatchType(strings.TrimSpace(strings.Split(c.r.Header.Get("Content-Type"), ";")[0]))
	if !slices.Contains(patchTypes, string(kind)) {
		return unsupportedMedia(patchTypes...)
	}
	if err := params(c.r.URL.Query(), &o, func(o *metav1.PatchOptions) field.ErrorList { return metavalidation.ValidatePatchOptions(o, kind) }); err != nil {
		return err
	}
	data, err := readBody(c.w, c.r)
	if err != nil {
		return err
	}
	c.audited.Patch(data)
	p := verbs.Patch{Type: kind, Data: data, Validation: o.FieldValidation, Force: o.Force != nil && *o.Force}
	out, created, err := c.s.c.Verbs.Patch(c.r.Context(), u, c.info.ref(), p, c.writer(o.DryRun, o.FieldManager))
	if err != nil {
		return err
	}
	c.object(codeOf(created), out, nil)
	return nil
}

// deleteOptions come in the body or, without one, in the query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	data, err := readBody(c.w, c.r)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		o.Kind = "DeleteOptions"
		return o, params(c.r.URL.Query(), o, metavalidation.ValidateDeleteOptions)
	}
	media, err := bodyMedia(c.r)
	if err != nil {
		return nil, err
	}
	if err := decodeOptions(media, data, o); err != nil {
		return nil, err
	}
	c.brings(o)
	return o, nil
}

func (c *call) delete(u user.Info) error {
	o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	out, deleted, err := c.s.c.Verbs.Delete(c.r.Context(), u, c.info.ref(), o, c.options(o.DryRun))
	if err != nil {
		return err
	}
	code := http.StatusOK
	//lint:ignore SA1019 old clients send it
	if cascade := o.OrphanDependents; !deleted && cascade != nil && !*cascade {
		code = http.StatusAccepted
	}
	switch {
	case out == nil: // nobody could read it
		c.status(code, &metav1.Status{
			Status: metav1.StatusSuccess, Code: int32(code),
			Details: &metav1.StatusDetails{Name: c.info.Name, Kind: c.kind.GVK.Kind},
		})
		return nil
	case deleted && !c.kind.ReturnsDeleted:
		c.status(code, deletedStatus(c, out))
		return nil
	}
	c.object(code, out, nil)
	return nil
}

func deletedStatus(c *call, obj runtime.Object) *metav1.Status {
	m := partialOf(obj, metaGV)
	return &metav1.Status{
		Status:  metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: m.Name, Group: c.kind.GVK.Group, Kind: c.kind.Resource, UID: m.UID},
	}
}

func (c *call) deleteCollection(u user.Info) error {
	l, err := c.listOptions()
	if err != nil {
		return err
	}
	o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	out, err := c.s.c.Verbs.DeleteCollection(c.r.Context(), u, c.info.ref(), o, l, c.options(o.DryRun))
	if err != nil {
		return err
	}
	c.list(out)
	return nil
}
