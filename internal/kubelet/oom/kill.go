// Package oom watches the kernel run out of memory. The runtime reports a container that was killed for its own limit; that the
// whole machine ran out of memory is only in the kernel's log.
package oom

import (
	"regexp"
	"strconv"
	"strings"
)

// Kill is the end of a process for want of memory.
type Kill struct {
	Process string
	PID     int
	// Limited is the cgroup whose limit was reached, "" when the machine itself ran out; Victim is the cgroup of the killed
	// process.
	Limited, Victim string
}

// Parser finds kills in the lines of the kernel's log. A kill takes several lines, of which two matter, in this order:
//
//	oom-kill:constraint=...,oom_memcg=/limited,task_memcg=/victim,task=name,pid=1,uid=0   (global_oom in place of oom_memcg)
//	Out of memory: Killed process 1 (name) ...          or: Memory cgroup out of memory: Killed process 1 (name) ...
type Parser struct{ limited, victim string }

var killed = regexp.MustCompile(`[Oo]ut of memory: Killed process (\d+) \((.+)\)`)

// Line takes in one line. ok says that it completes a kill.
func (p *Parser) Line(s string) (k Kill, ok bool) {
	if _, facts, found := strings.Cut(s, "oom-kill:"); found {
		p.limited, p.victim = fact(facts, "oom_memcg"), fact(facts, "task_memcg")
		return Kill{}, false
	}
	m := killed.FindStringSubmatch(s)
	if m == nil {
		return Kill{}, false
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		return Kill{}, false
	}
	k = Kill{Process: m[2], PID: pid, Limited: p.limited, Victim: p.victim}
	*p = Parser{}
	if k.Limited == "" && strings.Contains(s, "Memory cgroup") { // the first line was missed
		k.Limited = "?"
	}
	return k, true
}

// fact is one of the facts "a=1,b=2".
func fact(s, name string) string {
	for part := range strings.SplitSeq(s, ",") {
		if v, ok := strings.CutPrefix(part, name+"="); ok {
			return v
		}
	}
	return ""
}
