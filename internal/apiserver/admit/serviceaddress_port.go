package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/service"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// NodePorts is the range that node ports come from, both ends included.
type NodePorts struct{ First, Last int32 }

// ParseNodePorts reads a range like 30000-32767.
func ParseNodePorts(text string) (NodePorts, error) {
	a, b, ok := strings.Cut(text, "-")
	first, err1 := strconv.ParseUint(a, 10, 16)
	last, err2 := strconv.ParseUint(b, 10, 16)
	if !ok || err1 != nil || err2 != nil || first == 0 || last < first {
		return NodePorts{}, fmt.Errorf("%q is no range of ports like 30000-32767", text)
	}
	return NodePorts{int32(first), int32(last)}, nil
}

// String is how the range is written.
func (r NodePorts) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// band is where automatic ports begin: after a thirty-second of the range, within bounds.
func (r NodePorts) band() int32 {
	size := r.Last - r.First + 1
	if size <= 16 {
		return r.First
	}
	return r.First + min(max(size/32, 16), 128)
}

// portsPrefix is the folder of keys that say which Service has a node port (namespace/name).
const portsPrefix = "/registry/podo/nodeports/"

func portKey(n int32) string { return portsPrefix + strconv.Itoa(int(n)) }

func portOwner(s *v1.Service) string { return s.Namespace + "/" + s.Name }

// claims are the node ports that one write allocates.
type claims struct {
	p     *ServiceAddresses
	a     *Attributes
	owner string
	taken []int32
}

// nodePorts allocates and releases the node ports for a change of a Service (from nothing, when old is nil).
func (p *ServiceAddresses) nodePorts(ctx context.Context, a *Attributes, s, old *v1.Service) error {
	c := &claims{p: p, a: a, owner: portOwner(s)}
	var wanted []int32
	if service.UsesNodePorts(s) {
		var err error
		if old == nil {
			err = c.create(ctx, s)
		} else {
			err = c.update(ctx, s, old)
		}
		if err != nil {
			return err
		}
		for i := range s.Spec.Ports {
			wanted = append(wanted, s.Spec.Ports[i].NodePort)
		}
	}
	if service.NeedsHealthCheck(s) {
		if old == nil || !service.NeedsHealthCheck(old) {
			if err := c.healthCheck(ctx, s); err != nil {
				return apierrors.NewInternalError(err)
			}
		}
		wanted = append(wanted, s.Spec.HealthCheckNodePort)
	}
	if old == nil {
		return nil
	}
	return p.releasePorts(ctx, a, old, slices.DeleteFunc(service.NodePorts(old), func(n int32) bool { return slices.Contains(wanted, n) }))
}

// create gives each port of a new Service a node port: the requested one, or that of another port with the same number (a port of
// several protocols has one node port), or any.
func (c *claims) create(ctx context.Context, s *v1.Service) error {
	byPort := map[int32]int32{}
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		if port.NodePort == 0 && !service.NeedsNodePorts(s) {
			continue
		}
		has := byPort[port.Port]
		switch {
		case has == 0:
			if asked := askedFor(s, port.Port); asked != 0 {
				if err := c.takeFor(ctx, s, i, asked); err != nil {
					return err
				}
				port.NodePort = asked
			} else if err := c.takeAny(ctx, &port.NodePort); err != nil {
				return err
			}
			byPort[port.Port] = port.NodePort
		case port.NodePort == 0:
			port.NodePort = has
		case port.NodePort != has:
			if err := c.takeFor(ctx, s, i, port.NodePort); err != nil {
				return err
			}
		}
	}
	return nil
}

func askedFor(s *v1.Service, port int32) int32 {
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.Port == port && p.NodePort != 0 {
			return p.NodePort
		}
	}
	return 0
}

// update allocates what the stored Service does not have yet.
func (c *claims) update(ctx context.Context, s, old *v1.Service) error {
	type pair struct {
		Protocol v1.Protocol
		NodePort int32
	}
	var had []int32
	for i := range old.Spec.Ports {
		had = append(had, old.Spec.Ports[i].NodePort)
	}
	seen := map[pair]bool{}
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		switch n := port.NodePort; {
		case n == 0 && !service.NeedsNodePorts(s):
			continue
		case n == 0:
			if err := c.takeAny(ctx, &port.NodePort); err != nil {
				return err
			}
		case !slices.Contains(had, n) && !slices.Contains(c.taken, n):
			if err := c.takeFor(ctx, s, i, n); err != nil {
				return err
			}
		}
		key := pair{port.Protocol, port.NodePort}
		if seen[key] {
			return fmt.Errorf("duplicate nodePort: %v", key)
		}
		seen[key] = true
	}
	return nil
}

func (c *claims) healthCheck(ctx context.Context, s *v1.Service) error {
	if n := s.Spec.HealthCheckNodePort; n != 0 {
		if err := c.take(ctx, n); err != nil {
			return fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", n, err)
		}
		return nil
	}
	if err := c.any(ctx, &s.Spec.HealthCheckNodePort); err != nil {
		return fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", 0, err)
	}
	return nil
}

func (c *claims) takeFor(ctx context.Context, s *v1.Service, i int, n int32) error {
	err := c.take(ctx, n)
	var known apierrors.APIStatus
	if err == nil || errors.As(err, &known) {
		return err
	}
	return apierrors.NewInvalid(serviceKind, s.Name, field.ErrorList{field.Invalid(servicePortsPath.Index(i).Child("nodePort"), n, err.Error())})
}

func (c *claims) takeAny(ctx context.Context, n *int32) error {
	err := c.any(ctx, n)
	var known apierrors.APIStatus
	if err == nil || errors.As(err, &known) {
		return err
	}
	return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
}

// take takes this very port. As upstream, a dry run asks only whether another Service has it.
func (c *claims) take(ctx context.Context, n int32) (err error) {
	defer func() { c.count(true, err) }()
	if r := c.p.Ports; !c.a.DryRun && (n < r.First || n > r.Last) {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", r)
	}
	if slices.Contains(c.taken, n) {
		return errPortTaken
	}
	free, err := c.claim(ctx, c.p.View.Snapshot(), n)
	if err != nil {
		return err
	}
	if !free {
		return errPortTaken
	}
	return nil
}

// any allocates a free port, from the upper band while that has one.
func (c *claims) any(ctx context.Context, n *int32) (err error) {
	defer func() { c.count(false, err) }()
	if c.a.DryRun {
		*n = guess(c.taken)
		c.taken = append(c.taken, *n)
		return nil
	}
	r := c.p.Ports
	ok, err := c.p.snapshots(ctx, func(now view.Snapshot) (bool, error) {
		for _, part := range []NodePorts{{r.band(), r.Last}, {r.First, r.band() - 1}} {
			size := part.Last - part.First + 1
			if size <= 0 {
				continue
			}
			start := int32(c.p.random(uint64(size)))
			for i := range size {
				port := part.First + (start+i)%size
				if slices.Contains(c.taken, port) || held(now, port) {
					continue
				}
				if free, err := c.claim(ctx, now, port); free || err != nil {
					*n = port
					return free, err
				}
			}
		}
		return false, nil
	})
	if err == nil && !ok {
		err = errFull
	}
	return err
}

// guess is the number that a dry run shows where any would do: it is in no usual range, or follows those that were asked for.
func guess(taken []int32) int32 {
	if len(taken) == 0 {
		return 32769
	}
	return slices.Max(taken) + 1
}

func (c *claims) count(asked bool, err error) {
	if !c.a.DryRun {
		c.p.countPort(asked, err)
	}
}

// held says whether a Service has the port.
func held(now view.Snapshot, n int32) bool {
	for range now.By(servicesResource, registry.NodePort, strconv.Itoa(int(n))) {
		return true
	}
	return false
}

// claim adds the port's key to the transaction, unless a Service has the port: by the view, which is asked for the truth before
// it is believed that one does. A key whose Service is gone (another program deleted it) is taken over. Services that another
// program made have ports without keys.
func (c *claims) claim(ctx context.Context, now view.Snapshot, n int32) (bool, error) {
	kv, err := c.p.Store.Get(ctx, portKey(n))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, apierrors.NewInternalError(err)
	}
	if kv.ModRevision != 0 || held(now, n) {
		fresh, err := c.p.View.Fresh(ctx)
		if err != nil {
			return false, apierrors.NewInternalError(err)
		}
		if held(fresh, n) {
			return false, nil
		}
	}
	c.a.Require(portKey(n), kv.ModRevision)
	c.a.Write(store.Op{Key: portKey(n), Value: []byte(c.owner)})
	c.taken = append(c.taken, n)
	return true, nil
}

// releasePorts deletes the Service's keys in the transaction.
func (p *ServiceAddresses) releasePorts(ctx context.Context, a *Attributes, s *v1.Service, ports []int32) error {
	for _, n := range ports {
		kv, err := p.Store.Get(ctx, portKey(n))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if string(kv.Value) == portOwner(s) {
			a.Require(portKey(n), kv.ModRevision)
			a.Write(store.Op{Key: portKey(n), Delete: true})
		}
	}
	return nil
}
