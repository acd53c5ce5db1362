// Package controllers lists a server's controllers, in the order of their start, and wires each.
package controllers

import (
	"context"
	"log/slog"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/daemonset"
	"podo.dev/podo/internal/controllers/horizontalpodautoscaler"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/statefulset"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/usage"
	"podo.dev/podo/internal/view"
)

// Config is what controllers are made of. Everything is needed.
type Config struct {
	Server *config.Server
	View   *view.View
	Verbs  *verbs.Verbs
	Events *events.Writer
	Board  *loop.Board
	Usage  *usage.Meter
	Tokens *tokens.Issuer
	Certs  *pki.Bundle
	Logger *slog.Logger

	// Kubelet sends a request to a node's kubelet; the path is escaped.
	Kubelet func(ctx context.Context, node *v1.Node, method, path string) (*http.Response, error)
}

// All are they, in the order of their start.
func All(c Config) []component.Component {
	return []component.Component{
		c.run("priority-classes", c.priorityClasses),
		c.run("namespaces", c.namespaces),
		c.run("service-accounts", c.serviceAccounts),
		c.run("root-ca", c.rootCA),
		c.run("secret-tokens", c.secretTokens),
		c.run("token-cleaner", c.tokenCleaner),
		c.run("legacy-tokens", c.legacyTokens),
		c.run("service-cidr", c.serviceCIDR),
		c.run("service-cidrs", c.serviceCIDRs),
		c.run("service-addresses", c.serviceAddresses),
		c.run("node-lifecycle", c.nodeLifecycle),
		c.run("node-ipam", c.nodeIPAM),
		c.run("node-ttl", c.nodeTTL),
		c.run("pod-gc", c.podGC),
		c.run("garbage-collector", c.garbage),
		c.run("taint-eviction", c.taintEviction),
		c.run("replication-controller", c.replicas(replicas.ReplicationControllers)),
		c.run("replicaset-controller", c.replicas(replicas.ReplicaSets)),
		c.run("deployment-controller", c.deployments),
		c.run(horizontalpodautoscaler.Name, c.autoscaler),
		c.run("disruption", c.disruption),
		c.run("stale-disruption", c.staleDisruption),
		c.run("endpoint-slices", c.endpointSlices),
		c.run("endpoints", c.endpoints),
		c.run("endpoint-slice-mirroring", c.endpointSliceMirroring),
		c.run("resource-quotas", c.quotas),
		c.run("cluster-role-aggregation", c.clusterRoles),
		c.run(daemonset.Name, c.daemonSets),
		c.run(statefulset.Name, c.statefulSets),
		c.run("jobs", c.jobs),
		c.run("job-orphans", c.jobOrphans),
		c.run("cronjobs", c.cronJobs),
		c.run("ttl-after-finished", c.ttlAfterFinished),
		component.Func("clock", c.followClock),
		c.run("csr-approving", c.certificateApproval),
		c.run("csr-signing", c.certificateSigning),
		c.run("csr-cleaner", c.certificateCleaning),
		c.run("trust-bundle", c.trustBundle),
		c.run("persistent-volume-binder", c.volumeBinder),
		c.run("pvc-protection", c.claimProtection),
		c.run("pv-protection", c.volumeProtection),
		c.run("vac-protection", c.attributesProtection),
		c.run("ephemeral-volumes", c.ephemeralVolumes),
		c.run("local-volumes", c.localVolumes),
	}
}

// run builds a controller anew for each run, so that one that panicked keeps nothing.
func (c *Config) run(name string, build func(context.Context, client.Client) (*loop.Loop, error)) component.Component {
	return component.Func(name, func(ctx context.Context, ready func()) error {
		own := local.Controllers(c.Verbs)
		l, err := build(ctx, own)
		if err != nil {
			return err
		}
		own.Be(l.Name())
		return c.Board.Run(ctx, l, ready)
	})
}

// events is a controller's recorder, under the component name that users know.
func (c *Config) events(source string) record.EventRecorderLogger {
	return c.Events.Recorder(source, "")
}
