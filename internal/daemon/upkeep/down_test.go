package upkeep

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri/fake"
)

func runs(t *testing.T, pods int) *fake.Runtime {
	rt := fake.New()
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		_, err := rt.RunPodSandbox(t.Context(), &runtimev1.PodSandboxConfig{Metadata: &runtimev1.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name}}, "")
		if err != nil {
			t.Fatal(err)
		}
	}
	return rt
}

// A node of many pods takes as long as it takes, while some of them end.
func TestManyPodsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := runs(t, 200)
		rt.Latency("StopPodSandbox", 40*time.Second)
		began := time.Now()
		if n, err := endPods(context.Background(), rt, nil, 5*time.Second); n != 200 || err != nil {
			t.Errorf("%d ended, %v", n, err)
		}
		if took := time.Since(began); took < 2*patience {
			t.Errorf("it took %s, which says nothing", took)
		}
	})
}

// A runtime that hangs is waited for once, however many pods there are, and told of in one line.
func TestPodsOfAHungRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := runs(t, 50)
		rt.Latency("StopPodSandbox", time.Hour)
		began := time.Now()
		_, err := endPods(context.Background(), rt, nil, 5*time.Second)
		if want := "50 of 50: none has ended for 1m5s"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if took := time.Since(began); took > 2*patience {
			t.Errorf("it took %s", took)
		}
	})
}
