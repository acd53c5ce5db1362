package controllers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/legacytokens"
)

// Tokens that were made with an account and are not used for a period are refused, and go after another one; all others stay.
func TestUnusedTokensOfSecretsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		w := newWorld(t)
		w.everyNamespace()
		w.secretTokens()
		w.createNamespace("work")
		w.run(legacytokens.New(w.view, w.controllers, 10*day, nil))
		change := func(ref client.Ref, f func(runtime.Object)) {
			w.must(w.admin.Mutate(context.Background(), ref, func(o runtime.Object) (bool, error) { f(o); return true, nil }))
		}
		if w.get(client.ServiceAccounts.At("work", "default")) == nil {
			t.Fatal("no account")
		}
		for _, name := range []string{"unused", "mounted", "used", "odd", "manual"} {
			w.must(w.admin.Create(context.Background(), client.Secrets.At("work", ""), tokenSecret(name, "default", "")))
		}
		change(client.ServiceAccounts.At("work", "default"), func(o runtime.Object) {
			for _, name := range []string{"unused", "mounted", "used", "odd"} {
				o.(*v1.ServiceAccount).Secrets = append(o.(*v1.ServiceAccount).Secrets, v1.ObjectReference{Name: name})
			}
		})
		w.must(w.admin.Create(context.Background(), client.Pods.At("work", ""), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "p"}, Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Image: "i"}}, Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "mounted"}}}},
		}}))
		secret := func(name string) *v1.Secret {
			s, _ := w.get(client.Secrets.At("work", name)).(*v1.Secret)
			return s
		}
		label := func(name, value string) {
			change(client.Secrets.At("work", name), func(o runtime.Object) {
				o.(*v1.Secret).Labels = map[string]string{legacytokens.LastUsed: value}
			})
		}
		label("odd", "yesterday")
		c, _ := w.get(client.ConfigMaps.At("kube-system", legacytokens.Tracking)).(*v1.ConfigMap)
		if c == nil || c.Data["since"] != time.Now().UTC().Format(time.DateOnly) {
			t.Fatalf("since when is told by %+v", c)
		}
		time.Sleep(9 * day)
		label("used", time.Now().UTC().Format(time.DateOnly))
		if s := secret("unused"); s.Labels[legacytokens.InvalidSince] != "" {
			t.Errorf("marked before the period was over: %v", s.Labels)
		}
		time.Sleep(4 * day)
		for name, want := range map[string]bool{"unused": true, "mounted": false, "used": false, "odd": false, "manual": false} {
			if got := secret(name).Labels[legacytokens.InvalidSince] != ""; got != want {
				t.Errorf("%s: marked %v", name, got)
			}
		}
		time.Sleep(6 * day)
		label("used", time.Now().UTC().Format(time.DateOnly))
		if secret("unused") == nil {
			t.Error("deleted before a second period was over")
		}
		time.Sleep(8 * day)
		for name, want := range map[string]bool{"unused": false, "mounted": true, "used": true, "odd": true, "manual": true} {
			if got := secret(name) != nil; got != want {
				t.Errorf("%s: there %v", name, got)
			}
		}
		// A day that somebody spoils is written anew, and the period with it.
		change(client.ConfigMaps.At("kube-system", legacytokens.Tracking), func(o runtime.Object) { o.(*v1.ConfigMap).Data = nil })
		if c := w.get(client.ConfigMaps.At("kube-system", legacytokens.Tracking)).(*v1.ConfigMap); c.Data["since"] != time.Now().UTC().Format(time.DateOnly) {
			t.Errorf("repaired to %v", c.Data)
		}
	})
}
