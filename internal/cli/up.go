package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/daemon/boot"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/datadir"
)

func newUp() *cobra.Command {
	cfg := config.DefaultServer()
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster in the background and wait until it is ready",
		Long:  "Start a server in the background, show each stage of its boot with its time, and wait until its node is Ready.\nTakes the flags of `podo server`. A server that runs already is left alone.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.DataDir = dataDir(cmd)
			if err := readConfigFile(cmd); err != nil {
				return err
			}
			if err := cfg.Complete(); err != nil {
				return err
			}
			return up(cmd, cfg, wait)
		},
	}
	serverFlags(cmd.Flags(), &cfg)
	cmd.Flags().DurationVar(&wait, "wait", 2*time.Minute, "how long to wait for the node to be Ready")
	return cmd
}

// runsAlready tells, and prints, whether a process runs on a data directory.
func runsAlready(out io.Writer, dir datadir.Dir) (bool, error) {
	pid, err := dir.Running()
	if err != nil || pid == 0 {
		return false, err
	}
	fmt.Fprintf(out, "podo is running already (process %d, %s).\n", pid, dir.Root)
	return true, nil
}

func up(cmd *cobra.Command, cfg config.Server, wait time.Duration) error {
	out := cmd.OutOrStdout()
	dir := datadir.Dir{Root: cfg.DataDir}
	running, err := runsAlready(out, dir)
	if err != nil {
		return err
	}
	if running {
		nextSteps(out, cfg)
		return nil
	}
	fmt.Fprintf(out, "Starting podo %s in %s\n", Version, cfg.DataDir)
	if err := inBackground(cmd, "server", dir, wait); err != nil {
		return err
	}
	nextSteps(out, cfg)
	return nil
}

// inBackground runs another verb of podo in a session of its own, prints the stages of its boot, and returns when it is ready.
func inBackground(cmd *cobra.Command, verb string, dir datadir.Dir, wait time.Duration) error {
	out := cmd.OutOrStdout()
	child, stages, err := startVerb(verb, cmd.Flags(), dir)
	if err != nil {
		return err
	}
	defer stages.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	unhook := context.AfterFunc(ctx, func() { stages.SetReadDeadline(time.Now()) })
	defer unhook()
	if err := followBoot(out, stages); err != nil {
		if cmd.Context().Err() != nil {
			// An interrupted `up` leaves nothing half-started.
			_ = child.Signal(unix.SIGTERM)
			return fmt.Errorf("interrupted; the %s is stopping", verb)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not ready after %s; the %s goes on, its log is %s%s", wait, verb, dir.Log(), lastComplaint(dir.Log()))
		}
		return fmt.Errorf("%w\nThe %s's log: %s", err, verb, dir.Log())
	}
	return child.Release()
}

// startVerb runs `podo VERB` with our own flags in a session of its own, its output in the log file, and returns the read end of its
// boot report.
func startVerb(verb string, flags *pflag.FlagSet, dir datadir.Dir) (*os.Process, *os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir.Log()), 0o755); err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(dir.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	args, env := []string{verb, "--data-dir", dir.Root}, append(os.Environ(), bootFD+"=3")
	flags.Visit(func(f *pflag.Flag) {
		if f.Name == "token" { // everybody can read command lines
			env = append(env, tokenEnv+"="+f.Value.String())
			return
		}
		if f.Name != "data-dir" && f.Name != "wait" && f.Name != "background" {
			value := f.Value.String()
			if s, ok := f.Value.(pflag.SliceValue); ok {
				value = strings.Join(s.GetSlice(), ",")
			}
			args = append(args, "--"+f.Name+"="+fromHere(f.Name, value))
		}
	})
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = env
	cmd.Dir = "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, nil, err
	}
	return cmd.Process, r, nil
}

// paths are the suffixes of flags that name files or folders.
var paths = []string{"-file", "-cafile", "-certfile", "-keyfile", "-config", "-dir", "-path"}

// fromHere is a flag's value for a process with another working directory: a relative path is made absolute.
func fromHere(flag, value string) string {
	isPath := slices.ContainsFunc(paths, func(end string) bool { return strings.HasSuffix("-"+flag, end) })
	if !isPath || value == "" || value == "-" {
		return value
	}
	if abs, err := filepath.Abs(value); err == nil {
		return abs
	}
	return value
}

// worthALine is how long a stage must take to be shown.
const worthALine = 5 * time.Millisecond

// followBoot prints the stages until "ready"; very short ones are only counted.
func followBoot(out io.Writer, stages io.Reader) error {
	lines := bufio.NewScanner(stages)
	quick := 0
	for lines.Scan() {
		var s boot.Stage
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return fmt.Errorf("unreadable boot report %q", lines.Text())
		}
		if s.Err != "" {
			return errors.New(s.Err)
		}
		if s.Stage == boot.Ready {
			fmt.Fprintf(out, "  and %d more parts that took no time\n", quick)
			fmt.Fprintf(out, "Ready after %.2fs.\n", s.At.Seconds())
			return nil
		}
		if s.Took < worthALine && s.Note == "" {
			quick++
			continue
		}
		fmt.Fprintf(out, "  %6.2fs  %-22s %5d ms  %s\n", s.At.Seconds(), s.Stage, s.Took.Milliseconds(), s.Note)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("it ended before it was ready")
}

func nextSteps(out io.Writer, cfg config.Server) {
	flag := ""
	if cfg.DataDir != config.DefaultDataDir {
		flag = " --data-dir " + cfg.DataDir
	}
	fmt.Fprintf(out, `
Use it:
  podo kubectl%[1]s get pods -A
  export KUBECONFIG=%[2]s        # for a stock kubectl, helm, client-go
  podo why%[1]s               # what is the matter with pods, or pod/NAME, deployment/NAME, ...
  podo timeline%[1]s pod/NAME     # every stage of a pod, with times
  podo down%[1]s
`, flag, datadir.Dir{Root: cfg.DataDir}.Kubeconfig())
	if env := os.Getenv("KUBECONFIG"); env != "" && env != (datadir.Dir{Root: cfg.DataDir}).Kubeconfig() {
		fmt.Fprintf(out, "\nKUBECONFIG is set to %s and wins over --data-dir: unset it, or export the one above.\n", env)
	}
}

// lastComplaint is the last error or warning in a log in text, for whoever has waited in vain.
func lastComplaint(path string) (text string) {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-32<<10), io.SeekStart)
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if _, rest, ok := strings.Cut(line, " level="); ok && (strings.HasPrefix(rest, "WARN") || strings.HasPrefix(rest, "ERROR")) {
			_, message, _ := strings.Cut(rest, " ")
			text = "\nIt says: " + message
		}
	}
	return text
}
