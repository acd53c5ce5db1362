// Package deptest holds the test that keeps the layout of the code: which package may import which. See
// docs/architecture.md; each rule says its reason, and the test prints it.
package deptest
