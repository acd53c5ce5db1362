// Command podo-net is podo's CNI plug-in: it gives a pod's sandbox its interface, its addresses and its host ports. containerd runs it
// for each sandbox that comes and goes, so it links little.
package main

import "podo.dev/podo/internal/podnet/plugin"

func main() { plugin.Main() }
