package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
)

// manifestSets is how many sets of four objects the large manifest has.
const manifestSets = 50

// kubectl: what a person waits for: a list of thousands of pods printed, a large manifest applied, the API's own documents. Every cluster
// is driven with podo's kubectl; where upstream's has been built, lists are printed with that as well.
func kubectl(ctx context.Context, b *bench) error {
	if b.options.podo == "" {
		return errors.New("this group needs -podo: its kubectl drives every cluster")
	}
	dir, err := os.MkdirTemp("", "podo-bench-kubectl-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	k := commands{bench: b, dir: dir, carried: []string{b.options.podo, "kubectl"}}
	if stock := filepath.Join(b.options.peer, "kubectl"); b.options.peer != "" {
		if _, err := os.Stat(stock); err == nil {
			k.stock = []string{stock}
		}
	}
	for _, step := range []func(context.Context) error{k.documents, k.apply, k.list} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// commands runs kubectl with a cache of documents for each cluster.
type commands struct {
	*bench
	dir            string
	carried, stock []string // how they are called; stock is nil where there is none
}

func (k commands) run(ctx context.Context, program []string, t *target, args ...string) (time.Duration, error) {
	all := slices.Concat(program[1:], []string{
		"--kubeconfig", t.Kubeconfig, "--cache-dir", filepath.Join(k.dir, t.name), "--namespace", load.Namespace,
	}, args)
	cmd := exec.CommandContext(ctx, program[0], all...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: kubectl %s: %w: %s", t.name, args[0], err, failed.String())
	}
	return time.Since(began), nil
}

// documents: discovery and OpenAPI, the first time after the server's start (when nobody else in this run has asked yet) and again; and
// without the client's unpacking.
func (k commands) documents(ctx context.Context) error {
	first, again, packed, size := figures.Samples{}, figures.Samples{}, figures.Samples{}, figures.Samples{}
	for i := range k.runs {
		for _, t := range k.targets {
			took, n, err := t.Documents(ctx, false)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if i == 0 {
				first.Time(t.name, took)
				size.Add(t.name, float64(n)/1e6)
				continue
			}
			again.Time(t.name, took)
			if took, _, err = t.Documents(ctx, true); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			packed.Time(t.name, took)
		}
	}
	k.book.Median("documents.first", "ms", first)
	k.book.Spread("documents.again", again)
	k.book.Spread("documents.again.packed", packed)
	k.book.Median("documents.size", "MB", size)
	return nil
}

// apply: a manifest applied for the first time, and again when there is nothing to do.
func (k commands) apply(ctx context.Context) error {
	made, same := figures.Samples{}, figures.Samples{}
	for round := range k.rounds {
		file := filepath.Join(k.dir, "manifest.yaml")
		if err := os.WriteFile(file, []byte(manifest(round, manifestSets)), 0o600); err != nil {
			return err
		}
		for _, t := range k.targets {
			for _, into := range []figures.Samples{made, same} {
				took, err := k.run(ctx, k.carried, t, "apply", "-f", file)
				if err != nil {
					return err
				}
				into.Time(t.name, took)
			}
			if _, err := k.run(ctx, k.carried, t, "delete", "-f", file, "--wait=false"); err != nil {
				return err
			}
		}
	}
	k.book.Median(fmt.Sprintf("kubectl.apply.%d", 4*manifestSets), "ms", made)
	k.book.Median(fmt.Sprintf("kubectl.apply.%d.again", 4*manifestSets), "ms", same)
	return nil
}

// list: the table of all pods.
func (k commands) list(ctx context.Context) error {
	for _, t := range k.targets {
		if _, _, err := t.Create(ctx, "print", 16, k.objects); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	carried, stock := figures.Samples{}, figures.Samples{}
	for range k.runs {
		for _, t := range k.targets {
			for _, by := range []struct {
				program []string
				took    figures.Samples
			}{{k.carried, carried}, {k.stock, stock}} {
				if by.program == nil {
					continue
				}
				d, err := k.run(ctx, by.program, t, "get", "pods")
				if err != nil {
					return err
				}
				by.took.Time(t.name, d)
			}
		}
	}
	name := fmt.Sprintf("kubectl.get.%d.pods", k.objects)
	k.book.Spread(name, carried)
	if k.stock != nil {
		k.book.Spread(name+".stock", stock)
		// As their users have them: each with its own.
		k.book.Spread(name+".own", figures.Samples{figures.Podo: carried[figures.Podo], figures.Peer: stock[figures.Peer]})
	}
	for _, t := range k.targets {
		if _, err := t.Clear(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// manifest is n sets of a ConfigMap, a Secret, a Service and a Deployment without pods; no two rounds share a name.
func manifest(round, n int) string {
	const set = `apiVersion: v1
kind: ConfigMap
metadata: {name: set-N}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: set-N}
stringData: {key: value}
---
apiVersion: v1
kind: Service
metadata: {name: set-N}
spec: {selector: {app: set-N}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: set-N}
spec:
  replicas: 0
  selector: {matchLabels: {app: set-N}}
  template:
    metadata: {labels: {app: set-N}}
    spec: {containers: [{name: main, image: nowhere}]}
---
`
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(set, "set-N", fmt.Sprintf("set-%d-%d", round, i)))
	}
	return b.String()
}
