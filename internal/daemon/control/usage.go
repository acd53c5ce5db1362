package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/usage"
)

// computers make the objects that are computed on request.
func (p *Plane) computers() map[schema.GroupResource]verbs.Computer {
	return map[schema.GroupResource]verbs.Computer{
		{Resource: "componentstatuses"}: componentStatuses{p},
		v1beta1.Resource("nodes"):       nodeUsage{p.usage},
		v1beta1.Resource("pods"):        podUsage{p.usage},
	}
}

// readUsage reads a node's usage: in process for this server's node, from the kubelet's port for others.
func (p *Plane) readUsage(ctx context.Context, node *v1.Node) ([]*dto.MetricFamily, error) {
	if node.Name == p.cfg.Server.NodeName {
		own := p.cfg.NodeStats.Load()
		if own == nil {
			return nil, errors.New("the kubelet has not started yet")
		}
		return own.Gatherer(ctx).Gather()
	}
	res, err := p.callKubelet(ctx, node, http.MethodGet, "/metrics/resource")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the kubelet answers %s", res.Status)
	}
	const most = 16 << 20 // enough for ten thousand containers
	parser := expfmt.NewTextParser(model.UTF8Validation)
	told, err := parser.TextToMetricFamilies(io.LimitReader(res.Body, most))
	if err != nil {
		return nil, err
	}
	out := make([]*dto.MetricFamily, 0, len(told))
	for _, f := range told {
		out = append(out, f)
	}
	return out, nil
}

type nodeUsage struct{ *usage.Meter }

func (n nodeUsage) Get(ctx context.Context, _, name string) (runtime.Object, error) {
	return n.Node(ctx, name)
}

func (n nodeUsage) List(ctx context.Context, _ string, selector labels.Selector) ([]runtime.Object, error) {
	list, err := n.Nodes(ctx, selector)
	out := make([]runtime.Object, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out, err
}

type podUsage struct{ *usage.Meter }

func (p podUsage) Get(ctx context.Context, namespace, name string) (runtime.Object, error) {
	return p.Pod(ctx, namespace, name)
}

func (p podUsage) List(ctx context.Context, namespace string, selector labels.Selector) ([]runtime.Object, error) {
	list, err := p.Pods(ctx, namespace, selector)
	out := make([]runtime.Object, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out, err
}
