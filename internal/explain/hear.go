package explain

import "strings"

// sayings are messages that all kinds of programs print about their troubles, with advice. They are the container's words, and no
// finding of podo's.
var sayings = []struct {
	any  []string // in lower case
	does string   // what it says
	do   string
}{
	{
		[]string{"address already in use", "address in use", "eaddrinuse"},
		"its port is taken", "Have it listen on another one: the containers of a pod share their ports, and with hostNetwork those of the node",
	},
	{
		[]string{"/serviceaccount/token", "unable to load in-cluster configuration"},
		"it misses the token of its ServiceAccount", "Leave out automountServiceAccountToken: false of the pod, or of the ServiceAccount",
	},
	{
		[]string{"no such host", "bad address", "can't resolve", "could not resolve", "name or service not known", "name resolution", "nxdomain", "enotfound", "unknown host"},
		"a name does not resolve", "Podo brings no cluster DNS: names of Services resolve only where you run one and the kubelet's clusterDNS says where. `podo why svc/NAME` tells a Service's pods' own addresses",
	},
	{
		[]string{"read-only file system", "erofs"},
		"it writes where nothing may be written", "Mount an emptyDir volume there, or leave out what makes it read-only: readOnlyRootFilesystem, or readOnly of the volumeMount",
	},
	{
		[]string{"no space left on device", "enospc"},
		"there is no space left where it writes", "`podo why node` tells whether the node's disk is full; a volume may have a limit of its own",
	},
	{
		[]string{"permission denied", "eacces"},
		"it may not have what it asks for", "Compare whose the file is with runAsUser and runAsGroup; fsGroup gives the pod's volumes to a group of its own, but not a hostPath's",
	},
	{
		[]string{"connection refused", "econnrefused", "no route to host", "network is unreachable", "i/o timeout", "connection timed out", "etimedout"},
		"who it wants to speak to does not answer", "See that this runs and is ready. Podo carries no traffic to Services' addresses, only to pods' own: `podo why svc/NAME` tells them",
	},
}

// Hear adds the last lines of a container's log, and the advice that follows from them. A line about other programs yields no
// advice.
func (r *Report) Hear(lines []string) {
	r.Said = lines
	for _, line := range lines {
		m := refusal.FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(m[1], "system:serviceaccount:"+r.Namespace+":") {
			continue
		}
		if do := Allow(m[0]); do != "" {
			r.Do = joined("By its own words the API server refuses it that. "+do, r.Do)
			return
		}
	}
	said := strings.ToLower(strings.Join(lines, "\n"))
	for _, s := range sayings {
		for _, words := range s.any {
			if strings.Contains(said, words) {
				r.Do = joined("By its own words "+s.does+". "+s.do, r.Do)
				return
			}
		}
	}
}
