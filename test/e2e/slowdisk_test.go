package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"podo.dev/podo/test/e2e/badkernel"
)

// clusterUnder runs a server under a kernel that asks the judge about the calls. judge gets the data directory; more are flags of `podo up`.
func clusterUnder(t *testing.T, judge func(dir string) badkernel.Judge, calls []int, more ...string) *cluster {
	t.Helper()
	c, out, err := tryUnder(t, judge, calls, more...)
	if err != nil {
		t.Fatalf("podo up: %v\n%s", err, out)
	}
	if out, err := c.run("image", "import", "../../bin/images/busybox.tar"); err != nil {
		t.Fatalf("podo image import: %v\n%s", err, out)
	}
	return c
}

// tryUnder is clusterUnder where the start may fail; it gives what was said.
func tryUnder(t *testing.T, judge func(dir string) badkernel.Judge, calls []int, more ...string) (*cluster, string, error) {
	t.Helper()
	var k *badkernel.Kernel
	t.Cleanup(func() { // after the server's end, which is the cluster's clean-up
		if k != nil {
			k.Close()
		}
	})
	c := aCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.podo, append([]string{
		"up", "--data-dir", c.dir, "--node-name", "node-a", "--https-port", strconv.Itoa(c.https),
		"--kubelet-port", strconv.Itoa(c.kubelet), "--pod-cidr", c.podCIDR,
	}, more...)...)
	var out []byte
	var err error
	k, out, err = badkernel.Run(cmd, judge(c.dir), calls...)
	return c, string(out), err
}

// client is the administrator's.
func (c *cluster) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// TestSlowDisk lets every sync of the server's own etcd take a second, for 20. What was acknowledged is there afterwards, who heard of an
// error heard a clear one, and the server goes on leading. Then none of its log ends at all: what is being written is shown to nobody.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	var slow, hang atomic.Bool
	var syncs atomic.Int32
	release := make(chan struct{})
	c := clusterUnder(t, func(dir string) badkernel.Judge {
		etcd := filepath.Join(dir, "etcd") + "/"
		return func(call badkernel.Call) unix.Errno {
			switch {
			case !slow.Load() && !hang.Load() || !strings.HasPrefix(call.Path(0), etcd):
				return 0
			case hang.Load():
				if !strings.HasSuffix(call.Path(0), ".wal") { // while the database is synced, etcd keeps those who read it waiting
					return 0
				}
				<-release
			default:
				<-time.After(time.Second)
			}
			syncs.Add(1)
			return 0
		}
	}, []int{unix.SYS_FSYNC, unix.SYS_FDATASYNC})
	cs := c.client(t)
	maps := cs.CoreV1().ConfigMaps("default")
	create := func(ctx context.Context, name string) error {
		return cs.CoreV1().RESTClient().Post().Namespace("default").Resource("configmaps").MaxRetries(0).
			Body(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}).Do(ctx).Error()
	}

	var mu sync.Mutex
	told := map[string]error{}
	slow.Store(true)
	end := time.Now().Add(20 * time.Second)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				name := fmt.Sprintf("slow-%d-%d", w, i)
				began := time.Now()
				err := create(t.Context(), name)
				if took := time.Since(began); took > 40*time.Second {
					t.Errorf("%s was answered after %s", name, took)
				}
				mu.Lock()
				told[name] = err
				mu.Unlock()
			}
		})
	}
	if out, err := c.kubectl("create", "deployment", "patient", "--image=localhost/podo/busybox:dev", "--", "sleep", "3600"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	writers.Wait()
	slow.Store(false)
	if n := syncs.Load(); n < 10 {
		t.Errorf("%d syncs were slow", n)
	}
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, cm := range list.Items {
		there[cm.Name] = true
	}
	acked := 0
	for name, err := range told {
		switch {
		case err == nil && !there[name]:
			t.Errorf("%s was acknowledged, and is lost", name)
		case err == nil:
			acked++
		case !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err):
			t.Errorf("%s: an error that does not say what it is: %v", name, err)
		}
	}
	if acked < 10 {
		t.Errorf("%d of %d writes were acknowledged", acked, len(told))
	}
	t.Logf("%d of %d writes were acknowledged, %d syncs were slow", acked, len(told), syncs.Load())
	if out, err := c.kubectl("rollout", "status", "deployment/patient", "--timeout=60s"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	log, err := os.ReadFile(filepath.Join(c.dir, "log", "podo.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "no longer the leader"); n > 0 {
		t.Errorf("the lead was lost %d times, and nobody else wanted it", n)
	}

	w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	hang.Store(true)
	answered := make(chan error, 1)
	go func() { answered <- create(t.Context(), "unsynced") }()
	select {
	case err := <-answered:
		t.Errorf("answered before anything was synced: %v", err)
	case ev := <-w.ResultChan():
		t.Errorf("shown before anything was synced: %v", ev)
	case <-time.After(1500 * time.Millisecond):
	}
	for _, rv := range []string{"", "0"} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := maps.Get(ctx, "unsynced", metav1.GetOptions{ResourceVersion: rv}); !apierrors.IsNotFound(err) {
			t.Errorf("a read at %q before anything was synced: %v", rv, err)
		}
		cancel()
	}
	hang.Store(false)
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("synced at last: %v", err)
	}
	for ev := range w.ResultChan() {
		if cm, ok := ev.Object.(*v1.ConfigMap); ok && ev.Type == watch.Added && cm.Name == "unsynced" {
			return
		}
	}
	t.Error("the watch has ended")
}
