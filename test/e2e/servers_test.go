//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// takeover is what the other server's controllers may take until they do what the dead one's did: the lead's two seconds, and a machine that is
// busy with other tests. Upstream's lead lasts 15.
const takeover = 8 * time.Second

// TestServersTakeOver kills the leader of two servers on one etcd: the other one's controllers and scheduler go on, its clients notice
// nothing, the `kubernetes` Service leads to it, and the dead one comes back.
func TestServersTakeOver(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "podo-etcd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e, err := startEtcd(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	first := startCluster(t, "--etcd-endpoints", e.endpoint())
	second := aCluster(t)
	for _, file := range []string{"ca.crt", "ca.key", "service-account.pem"} { // of a cluster there is one of each
		content, err := os.ReadFile(filepath.Join(first.dir, "pki", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(second.dir, "pki"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(second.dir, "pki", file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second.start(t, "--node-name", "node-b", "--etcd-endpoints", e.endpoint())
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(second.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Timeout = -1, 20*time.Second
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	stop := steady(t, cs)
	pid, err := pidFile(filepath.Join(first.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := kill9(pid); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	if _, err := cs.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	took := func(what string) {
		d := time.Since(died)
		t.Logf("%s %s after the leader's death", what, d.Round(time.Millisecond))
		if d > takeover {
			t.Errorf("%s only after %s", what, d)
		}
	}
	accounts, err := cs.CoreV1().ServiceAccounts("after").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer accounts.Stop()
	<-accounts.ResultChan()
	took("a controller worked")
	pods, err := cs.CoreV1().Pods("after").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "localhost/podo/busybox:dev", Command: []string{"sleep", "3600"}}}}}
	if _, err := cs.CoreV1().Pods("after").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for ev := range pods.ResultChan() {
		if p, ok := ev.Object.(*v1.Pod); ok && p.Spec.NodeName != "" {
			break
		}
	}
	took("a pod had a node")
	// Both have one address and differ in their ports, of which one can be published: it must become the living one's.
	endpoints, err := cs.CoreV1().Endpoints("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=kubernetes"})
	if err != nil {
		t.Fatal(err)
	}
	defer endpoints.Stop()
	late := time.After(time.Minute)
	for published := false; !published; {
		select {
		case ev := <-endpoints.ResultChan():
			ep, ok := ev.Object.(*v1.Endpoints)
			published = ok && len(ep.Subsets) == 1 && int(ep.Subsets[0].Ports[0].Port) == second.https
		case <-late:
			t.Fatal("the living server is not published")
		}
	}
	t.Logf("published %s after the leader's death", time.Since(died).Round(time.Millisecond))
	first.start(t, "--etcd-endpoints", e.endpoint())
	for name, err := range stop() {
		t.Errorf("a client of the living server: %s: %v", name, err)
	}
}

// steady creates and reads objects until it is stopped, and returns what failed.
func steady(t *testing.T, cs kubernetes.Interface) (stop func() map[string]error) {
	maps := cs.CoreV1().ConfigMaps("default")
	failed, done := map[string]error{}, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			name := fmt.Sprint("steady-", i)
			if _, err := maps.Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				failed["create "+name] = err
			} else if _, err := maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				failed["get "+name] = err
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() map[string]error { close(done); wg.Wait(); return failed }
}
