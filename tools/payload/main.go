// Command payload builds the helper programs that podo carries (containerd, its shim, runc, CNI plug-ins, kubectl, pause) from
// their pinned sources and packs them for go:embed. `make payload` runs it from the repository's root.
//
// Built programs are kept in a cache under a key of everything that decides their content, so that a run with nothing to do takes
// no time, and a changed pin builds one program.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"text/tabwriter"
	"time"

	"podo.dev/podo/internal/runtime/payload/manifest"
)

func main() {
	out := flag.String("out", "internal/runtime/payload/data", "folder that package payload embeds")
	cache := flag.String("cache", "bin/cache/payload", "folder of programs built before")
	flag.Parse()
	if err := run(*out, *cache); err != nil {
		fmt.Fprintln(os.Stderr, "payload:", err)
		os.Exit(1)
	}
}

func run(out, cache string) error {
	for _, dir := range []string{out, cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	b, err := newBuilder(cache)
	if err != nil {
		return err
	}
	m := &manifest.Manifest{Arch: runtime.GOARCH}
	built := map[string]string{} // helper → path of the built file
	changed := false
	for _, h := range helpers {
		start := time.Now()
		file, key, fresh, err := b.build(h, built)
		if err != nil {
			return fmt.Errorf("%s %s: %w", h.name, h.version, err)
		}
		built[h.name] = file
		if h.build.c != "" {
			continue // travels inside its image
		}
		e, err := pack(out, file, h, key)
		if err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		m.Entries = append(m.Entries, e)
		if fresh {
			changed = true
			fmt.Printf("built %s %s in %.1fs\n", h.name, h.version, time.Since(start).Seconds())
		}
	}
	sort.Slice(m.Entries, func(i, j int) bool { return m.Entries[i].Name < m.Entries[j].Name })
	if err := finish(out, m); err != nil {
		return err
	}
	if changed {
		report(m)
	}
	return nil
}

func report(m *manifest.Manifest) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	var size, packed int64
	for _, e := range m.Entries {
		fmt.Fprintf(w, "%s\t%s\t%.1f MB\t%.1f MB packed\t\n", e.Name, e.Version, float64(e.Size)/1e6, float64(e.Packed)/1e6)
		size, packed = size+e.Size, packed+e.Packed
	}
	fmt.Fprintf(w, "total\t\t%.1f MB\t%.1f MB packed\t\n", float64(size)/1e6, float64(packed)/1e6)
	w.Flush()
}
