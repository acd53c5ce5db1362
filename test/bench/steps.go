package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// measureBoot: first start (unpacking, certificates, an empty store) and later ones, process start to node Ready.
func measureBoot(ctx context.Context, p *product, o options, f *figures) error {
	began := time.Now()
	if err := p.up(ctx); err != nil {
		return err
	}
	f.ms("boot.first", time.Since(began))
	if err := p.cmd(ctx, "image", "import", filepath.Join(o.images, "busybox.tar")); err != nil {
		return err
	}
	var later []time.Duration
	for range 5 {
		if err := p.down(ctx); err != nil {
			return err
		}
		began := time.Now()
		if err := p.up(ctx); err != nil {
			return err
		}
		later = append(later, time.Since(began))
	}
	f.ms("boot.again.p50", quantile(later, 0.5))
	return nil
}

// measureIdle: memory of everything that belongs to the server, as the sum of proportional set sizes, and CPU and store writes
// over 30 quiet seconds.
func measureIdle(ctx context.Context, p *product, o options, f *figures) error {
	if err := pause(ctx, 10*time.Second); err != nil { // start-up garbage settles
		return err
	}
	before, err := footprint(p.dir)
	if err != nil {
		return err
	}
	if err := pause(ctx, 30*time.Second); err != nil {
		return err
	}
	after, err := footprint(p.dir)
	if err != nil {
		return err
	}
	var total, cpu float64
	for name, a := range after {
		f.add("idle.pss."+name, a.pssMB, "MB")
		total += a.pssMB
		cpu += a.cpu.Seconds() - before[name].cpu.Seconds()
	}
	f.add("idle.pss", total, "MB")
	f.add("idle.cpu", 100*cpu/30, "%core")
	return nil
}

// measureSingle: create -> Running of one pod, alternating with the runtime alone.
func measureSingle(ctx context.Context, p *product, o options, f *figures) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	fl, err := newFloor(p.dir)
	if err != nil {
		return err
	}
	defer fl.close()
	var ours, floor []time.Duration
	const warmUp = 3
	for i := range o.runs + warmUp {
		name := fmt.Sprintf("one-%d", i)
		d, err := startPods(ctx, c, name)
		if err != nil {
			return err
		}
		if err := errors.Join(deletePods(ctx, c, name), fl.settle(ctx)); err != nil {
			return err
		}
		b, err := fl.start(ctx, name)
		if err != nil {
			return err
		}
		if err := errors.Join(fl.stop(ctx, name), fl.settle(ctx)); err != nil {
			return err
		}
		if i >= warmUp {
			ours, floor = append(ours, d), append(floor, b)
		}
	}
	f.ratio("pod.start.p50", quantile(ours, 0.5), quantile(floor, 0.5))
	f.ratio("pod.start.p99", quantile(ours, 0.99), quantile(floor, 0.99))
	return nil
}

// measureBatch: 50 pods at once until all are Running.
func measureBatch(ctx context.Context, p *product, o options, f *figures) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	fl, err := newFloor(p.dir)
	if err != nil {
		return err
	}
	defer fl.close()
	var ours, floor []time.Duration
	for round := range 3 {
		var names []string
		for i := range o.batch {
			names = append(names, fmt.Sprintf("batch-%d-%d", round, i))
		}
		d, err := startPods(ctx, c, names...)
		if err != nil {
			return err
		}
		if err := errors.Join(deletePods(ctx, c, names...), fl.settle(ctx)); err != nil {
			return err
		}
		b, err := fl.start(ctx, names...)
		if err != nil {
			return err
		}
		if err := errors.Join(fl.stop(ctx, names...), fl.settle(ctx)); err != nil {
			return err
		}
		ours, floor = append(ours, d), append(floor, b)
	}
	f.ratio(fmt.Sprintf("pods.%d.start.p50", o.batch), quantile(ours, 0.5), quantile(floor, 0.5))
	return nil
}

// measureKill: kill -9 of podo, start again, until the API answers with everything ready.
func measureKill(ctx context.Context, p *product, o options, f *figures) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	if _, err := startPods(ctx, c, "survivor"); err != nil {
		return err
	}
	var times []time.Duration
	for range 5 {
		pid, err := p.pid()
		if err != nil {
			return err
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return err
		}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- p.up(ctx) }()
		if err := p.untilServing(ctx); err != nil {
			return err
		}
		times = append(times, time.Since(began))
		if err := <-done; err != nil {
			return err
		}
	}
	f.ms("kill9.serving.p50", quantile(times, 0.5))
	return deletePods(ctx, c, "survivor")
}

// untilServing asks /readyz until it says ok. (From outside a process that does not run yet there is nothing to watch.)
func (p *product) untilServing(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, Timeout: time.Second}
	url := "https://127.0.0.1:" + p.args[5] + "/readyz"
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("not serving 30 s after kill -9")
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

type usage struct {
	pssMB float64
	cpu   time.Duration
}

// footprint sums what the processes of the data directory hold and have used, by program name.
func footprint(dir string) (map[string]usage, error) {
	all := map[string]usage{}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, proc := range procs {
		cmdline, err := os.ReadFile(proc + "/cmdline")
		if err != nil || !strings.Contains(string(cmdline), dir) || filepath.Base(proc) == strconv.Itoa(os.Getpid()) {
			continue
		}
		name := filepath.Base(strings.SplitN(string(cmdline), "\x00", 2)[0])
		pss, err := pssOf(proc)
		if err != nil {
			continue // ended meanwhile
		}
		u := all[name]
		u.pssMB += pss
		u.cpu += cpuOf(proc)
		all[name] = u
	}
	if len(all) == 0 {
		return nil, errors.New("no process of the server found")
	}
	return all, nil
}

func pssOf(proc string) (float64, error) {
	file, err := os.Open(proc + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "Pss:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			return kb / 1000, err
		}
	}
	return 0, fmt.Errorf("no Pss in %s", file.Name())
}

// cpuOf is the user and system time of a process, in clock ticks of 10 ms.
func cpuOf(proc string) time.Duration {
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
