package fake

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A program is what a container does, read from its command: statements of the shell, one after another.
//
//	sleep SECONDS|inf    echo WORDS [> FILE]    exit CODE    true    false    trap '' TERM    trap 'STATEMENTS' TERM
//	repeat N WORDS       prints WORDS N times (a stand-in for loops)
//
// The command is either such a statement or `sh -c STATEMENTS`, statements parted by `;` or `&&`. Without a command the
// image's own runs; an image without one sleeps for ever. Anything else cannot be started.
type program struct {
	steps  []step
	deaf   bool   // ignores TERM
	onTerm []step // what the TERM trap does; nil: dies by the signal
}

type step struct {
	wait time.Duration // < 0: for ever
	echo string
	file string // echo goes there instead of to the log
	exit int    // -1: goes on
}

func parse(argv []string) (*program, error) {
	if len(argv) == 0 {
		return &program{steps: []step{{wait: -1, exit: -1}}}, nil
	}
	base := argv[0][strings.LastIndex(argv[0], "/")+1:]
	text := strings.Join(argv, " ")
	switch base {
	case "sh", "ash", "bash":
		if len(argv) < 3 || argv[1] != "-c" {
			return &program{steps: []step{{wait: -1, exit: -1}}}, nil
		}
		text = argv[2]
	case "sleep", "echo", "true", "false", "repeat":
		text = base + strings.TrimPrefix(text, argv[0])
	default:
		return nil, fmt.Errorf("failed to create containerd task: exec: %q: stat %s: no such file or directory", argv[0], argv[0])
	}
	p := &program{}
	for _, stmt := range statements(text) {
		if rest, ok := strings.CutPrefix(stmt, "trap "); ok {
			body := strings.TrimSuffix(strings.TrimSpace(rest), " TERM")
			body = strings.Trim(body, `'"`)
			if p.deaf = body == ""; !p.deaf {
				p.onTerm = []step{}
				for _, s := range statements(body) {
					p.onTerm = append(p.onTerm, parseStep(s)...)
				}
			}
			continue
		}
		p.steps = append(p.steps, parseStep(stmt)...)
	}
	return p, nil
}

// statements parts text at ; and && outside quotes.
func statements(text string) []string {
	var out []string
	var cur strings.Builder
	quote := rune(0)
	flush := func() {
		if s := strings.TrimSpace(cur.String()); s != "" {
			out = append(out, s)
		}
		cur.Reset()
	}
	for _, c := range strings.ReplaceAll(text, "&&", ";") {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && (c == ';' || c == '\n'):
			flush()
			continue
		}
		cur.WriteRune(c)
	}
	flush()
	return out
}

func parseStep(stmt string) []step {
	verb, rest, _ := strings.Cut(stmt, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "sleep":
		if n, err := strconv.ParseFloat(rest, 64); err == nil {
			return []step{{wait: time.Duration(n * float64(time.Second)), exit: -1}}
		}
		return []step{{wait: -1, exit: -1}}
	case "exit":
		n, _ := strconv.Atoi(rest) //nolint:errcheck // exit without a number is exit 0
		return []step{{exit: n}}
	case "false":
		return []step{{exit: 1}}
	case "echo":
		words, file, _ := strings.Cut(rest, ">")
		return []step{{echo: strings.Trim(strings.TrimSpace(words), `'"`), file: strings.TrimSpace(strings.TrimPrefix(file, ">")), exit: -1}}
	case "repeat":
		n, words, _ := strings.Cut(rest, " ")
		count, _ := strconv.Atoi(n) //nolint:errcheck // 0 times
		var out []step
		for range count {
			out = append(out, step{echo: words, exit: -1})
		}
		return out
	}
	return []step{{exit: -1}}
}

// run interprets the program until it ends, is told to stop or is killed, and returns its exit code. It holds no lock.
func (p *program) run(out func(line, file string), term, kill <-chan struct{}) int32 {
	if p.deaf {
		term = nil
	}
	code, done := interpret(p.steps, out, term, kill)
	if done {
		return code
	}
	if p.onTerm == nil {
		return 128 + 15
	}
	if code, done = interpret(p.onTerm, out, nil, kill); done {
		return code
	}
	return 128 + 9
}

// interpret returns false when it was interrupted by term; killed is done, with 137.
func interpret(steps []step, out func(line, file string), term, kill <-chan struct{}) (int32, bool) {
	for _, s := range steps {
		if s.echo != "" {
			out(s.echo, s.file)
		}
		if s.wait != 0 {
			var after <-chan time.Time
			if s.wait > 0 {
				t := time.NewTimer(s.wait)
				defer t.Stop()
				after = t.C
			}
			select {
			case <-after:
			case <-term:
				return 0, false
			case <-kill:
				return 128 + 9, true
			}
		}
		if s.exit >= 0 {
			return int32(s.exit), true
		}
	}
	return 0, true
}

// appendLog writes a line in the CRI log format.
func appendLog(path, line string) {
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return // no folder, no log: nobody looks
	}
	defer f.Close()                                                                     //nolint:errcheck // a test's log
	fmt.Fprintf(f, "%s stdout F %s\n", time.Now().UTC().Format(time.RFC3339Nano), line) //nolint:errcheck // likewise
}
