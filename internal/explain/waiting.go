package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/podspec"
	"podo.dev/podo/internal/timeline"
)

// statuses are all of the pod's, in the order in which containers start.
func (f Facts) statuses() []v1.ContainerStatus {
	s := &f.Pod.Status
	out := append([]v1.ContainerStatus{}, s.InitContainerStatuses...)
	return append(out, s.ContainerStatuses...)
}

// waiting explains a container that cannot start.
func (f Facts) waiting() (Finding, bool) {
	for _, s := range f.statuses() {
		if out, ok := f.cannotStart(s); ok {
			return out, true
		}
	}
	return Finding{}, false
}

// cannotStart explains what a container waits for, unless that is its turn.
func (f Facts) cannotStart(s v1.ContainerStatus) (Finding, bool) {
	w := s.State.Waiting
	if w == nil || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" || w.Reason == "" {
		return Finding{}, false
	}
	if w.Reason == "CrashLoopBackOff" {
		return f.crash(s), true
	}
	out := Finding{State: fmt.Sprintf("cannot start %s (%s)", f.called(s.Name), w.Reason), Since: f.since(s.Name, w.Reason), Why: w.Message}
	img := f.imageOf(s)
	switch w.Reason {
	case "ImagePullBackOff", "ErrImagePull", "RegistryUnavailable":
		f.image(&out, s.Name, img)
	case "ErrImageNeverPull":
		out.Do = fmt.Sprintf("The pull policy is Never and the node has no image %s: import it with `podo image import`, or change %s", img.name, img.policy)
		if has := f.imported(img.name); has != "" {
			out.Do = joined("Name one that the node has, if that was meant: "+has, out.Do)
		}
	case "InvalidImageName":
		out.Do = fmt.Sprintf("Correct the image name %q in the pod", img.name)
	case "ImageInspectError":
		out.Do = "The node's image store does not answer for this image: pull or import it anew"
	case "CreateContainerConfigError":
		out.Do = f.config(s.Name, w.Message)
	case "PostStartHookError":
		f.hookFailed(&out, s.Name)
	case "CreateContainerError", "RunContainerError":
		out.Why = short(w.Message)
		out.Do = f.start(s.Name, w.Message)
	}
	return out, true
}

// pulled is an image that a container needs, and where the pod says so.
type pulled struct{ name, field, policy string }

// imageOf is the image that a waiting container's message speaks of: its own, or one that it mounts.
func (f Facts) imageOf(s v1.ContainerStatus) pulled {
	own := pulled{s.Image, "spec.containers[].image", "imagePullPolicy"}
	message := s.State.Waiting.Message
	for _, m := range f.container(s.Name).VolumeMounts {
		for _, v := range f.Pod.Spec.Volumes {
			if v.Name == m.Name && v.Image != nil && v.Image.Reference != s.Image && strings.Contains(message, `"`+v.Image.Reference) {
				return pulled{v.Image.Reference, "image.reference of the volume " + v.Name, "its pullPolicy in the volume " + v.Name}
			}
		}
	}
	return own
}

// since is when a container's present trouble began: the oldest record of this cause, or of a related one, after it last ran.
func (f Facts) since(container, reason string) (since time.Time) {
	causes := []string{reason}
	if reason == "ImagePullBackOff" {
		causes = append(causes, "ErrImagePull", "RegistryUnavailable")
	}
	for _, r := range slices.Backward(f.Records) {
		if r.Stage != timeline.Container || r.Subject != container {
			continue
		}
		if r.To == "Running" {
			break
		}
		if slices.Contains(causes, r.Cause) {
			since = r.At
		}
	}
	if since.IsZero() {
		if r, ok := f.last(timeline.Container, func(r timeline.Record) bool { return r.Subject == container }); ok {
			return r.At
		}
	}
	return since
}

// image says what the registry answered, and which of the possible meanings can be told apart.
func (f Facts) image(out *Finding, container string, img pulled) {
	said := short(out.Why)
	// The back-off may hide the registry's answer; the last failed pull has it.
	if r, ok := f.last(timeline.Image, func(r timeline.Record) bool {
		return (r.Subject == container || r.Subject == img.name) && r.To == "failed"
	}); ok && r.Get("message") != "" {
		said = short(r.Get("message"))
	}
	out.Why = fmt.Sprintf("Pulling %s failed: %s", img.name, said)
	host, repository, tag := imageParts(img.name)
	words := strings.ToLower(said)
	contains := func(any ...string) bool {
		return slices.ContainsFunc(any, func(w string) bool { return strings.Contains(words, w) })
	}
	switch {
	case contains("no such host", "server misbehaving"):
		out.Do = fmt.Sprintf("The node cannot resolve %s: check the image's name and the node's DNS, or load the image with `podo image import FILE`", host)
	case contains("unauthorized", "denied", "forbidden"):
		out.Do = f.credentials(host, repository)
	case contains("not found", "manifest unknown", "name unknown"):
		out.Do = fmt.Sprintf("%s has no %s with the tag %s: correct %s, or push it", host, repository, tag, img.field)
		if strings.HasPrefix(tag, "sha256:") {
			out.Do = fmt.Sprintf("%s has no %s of that digest: correct %s, or push it", host, repository, img.field)
		}
	case contains("connection refused", "timeout", "network is unreachable", "no route to host"):
		out.Do = fmt.Sprintf("The node cannot reach %s: check that the registry runs and the network, or load the image with `podo image import FILE`", host)
	case contains("server gave http response to https client"):
		out.Do = fmt.Sprintf("%s speaks plain HTTP: give it a certificate, or load the image with `podo image import FILE`", host)
	case contains("x509", "certificate"):
		out.Do = fmt.Sprintf("The node does not trust the certificate of %s: install its authority's on the node", host)
	case contains("no space left"):
		out.Do = "The node's disk is full: remove images (`podo image list`), or give it room"
	default:
		out.Do = fmt.Sprintf("Check that %s can be pulled from the node, or load it with `podo image import FILE`", img.name)
	}
	if has := f.imported(img.name); has != "" {
		out.Do = joined("Name one that the node has, if that was meant: "+has, out.Do)
	}
	out.Do = joined(out.Do, "It is tried again by itself, at most 5 minutes apart")
}

// imported are the images of the same repository that the pod's node has.
func (f Facts) imported(image string) string {
	n := f.node(f.Pod.Spec.NodeName)
	if n == nil {
		return ""
	}
	host, repository, _ := imageParts(image)
	var out []string
	for _, i := range n.Status.Images {
		for _, name := range i.Names {
			if h, r, _ := imageParts(name); h == host && r == repository && !strings.Contains(name, "@") {
				out = append(out, name)
			}
		}
	}
	return listed(out)
}

// credentials says which pull secret is missing, or does not open the image.
func (f Facts) credentials(host, repository string) string {
	p := f.Pod
	create := func(name string) string {
		return fmt.Sprintf("`podo kubectl create secret docker-registry %s -n %s --docker-server=%s --docker-username=… --docker-password=…`", quoted(name), p.Namespace, quoted(host))
	}
	var names []string
	for _, s := range p.Spec.ImagePullSecrets {
		if obj, known := f.cluster().Get("secrets", p.Namespace, s.Name); known && obj == nil {
			return fmt.Sprintf("The pull secret %s that the pod names does not exist in namespace %s: %s", s.Name, p.Namespace, create(s.Name))
		}
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		return fmt.Sprintf("None of the pod's pull secrets (%s) opens %s at %s: check server, user and password in them, and the image's name", listed(names), repository, host)
	}
	return fmt.Sprintf("If %s is there at all, %s wants credentials: make a pull secret and name it in spec.imagePullSecrets: %s", repository, host, create("NAME"))
}

// imageParts are an image's registry, repository, and tag or digest, with what Docker's short names leave out.
func imageParts(image string) (host, repository, tag string) {
	rest, digest, byDigest := strings.Cut(image, "@")
	if i := strings.LastIndex(rest, ":"); i > strings.LastIndex(rest, "/") {
		rest, tag = rest[:i], rest[i+1:]
	}
	switch {
	case byDigest:
		tag = digest
	case tag == "":
		tag = "latest"
	}
	host, repository, found := strings.Cut(rest, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" && host == strings.ToLower(host) {
		host, repository = "docker.io", rest
		if !found {
			repository = "library/" + rest
		}
	}
	return host, repository, tag
}

// short is a runtime's error without the prefixes that only say through which layers it went.
func short(message string) string {
	for _, frame := range []string{
		"ErrImagePull: ", "RegistryUnavailable: ", "desc = ", "failed to resolve image: ", "OCI runtime create failed: ", "runc create failed: ",
		"failed to create containerd task: ", "failed to create shim task: ", "unable to start container process: ", "error during container init: ",
	} {
		if i := strings.LastIndex(message, frame); i >= 0 {
			message = message[i+len(frame):]
		}
	}
	if rest, ok := strings.CutPrefix(message, "failed to pull and unpack image "); ok {
		if _, rest, ok = strings.Cut(rest, `": `); ok {
			message = rest
		}
	}
	return strings.TrimSpace(strings.TrimPrefix(message, "Error: "))
}

// config tells what to do about a container whose configuration cannot be made.
func (f Facts) config(container, message string) string {
	switch {
	case strings.Contains(message, "runAsNonRoot") && strings.Contains(message, "non-numeric"):
		return "The image names its user: say its number in securityContext.runAsUser, so that it is known not to be 0"
	case strings.Contains(message, "runAsUser breaks non-root policy"):
		return fmt.Sprintf("Container %s is to run as user 0, and as another than root: correct runAsUser, or leave runAsNonRoot out", container)
	case strings.Contains(message, "runAsNonRoot"):
		return fmt.Sprintf("Set securityContext.runAsUser of container %s to a number other than 0 (and see that its files may be read by it), build the image with such a USER, or leave runAsNonRoot out", container)
	case strings.Contains(message, "couldn't parse env file") || strings.Contains(message, "environment variable key"):
		return f.envFile(container) + ". The container then starts by itself"
	case strings.HasPrefix(message, "missing value for "):
		return fmt.Sprintf("Give container %s the variable %s in env, or correct the subPathExpr of its volumeMount", container, strings.TrimPrefix(message, "missing value for "))
	case strings.Contains(message, "failed to prepare subPath"):
		return fmt.Sprintf("The subPath has to lead to a file or folder inside of the volume, through folders alone: correct it in the volumeMounts of container %s, or what the volume has there", container)
	case strings.Contains(message, "not found") || strings.Contains(message, "couldn't find key"):
		return f.missing(message) + ". The container then starts by itself"
	}
	return fmt.Sprintf("Correct env, mounts or securityContext of container %s", container)
}

// envFile tells what a file that a container takes variables from must have.
func (f Facts) envFile(container string) string {
	var files []string
	for c := range podspec.Containers(&f.Pod.Spec) {
		for _, e := range c.Env {
			if c.Name != container || e.ValueFrom == nil || e.ValueFrom.FileKeyRef == nil {
				continue
			}
			ref := e.ValueFrom.FileKeyRef
			files = append(files, fmt.Sprintf("%s in %s of the volume %s", ref.Key, ref.Path, ref.VolumeName))
		}
	}
	return fmt.Sprintf("See that an earlier container writes the file, and each variable in it as NAME='value': %s wants %s", container, listed(files))
}

// missing tells how to make what a message says is missing: a ConfigMap, a Secret, or a key of one.
func (f Facts) missing(message string) string {
	kind := "configmap"
	lower := strings.ToLower(message)
	if i := strings.Index(lower, "secret"); i >= 0 && (i < strings.Index(lower, kind) || !strings.Contains(lower, kind)) {
		kind = "secret"
	}
	if !strings.Contains(lower, kind) {
		return "Correct the pod's environment, volumes or security context"
	}
	namespace := f.Pod.Namespace
	if key := between(message, "couldn't find key ", " in "); key != "" {
		name := message[strings.LastIndex(message, "/")+1:]
		out := fmt.Sprintf("Add the key %s to the %s %s in namespace %s, or correct the key in the pod", key, kind, name, namespace)
		if has := f.keys(kind, name); has != "" {
			out += " (there are: " + has + ")"
		}
		return out
	}
	if key := between(message+"\n", "key: ", "\n"); key != "" && strings.Contains(message, "non-existent") {
		return fmt.Sprintf("Add the key %s to that %s in namespace %s, or correct the volume's items in the pod", key, kind, namespace)
	}
	name := between(message, kind+` "`, `"`)
	if name == "" {
		return fmt.Sprintf("Create that %s in namespace %s, or correct its name in the pod", kind, namespace)
	}
	create := "configmap " + quoted(name)
	if kind == "secret" {
		create = "secret generic " + quoted(name)
	}
	return fmt.Sprintf("Create it: `podo kubectl create %s -n %s --from-literal=KEY=VALUE`, or correct its name in the pod", create, namespace)
}

// keys are the keys of a ConfigMap or Secret.
func (f Facts) keys(kind, name string) string {
	obj, _ := f.cluster().Get(kind+"s", f.Pod.Namespace, name)
	var out []string
	switch o := obj.(type) {
	case *v1.ConfigMap:
		for k := range o.Data {
			out = append(out, k)
		}
	case *v1.Secret:
		for k := range o.Data {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return listed(out)
}

// start tells what to do about a command that the runtime could not start, from the runtime's words.
func (f Facts) start(container, message string) string {
	command := between(message, `exec: "`, `"`)
	if command == "" {
		command = between(message, `exec `, `:`)
	}
	switch lower := strings.ToLower(message); {
	case command != "" && (strings.Contains(lower, "no such file") || strings.Contains(lower, "not found")):
		return fmt.Sprintf("The image has no %s: correct command of container %s, or its image; a script needs its interpreter there too", command, container)
	case command != "" && strings.Contains(lower, "permission denied"):
		return fmt.Sprintf("%s is there, and may not be executed by the container's user: chmod +x it in the image, or correct command or runAsUser of container %s", command, container)
	case strings.Contains(lower, "cannot load seccomp profile"):
		return fmt.Sprintf("Put the profile on the node under that path, or correct seccompProfile.localhostProfile of container %s or the pod", container)
	case strings.Contains(lower, "exec format error"):
		return "The program is not for this machine's processor, or is a script without #!: build the image for the node's architecture"
	case strings.Contains(lower, "chdir"), f.container(container).WorkingDir != "" && strings.Contains(message, "mkdir "+f.container(container).WorkingDir+":"):
		return fmt.Sprintf("Correct workingDir of container %s: it is not there, or may not be entered", container)
	case strings.Contains(lower, "mount"):
		return fmt.Sprintf("Correct volumeMounts of container %s: the runtime cannot mount one where it is to be", container)
	}
	return fmt.Sprintf("The runtime refuses container %s: check its command, workingDir, volumeMounts and securityContext", container)
}

// between is what stands between two marks, "" when it does not.
func between(s, from, to string) string {
	_, rest, ok := strings.Cut(s, from)
	out, _, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		return ""
	}
	return out
}
