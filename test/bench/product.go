package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// product is a podo server with a data directory of its own.
type product struct {
	podo string
	dir  string
	args []string
}

func newProduct(podo string) (*product, error) {
	dir, err := os.MkdirTemp("", "podo-bench-")
	if err != nil {
		return nil, err
	}
	ports := make([]int, 2)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return &product{podo: podo, dir: dir, args: []string{
		"--node-name", "bench", "--pod-cidr", "10.89.0.0/24",
		"--https-port", strconv.Itoa(ports[0]), "--kubelet-port", strconv.Itoa(ports[1]),
	}}, nil
}

func (p *product) cmd(ctx context.Context, verb string, args ...string) error {
	cmd := exec.CommandContext(ctx, p.podo, append([]string{verb, "--data-dir", p.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("podo %s: %w\n%s", verb, err, out)
	}
	return nil
}

func (p *product) up(ctx context.Context) error   { return p.cmd(ctx, "up", p.args...) }
func (p *product) down(ctx context.Context) error { return p.cmd(ctx, "down", "--grace", "1s") }

func (p *product) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.down(ctx); err != nil {
		return err
	}
	return p.cmd(ctx, "reset", "--yes")
}

func (p *product) pid() (int, error) {
	content, err := os.ReadFile(filepath.Join(p.dir, "lock"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// client speaks protobuf without a client-side rate limit.
func (p *product) client() (*kubernetes.Clientset, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(cfg)
}

func benchPod(name string) *v1.Pod {
	grace := int64(0)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []v1.Container{{Name: "app", Image: image, ImagePullPolicy: v1.PullIfNotPresent, Command: sleep}},
		},
	}
}

// startPods creates the pods at once and returns how long it took until the last one's status said Running.
func startPods(ctx context.Context, c *kubernetes.Clientset, names ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	pods := c.CoreV1().Pods("default")
	opts := metav1.ListOptions{}
	if len(names) == 1 {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", names[0]).String()
	}
	list, err := pods.List(ctx, opts)
	if err != nil {
		return 0, err
	}
	opts.ResourceVersion = list.ResourceVersion
	w, err := pods.Watch(ctx, opts)
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	waiting := map[string]bool{}
	for _, n := range names {
		waiting[n] = true
	}
	errs := make(chan error, len(names))
	began := time.Now()
	for _, n := range names {
		go func() {
			_, err := pods.Create(ctx, benchPod(n), metav1.CreateOptions{})
			errs <- err
		}()
	}
	for range names {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok {
			return 0, fmt.Errorf("watch: %v", event.Object)
		}
		if pod.Status.Phase == v1.PodRunning {
			delete(waiting, pod.Name)
		}
		if len(waiting) == 0 {
			return time.Since(began), nil
		}
	}
	return 0, fmt.Errorf("%d pods are not Running: %w", len(waiting), ctx.Err())
}

// deletePods deletes with grace 0 and returns when the last object is gone.
func deletePods(ctx context.Context, c *kubernetes.Clientset, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	pods := c.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	waiting := map[string]bool{}
	grace := int64(0)
	for _, n := range names {
		waiting[n] = true
		if err := pods.Delete(ctx, n, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			return err
		}
	}
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*v1.Pod); ok && event.Type == "DELETED" {
			delete(waiting, pod.Name)
		}
		if len(waiting) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d pods are not gone: %w", len(waiting), ctx.Err())
}
