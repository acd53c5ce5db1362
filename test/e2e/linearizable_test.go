package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"podo.dev/podo/test/e2e/history"
)

const (
	historyClients = 6
	historyKills   = 2
	historyPhase   = 250 // requests between two kills
)

// TestLinearizable lets clients create, read, update and delete the same few objects while the server is killed, and checks that all
// they were told can be explained by one order.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	rec := history.NewRecorder()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	reached := make(chan struct{}, 1)
	for i := range historyClients {
		h := &historian{rec: rec, id: i, maps: configMaps(t, c), rand: rand.New(rand.NewPCG(1, uint64(i)))}
		wg.Go(func() {
			for ctx.Err() == nil && rec.Len() < (historyKills+1)*historyPhase {
				h.step(ctx)
				select {
				case reached <- struct{}{}:
				default:
				}
			}
		})
	}
	for kill := 1; kill <= historyKills; kill++ {
		for rec.Len() < kill*historyPhase && ctx.Err() == nil {
			<-reached
		}
		pid, err := pidFile(filepath.Join(c.dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		if err := kill9(pid); err != nil {
			t.Fatal(err)
		}
		args := []string{"up", "--node-name", "node-a", "--https-port", strconv.Itoa(c.https), "--kubelet-port", strconv.Itoa(c.kubelet), "--pod-cidr", c.podCIDR}
		if out, err := c.run(args...); err != nil {
			t.Fatalf("podo up: %v\n%s", err, out)
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for open := true; open; {
		select {
		case <-done:
			open = false
		case <-reached:
		}
	}
	if ctx.Err() != nil {
		t.Fatalf("only %d requests in the time", rec.Len())
	}
	if err := rec.Check(time.Minute); err != nil {
		t.Error(err)
	}
}

func configMaps(t *testing.T, c *cluster) typed.ConfigMapInterface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Timeout = -1, 10*time.Second
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return cs.CoreV1().ConfigMaps("default")
}

// historian is one client; it knows the versions that it was told.
type historian struct {
	rec  *history.Recorder
	id   int
	n    int
	maps typed.ConfigMapInterface
	rand *rand.Rand
	seen [3]string
}

func (h *historian) step(ctx context.Context) {
	i := h.rand.IntN(len(h.seen))
	h.n++
	ask := history.Ask{Name: fmt.Sprintf("history-%d", i), Value: fmt.Sprintf("%d-%d", h.id, h.n)}
	switch n := h.rand.IntN(10); {
	case n < 4:
		ask.Verb, ask.Value = history.Get, ""
	case n < 6:
		ask.Verb = history.Create
	case n < 9 && h.seen[i] != "":
		ask.Verb, ask.Version = history.Update, h.seen[i]
	default:
		ask.Verb, ask.Value = history.Delete, ""
	}
	answer := h.rec.Do(h.id, ask, func() (history.Answer, bool) { return h.do(ctx, ask) })
	if answer.Version != "" {
		h.seen[i] = answer.Version
	}
}

func (h *historian) do(ctx context.Context, ask history.Ask) (history.Answer, bool) {
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ask.Name, ResourceVersion: ask.Version}, Data: map[string]string{"v": ask.Value}}
	var out *v1.ConfigMap
	var err error
	switch ask.Verb {
	case history.Get:
		out, err = h.maps.Get(ctx, ask.Name, metav1.GetOptions{})
	case history.Create:
		out, err = h.maps.Create(ctx, cm, metav1.CreateOptions{})
	case history.Update:
		out, err = h.maps.Update(ctx, cm, metav1.UpdateOptions{})
	case history.Delete:
		err = h.maps.Delete(ctx, ask.Name, metav1.DeleteOptions{})
	}
	var dial *net.OpError
	switch {
	case err == nil && ask.Verb == history.Delete:
		return history.Answer{Result: history.OK}, false
	case err == nil:
		return history.Answer{Result: history.OK, Value: out.Data["v"], Version: out.ResourceVersion}, false
	case apierrors.IsNotFound(err):
		return history.Answer{Result: history.NotFound}, false
	case apierrors.IsAlreadyExists(err):
		return history.Answer{Result: history.Exists}, false
	case apierrors.IsConflict(err):
		return history.Answer{Result: history.Conflict}, false
	case errors.As(err, &dial) && dial.Op == "dial":
		time.Sleep(20 * time.Millisecond) // nobody listens: the server is on its way back
		return history.Answer{}, true
	}
	return history.Answer{Result: history.Unknown}, false
}
