// Package load puts work on a cluster that a kubeconfig reaches and measures how long it takes: plain client-go, protobuf, no limit on
// the client's side. It knows nothing about what the cluster is.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Namespace is where everything is made.
const Namespace = "podo-bench"

// Cluster is a cluster to be measured.
type Cluster struct {
	Kubeconfig string
	Image      string // of pods that run
	Command    []string
	Probe      *v1.Probe // liveness; nil: none
}

// Client is a client with connections of its own.
type Client struct {
	kubernetes.Interface
	cluster Cluster
	config  *rest.Config
	http    *http.Client
}

// Dial makes a client. client-go would share connections among clients of one kubeconfig: a dialler of its own keeps each apart, as
// programs are.
func (c Cluster) Dial() (*Client, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cfg.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	set, err := kubernetes.NewForConfigAndClient(cfg, h)
	if err != nil {
		return nil, err
	}
	return &Client{Interface: set, cluster: c, config: cfg, http: h}, nil
}

// Close gives the connections back.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// with runs do with a client of its own.
func (c Cluster) with(do func(*Client) error) error {
	client, err := c.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

func (c *Client) pods() corev1.PodInterface { return c.CoreV1().Pods(Namespace) }

// Open makes the namespace and waits for what pods in it need.
func (c Cluster) Open(ctx context.Context) error {
	return c.with(func(client *Client) error {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("the namespace to work in (kubectl delete ns %s, if an earlier run left it): %w", Namespace, err)
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		for {
			_, err := client.CoreV1().ServiceAccounts(Namespace).Get(ctx, "default", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return err
			}
			if err := Pause(ctx, 20*time.Millisecond); err != nil {
				return errors.New("no service account came to be in a new namespace within 30 s: does the controller manager run?")
			}
		}
	})
}

// Leave takes everything away that this package made.
func (c Cluster) Leave(ctx context.Context) error {
	return c.with(func(client *Client) error {
		err := errors.Join(client.clear(ctx), client.clearNodes(ctx))
		if e := client.CoreV1().Namespaces().Delete(ctx, Namespace, metav1.DeleteOptions{}); !apierrors.IsNotFound(e) {
			err = errors.Join(err, e)
		}
		return err
	})
}

// Revision is the store's: it counts writes. (Upstream's API server and ours give a consistent list the newest one.)
func (c Cluster) Revision(ctx context.Context) (n int64, err error) {
	err = c.with(func(client *Client) error {
		list, err := client.CoreV1().ConfigMaps("there-is-no-such-namespace").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(list.ResourceVersion, &n)
		return err
	})
	return n, err
}

// Pause waits, unless ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

var now = int64(0)

// atOnce deletes without grace.
var atOnce = metav1.DeleteOptions{GracePeriodSeconds: &now}
