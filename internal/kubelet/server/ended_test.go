package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestEndedByABellOrABackstop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rt, bell := &fakeRuntime{}, &Bell{}
		state := func(s runtimev1.ContainerState) { rt.setState("id", &runtimev1.ContainerStatus{State: s}) }
		state(runtimev1.ContainerState_CONTAINER_RUNNING)
		ask := EndedBy(rt, bell, time.Hour)
		first, second := ask(ctx, "id"), ask(ctx, "id")
		over := func(c <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		bell.Ring() // something else happened
		if over(first) || over(second) {
			t.Error("a running container has ended")
		}
		state(runtimev1.ContainerState_CONTAINER_EXITED)
		if over(first) {
			t.Error("nobody rang")
		}
		bell.Ring()
		if !over(first) || !over(second) {
			t.Error("the bell was not heard by all")
		}
		state(runtimev1.ContainerState_CONTAINER_RUNNING)
		third := ask(ctx, "id")
		synctest.Wait()
		state(runtimev1.ContainerState_CONTAINER_EXITED)
		time.Sleep(time.Hour)
		if !over(third) {
			t.Error("no backstop")
		}
		if !over(ask(ctx, "unknown")) {
			t.Error("a container that the runtime does not know still runs")
		}
		state(runtimev1.ContainerState_CONTAINER_RUNNING)
		fourth := ask(ctx, "id")
		cancel()
		if over(fourth) {
			t.Error("ended by its context")
		}
	})
}
