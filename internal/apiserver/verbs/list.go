package verbs

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
)

// List is a page of objects at one revision, in the store's order.
type List struct {
	Kind      *registry.Kind
	Rev       int64
	Continue  string
	Remaining *int64
	Items     []*view.Entry
}

// List reads objects. o's zero value asks for everything, consistently.
func (v *Verbs) List(ctx context.Context, u user.Info, ref client.Ref, o *internalversion.ListOptions) (*List, error) {
	k, err := v.kind(ref)
	if err != nil {
		return nil, err
	}
	if err := v.authorize(ctx, u, "list", named(ref, o), o.FieldSelector); err != nil {
		return nil, err
	}
	if k.Computed {
		return v.listComputed(ctx, k, ref, o)
	}
	return v.list(ctx, k, ref, o)
}

// named puts the name in a field selector into the reference, for authorization by name.
func named(ref client.Ref, o *internalversion.ListOptions) client.Ref {
	if o.FieldSelector != nil {
		if name, ok := o.FieldSelector.RequiresExactMatch("metadata.name"); ok {
			ref.Name = name
		}
	}
	return ref
}

func (v *Verbs) list(ctx context.Context, k *registry.Kind, ref client.Ref, o *internalversion.ListOptions) (*List, error) {
	if errs := listvalidation.ValidateListOptions(o, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	sel, err := newSelector(k, ref.Namespace, o)
	if err != nil {
		return nil, err
	}
	p := page{selector: sel, limit: int(max(o.Limit, 0))} // a negative limit is none, as upstream
	var exact int64
	if o.Continue != "" {
		if p.after, exact, err = decodeContinue(o.Continue); err != nil {
			return nil, err
		}
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
	}
	revision, err := parseRev(o.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	if revision > 0 && (o.ResourceVersionMatch == metav1.ResourceVersionMatchExact || o.ResourceVersionMatch == "" && o.Limit > 0) {
		exact = revision
	}
	p.exact = max(exact, 0)
	if k.NotCached || p.one() && exact == revision {
		if err := v.reached(ctx, revision); err != nil {
			return nil, err
		}
	}
	if k.NotCached {
		return v.listStore(ctx, p, p.exact)
	}
	if o.ResourceVersion == "0" {
		p.limit = 0 // as upstream: old informers ask memory for a page and do not continue
	}
	var s view.Snapshot
	switch {
	case exact > 0:
		if s, err = v.c.View.At(ctx, k.Stored().GroupResource(), exact); err != nil {
			return nil, listError(err, exact, v.c.View.Snapshot().Rev(), o.Continue != "", p.after)
		}
	case o.ResourceVersion == "" || exact < 0:
		if s, err = v.c.View.Fresh(ctx); err != nil {
			return nil, viewError(err)
		}
	default:
		if s, err = v.atLeast(ctx, revision); err != nil {
			return nil, err
		}
	}
	l := p.take(s)
	if err := v.unread(&p, l); err != nil {
		return nil, err
	}
	if l.Continue != "" {
		s.Retain()
	}
	return l, nil
}

// page is what one list answers.
type page struct {
	selector
	limit int
	after view.Key
	exact int64 // the revision asked for, or 0; the snapshot's may be later, with this kind unchanged
}

// one tells whether the page can have only one object, since it is asked for by its name.
func (p *page) one() bool { return p.name != "" && (p.namespace != "" || !p.kind.Namespaced) }

// take fills a page from a snapshot.
func (p *page) take(s view.Snapshot) *List {
	out := &List{Kind: p.kind, Rev: cmp.Or(p.exact, s.Rev())}
	r := p.kind.Stored().GroupResource()
	if p.one() {
		if e := s.Get(r, p.namespace, p.name); p.matches(e) && less(p.after, e.Key) {
			out.Items = []*view.Entry{e}
		}
		return out
	}
	all, pick := s.All(r, p.namespace, p.after), p.selector
	if index, value, ok := p.index(); ok {
		all = inOrder(s.By(r, index, value), p.after)
	} else if pick.namespace = ""; p.limit == 0 && p.everything() && p.namespace == "" {
		out.Items = make([]*view.Entry, 0, s.Len(r))
	}
	var more int64
	for e := range all {
		if !pick.matches(e) {
			continue
		}
		if p.limit == 0 || len(out.Items) < p.limit {
			out.Items = append(out.Items, e)
			continue
		}
		more++
		if !p.everything() {
			break
		}
	}
	p.cut(out, more)
	return out
}

// cut notes that there is more after the page; how much is only told when nothing was filtered.
func (p *page) cut(l *List, more int64) {
	if more == 0 {
		return
	}
	l.Continue = encodeContinue(l.Items[len(l.Items)-1].Key, l.Rev)
	if p.everything() {
		l.Remaining = &more
	}
}

func inOrder(seq iter.Seq[*view.Entry], after view.Key) iter.Seq[*view.Entry] {
	list := slices.SortedFunc(seq, func(a, b *view.Entry) int { return compare(a.Key, b.Key) })
	return func(yield func(*view.Entry) bool) {
		for _, e := range list {
			if less(after, e.Key) && !yield(e) {
				return
			}
		}
	}
}

// compare orders keys as the store does: by the bytes of "namespace/name".
func compare(a, b view.Key) int {
	if a.Namespace == b.Namespace {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Compare(a.Namespace+"/", b.Namespace+"/")
}

func less(a, b view.Key) bool { return a == (view.Key{}) || compare(a, b) < 0 }

// storePage is how many keys are read from the store at once for kinds that the view does not keep.
const storePage = 500

// listStore reads a kind that is not kept decoded.
func (v *Verbs) listStore(ctx context.Context, p page, exact int64) (*List, error) {
	prefix := p.kind.Prefix()
	if p.namespace != "" {
		prefix += p.namespace + "/"
	}
	q := store.ListOptions{Revision: exact, Limit: storePage}
	if p.after != (view.Key{}) {
		q.After = p.kind.Key(p.after.Namespace, p.after.Name)
	}
	out := &List{Kind: p.kind}
	var unread []view.Undecodable
	for {
		res, err := v.store.List(ctx, prefix, q)
		if err != nil {
			return nil, listError(err, exact, 0, p.after != (view.Key{}), p.after)
		}
		if out.Rev == 0 {
			out.Rev = res.Revision
			if exact > 0 {
				out.Rev = exact
			}
			q.Revision = out.Rev // the rest, at the first page's revision
		}
		for _, kv := range res.KVs {
			q.After = kv.Key
			e, err := entryOf(p.kind, kv)
			if err != nil {
				_, err := codec.Decode(p.kind.Stored(), kv.Value, kv.ModRevision) // in its own words
				if unread = append(unread, view.Undecodable{Key: kv.Key, Rev: kv.ModRevision, Err: err}); len(unread) == maxUnread {
					return nil, unreadable(p.kind, unread)
				}
				continue
			}
			if !p.matches(e) {
				continue
			}
			if p.limit > 0 && len(out.Items) == p.limit {
				out.Continue = encodeContinue(out.Items[p.limit-1].Key, out.Rev)
				return out, unreadable(p.kind, unread)
			}
			out.Items = append(out.Items, e)
		}
		if !res.More {
			return out, unreadable(p.kind, unread)
		}
	}
}

// token is the content of a continue parameter: where the next page starts, and at which revision. -1 means the newest.
type token struct {
	Version string `json:"v"`
	Rev     int64  `json:"rv"`
	Start   string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

func encodeContinue(after view.Key, rev int64) string {
	b, err := json.Marshal(token{Version: tokenVersion, Rev: rev, Start: after.Namespace + "/" + after.Name + "\x00"})
	if err != nil {
		panic(err) // strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeContinue(s string) (view.Key, int64, error) {
	invalid := func(why string) (view.Key, int64, error) {
		return view.Key{}, 0, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + why)
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return invalid(err.Error())
	}
	var t token
	if err := json.Unmarshal(b, &t); err != nil {
		return invalid(err.Error())
	}
	switch {
	case t.Version != tokenVersion:
		return invalid("server does not recognize this encoded version " + t.Version)
	case t.Rev == 0:
		return invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return invalid("encoded start key empty (version meta.k8s.io/v1)")
	}
	namespace, name, ok := strings.Cut(strings.TrimSuffix(t.Start, "\x00"), "/")
	if !ok || name == "" || strings.Contains(name, "/") || name == "." || name == ".." || namespace == "." || namespace == ".." {
		return invalid(t.Start)
	}
	return view.Key{Namespace: namespace, Name: name}, t.Rev, nil
}

// listError explains a revision that cannot be read. A paged list whose revision has gone gets a token to go on without it.
func listError(err error, asked, current int64, paging bool, after view.Key) error {
	switch {
	case errors.Is(err, store.ErrFuture):
		return tooLarge(asked, current, 1)
	case !errors.Is(err, view.ErrGone) && !errors.Is(err, store.ErrCompacted):
		return storeError(err)
	case !paging:
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	e := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
		"the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were " +
		"created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	e.ErrStatus.ListMeta.Continue = encodeContinue(after, -1)
	return e
}
