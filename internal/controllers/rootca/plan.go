// Package rootca puts the certificate of the API server's authority into each active namespace, for pods to verify the API server with.
package rootca

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Name is the ConfigMap's, and Key the certificate's in it.
	Name = "kube-root-ca.crt"
	Key  = "ca.crt"

	describes   = "kubernetes.io/description"
	description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Action is what a namespace's ConfigMap needs.
type Action int

// The actions. A ConfigMap that is there is kept right until its namespace has gone; none is made in one that is going.
const (
	Leave Action = iota
	Create
	Change
)

// Decide says what to do in a namespace, nil when it is not there, with its ConfigMap, nil when it is not there.
func Decide(ns *v1.Namespace, c *v1.ConfigMap, ca string) Action {
	switch {
	case ns == nil:
		return Leave
	case c == nil && ns.Status.Phase == v1.NamespaceActive:
		return Create
	case c != nil && !right(c, ca):
		return Change
	}
	return Leave
}

// right: the data is the certificate alone. The description may be anyone's words.
func right(c *v1.ConfigMap, ca string) bool {
	return len(c.Data) == 1 && c.Data[Key] == ca && c.Annotations[describes] != ""
}

// Wanted is the ConfigMap of a namespace that has none.
func Wanted(namespace, ca string) *v1.ConfigMap {
	c := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
	Repair(c, ca)
	return c
}

// Repair makes c right, and tells whether it was not.
func Repair(c *v1.ConfigMap, ca string) (changed bool) {
	if right(c, ca) {
		return false
	}
	c.Data = map[string]string{Key: ca}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[describes] = description
	return true
}
