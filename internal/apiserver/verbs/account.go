package verbs

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

var accounts = schema.GroupResource(client.ServiceAccounts)

// accountWait is how long a pod's creation waits for the default account: its namespace may be a moment old.
const accountWait = time.Second

// account reads a ServiceAccount for admission: from the view and, before it says that there is none, from the store.
func (v *Verbs) account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	if e := v.c.View.Snapshot().Get(accounts, namespace, name); e != nil {
		return e.Object.(*v1.ServiceAccount), nil
	}
	now, err := v.c.View.Fresh(ctx)
	if err != nil {
		return nil, viewError(err)
	}
	if e := now.Get(accounts, namespace, name); e != nil {
		return e.Object.(*v1.ServiceAccount), nil
	}
	if name != admit.DefaultAccount {
		return nil, nil
	}
	return v.awaitAccount(ctx, now, view.Key{Namespace: namespace, Name: name})
}

// awaitAccount waits for an account to be created; nil when it was not created in time.
func (v *Verbs) awaitAccount(ctx context.Context, since view.Snapshot, key view.Key) (*v1.ServiceAccount, error) {
	w, err := v.c.View.Watch(accounts, since.Rev())
	if err != nil {
		return nil, viewError(err)
	}
	defer w.Close()
	wait, cancel := context.WithTimeout(ctx, accountWait)
	defer cancel()
	for {
		changes, _, err := w.Next(wait)
		if err != nil {
			return nil, viewError(ctx.Err()) // nil when only the wait is over, or the view lost its place
		}
		for _, c := range changes {
			if c.New != nil && c.New.Key == key {
				return c.New.Object.(*v1.ServiceAccount), nil
			}
		}
	}
}
