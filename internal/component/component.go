// Package component is the contract between the composition root and everything that runs: a component starts, says
// when it is ready, and ends when its context does. Components are supervised, not trusted (see supervisor.go).
package component

import "context"

// Component is one supervised part of a process.
type Component interface {
	// Name is short, lower case and stable: it appears in /readyz, metrics, events and log lines.
	Name() string
	// Run does the component's work until ctx ends, then returns nil after an orderly stop. It calls ready exactly once
	// per call of Run, when the component serves. An error, or a panic, makes the supervisor restart it with back-off; an
	// error wrapped by Fatal ends the process cleanly instead. Run may be called again after it returned, so whatever it
	// holds must be released by then.
	Run(ctx context.Context, ready func()) error
}

// Func makes a Component of a function.
func Func(name string, run func(ctx context.Context, ready func()) error) Component {
	return fn{name, run}
}

type fn struct {
	name string
	run  func(ctx context.Context, ready func()) error
}

func (f fn) Name() string                                { return f.name }
func (f fn) Run(ctx context.Context, ready func()) error { return f.run(ctx, ready) }
