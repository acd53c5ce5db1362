// Package clients drives podo with the clients that programs are written with: client-go's reflectors and informers, and
// controller-runtime. It is a module of its own, so that the product does not depend on what only its users need.
//
// The tests start bin/podo without a container runtime: the API is all they want.
package clients
