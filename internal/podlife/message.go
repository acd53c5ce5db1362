package podlife

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Limits of termination messages, bytes and lines.
const (
	MessageFileBytes = 4096      // the end of the termination message file
	MessageLogBytes  = 2048      // the end of the log, for FallbackToLogsOnError
	MessageLogLines  = 80        // likewise
	messageTotal     = 12 * 1024 // over all containers of a pod
)

// TerminationMessage is an ended container's message. file is the end of its termination message file, log the end of its output,
// fallback the runtime's own message. The log is used only under FallbackToLogsOnError, after a failure, and when the file is
// empty.
func TerminationMessage(policy v1.TerminationMessagePolicy, exitCode int32, file, log []byte, fallback string) string {
	if len(file) > 0 {
		return string(file[max(0, len(file)-MessageFileBytes):])
	}
	if policy != v1.TerminationMessageFallbackToLogsOnError || exitCode == 0 || len(log) == 0 {
		return fallback
	}
	log = log[max(0, len(log)-MessageLogBytes):]
	lines := strings.SplitAfter(string(log), "\n")
	if n := len(lines); lines[n-1] == "" { // nothing follows the last newline
		lines = lines[:n-1]
	}
	return strings.Join(lines[max(0, len(lines)-MessageLogLines):], "")
}

// bounded is a message as the API shows it: cut to its share of the pod's limit, and text. The cuts are made at bytes, also inside
// of a character, and a container may write anything: each byte that is no text is shown as U+FFFD, as encoding it in JSON would.
// Without that, clients that read protobuf and check its strings could not decode the pod.
func bounded(message string, containers int) string {
	return string([]rune(message[:min(len(message), messageTotal/max(1, containers))]))
}

// SpecHash identifies what an instance was made from. As upstream's since 1.31 it covers only name and image, so that a newer
// kubelet that knows more fields restarts no container.
func SpecHash(c *v1.Container) string {
	h := fnv.New32a()
	b, _ := json.Marshal(struct { //nolint:errcheck // two strings always marshal
		Name  string `json:"name"`
		Image string `json:"image"`
	}{c.Name, c.Image})
	h.Write(b) //nolint:errcheck // a hash never fails
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// bareID cuts the runtime's name off a container ID of a status.
func bareID(id string) string {
	if _, after, ok := strings.Cut(id, "://"); ok {
		return after
	}
	return id
}
