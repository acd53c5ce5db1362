package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// patient is a server on an etcd that is not well, and what it was told.
type patient struct {
	t     *testing.T
	etcd  *anEtcd
	c     *cluster
	cs    kubernetes.Interface
	acked map[string]bool
}

// TestStoreFaults lets the store be slow, full, gone for a minute, and compacted under those who watch. Each time clients are told so in
// clear words, all is well again without a restart, and what was acknowledged is there.
func TestStoreFaults(t *testing.T) {
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
	p := &patient{t: t, etcd: e, c: startCluster(t, "--etcd-endpoints", e.endpoint()), acked: map[string]bool{}}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.c.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if p.cs, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	pid, err := pidFile(filepath.Join(p.c.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	p.slow()
	p.full()
	p.gone()
	p.compacted()
	if now, err := pidFile(filepath.Join(p.c.dir, "lock")); err != nil || now != pid {
		t.Errorf("the server was %d and is %d: %v", pid, now, err)
	}
	list, err := p.cs.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, cm := range list.Items {
		delete(p.acked, cm.Name)
	}
	if len(p.acked) > 0 {
		t.Errorf("acknowledged, and lost: %v", p.acked)
	}
}

// create makes a ConfigMap; params are the request's.
func (p *patient) create(name string, params ...string) error {
	r := p.cs.CoreV1().RESTClient().Post().Namespace("default").Resource("configmaps").Body(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
	for i := 0; i < len(params); i += 2 {
		r.Param(params[i], params[i+1])
	}
	// Client-go tries again what comes with Retry-After: here the first answer counts.
	err := r.MaxRetries(0).Do(p.t.Context()).Error()
	if err == nil {
		p.acked[name] = true
	}
	return err
}

func (p *patient) get(name, rv string) error {
	_, err := p.cs.CoreV1().ConfigMaps("default").Get(p.t.Context(), name, metav1.GetOptions{ResourceVersion: rv})
	return err
}

// well waits until writes are taken again, and then everything must be.
func (p *patient) well(name string, within time.Duration) {
	p.t.Helper()
	began, tick := time.Now(), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		err := p.create(fmt.Sprint(name, "-", i))
		if err == nil {
			break
		}
		if time.Since(began) > within {
			p.t.Fatalf("%s: not well again after %s: %v", name, within, err)
		}
		<-tick.C
	}
	p.t.Logf("%s: writes are taken again after %s", name, time.Since(began).Round(time.Millisecond))
	for {
		body, err := p.cs.CoreV1().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").Do(p.t.Context()).Raw()
		if err == nil {
			return
		}
		if time.Since(began) > within {
			p.t.Fatalf("%s: not ready again: %v\n%s", name, err, body)
		}
		<-tick.C
	}
}

func (p *patient) slow() {
	p.etcd.slow.Store(int64(time.Second))
	defer p.etcd.slow.Store(0)
	if err := p.create("patient"); err != nil {
		p.t.Errorf("slow, and there was time: %v", err)
	}
	if err := p.create("hasty", "timeout", "300ms"); !apierrors.IsTimeout(err) || code(err) != http.StatusGatewayTimeout {
		p.t.Errorf("slow, and no time: %d %v", code(err), err)
	}
	began := time.Now()
	if err := p.get("patient", ""); err != nil || time.Since(began) > 2*time.Second {
		p.t.Errorf("slow: a read takes %s: %v", time.Since(began), err)
	}
}

func (p *patient) full() {
	if err := p.create("kept"); err != nil {
		p.t.Fatal(err)
	}
	p.etcd.fill(p.t)
	if err := p.create("no-room"); code(err) != http.StatusInternalServerError || !strings.HasSuffix(err.Error(), "etcdserver: mvcc: database space exceeded") {
		p.t.Errorf("full: %d %v", code(err), err)
	}
	if err := p.get("kept", ""); err != nil {
		p.t.Errorf("full, and not read either: %v", err)
	}
	if err := p.cs.CoreV1().ConfigMaps("default").Delete(p.t.Context(), "patient", metav1.DeleteOptions{}); err != nil {
		p.t.Errorf("full, and nothing can be deleted: %v", err)
	}
	delete(p.acked, "patient")
	p.etcd.makeRoom(p.t)
	p.well("room", 20*time.Second)
}

// watch begins where a list of now ends.
func (p *patient) watch() watch.Interface {
	p.t.Helper()
	list, err := p.cs.CoreV1().ConfigMaps("default").List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	w, err := p.cs.CoreV1().ConfigMaps("default").Watch(p.t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

// next is the next event, of whatever kind, within a while.
func (p *patient) next(w watch.Interface) watch.Event {
	p.t.Helper()
	select {
	case ev, ok := <-w.ResultChan():
		if !ok {
			p.t.Fatal("the watch has ended")
		}
		return ev
	case <-time.After(30 * time.Second):
		p.t.Fatal("the watch says nothing")
	}
	return watch.Event{}
}

func (p *patient) gone() {
	w := p.watch()
	defer w.Stop()
	p.etcd.line.cut()
	back := time.After(time.Minute)
	for i, end := 0, time.Now().Add(20*time.Second); time.Now().Before(end); i++ {
		began := time.Now()
		if err := p.create(fmt.Sprint("gone-", i), "timeout", "5s"); code(err) != http.StatusServiceUnavailable && code(err) != http.StatusGatewayTimeout {
			p.t.Errorf("gone: a write: %d %v", code(err), err)
		}
		if took := time.Since(began); took > 7*time.Second {
			p.t.Errorf("gone: a write is refused after %s", took)
		}
		<-time.After(time.Second)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	if err := p.cs.CoreV1().RESTClient().Get().Namespace("default").Resource("configmaps").Name("kept").Param("timeout", "5s").MaxRetries(0).Do(ctx).Error(); code(err) != http.StatusServiceUnavailable && code(err) != http.StatusGatewayTimeout {
		p.t.Errorf("gone: a read of what is newest: %d %v", code(err), err)
	}
	if err := p.get("kept", "0"); err != nil {
		p.t.Errorf("gone: a read of what is known: %v", err)
	}
	if body, err := p.cs.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Raw(); err == nil || !strings.Contains(err.Error()+string(body), "[-]etcd failed") {
		p.t.Errorf("gone: readyz: %v\n%s", err, body)
	}
	<-back
	if err := p.etcd.line.mend(); err != nil {
		p.t.Fatal(err)
	}
	p.well("back", 20*time.Second)
	// The watch goes on where it was.
	for {
		ev := p.next(w)
		cm, ok := ev.Object.(*v1.ConfigMap)
		if !ok || ev.Type != watch.Added {
			p.t.Fatalf("the watch shows %+v", ev)
		}
		if strings.HasPrefix(cm.Name, "back-") {
			return
		}
		if !strings.HasPrefix(cm.Name, "gone-") { // of those nobody knows the end
			p.t.Fatalf("the watch shows %s", cm.Name)
		}
	}
}

func (p *patient) compacted() {
	if err := p.create("victim"); err != nil {
		p.t.Fatal(err)
	}
	w := p.watch()
	defer w.Stop()
	p.etcd.line.cut()
	res, err := p.etcd.client.Delete(p.t.Context(), "/registry/configmaps/default/victim")
	if err != nil || res.Deleted != 1 {
		p.t.Fatalf("%d deleted: %v", res.Deleted, err)
	}
	delete(p.acked, "victim")
	last, err := p.etcd.client.Put(p.t.Context(), "/elsewhere", "x")
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.etcd.client.Compact(p.t.Context(), last.Header.Revision); err != nil {
		p.t.Fatal(err)
	}
	if err := p.etcd.line.mend(); err != nil {
		p.t.Fatal(err)
	}
	p.well("compacted", 20*time.Second)
	if ev := p.next(w); ev.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(ev.Object)) {
		p.t.Errorf("who watched what was compacted hears %+v", ev)
	}
	if err := p.get("victim", ""); !apierrors.IsNotFound(err) {
		p.t.Errorf("what went meanwhile: %v", err)
	}
}

func code(err error) int {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		return int(s.Status().Code)
	}
	return 0
}
