// Package release says which release of Kubernetes podo follows.
package release

// Kubernetes is that release, as a server and a node tell it.
const Kubernetes = "v1.37.2"
