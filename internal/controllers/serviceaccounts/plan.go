// Package serviceaccounts gives each active namespace the ServiceAccounts that every namespace has.
package serviceaccounts

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ensured are the accounts that every active namespace has.
var Ensured = []string{"default"}

// Missing are the accounts to create in a namespace, nil when it is not there. One that is there stays as its owner made it, also
// while it is being deleted: it is replaced when it has gone.
func Missing(ns *v1.Namespace, has func(name string) bool) (out []*v1.ServiceAccount) {
	if ns == nil || ns.Status.Phase != v1.NamespaceActive {
		return nil
	}
	for _, name := range Ensured {
		if !has(name) {
			out = append(out, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}})
		}
	}
	return out
}
