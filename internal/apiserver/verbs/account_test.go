package verbs

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view/viewtest"
)

// A pod in a namespace that is a moment old waits for the account that every namespace gets, and no other account is waited for.
func TestPodsWaitForTheirNamespacesAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "young", UID: "ns-3"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}})
		try := func(account string) (took time.Duration, err error) {
			p := pod("p")
			p.Namespace, p.Spec.ServiceAccountName = "young", account
			start := time.Now()
			_, err = w.Create(w.ctx, admin, client.Pods.At("young", ""), p, Options{})
			return time.Since(start), err
		}
		refused := func(err error, account string) bool {
			return apierrors.IsForbidden(err) && strings.HasSuffix(err.Error(), `error looking up service account young/`+account+`: serviceaccount "`+account+`" not found`)
		}
		if took, err := try("nobody"); took != 0 || !refused(err, "nobody") {
			t.Errorf("after %v: %v", took, err)
		}
		if took, err := try(""); took != accountWait || !refused(err, "default") {
			t.Errorf("after %v: %v", took, err)
		}
		go func() {
			time.Sleep(accountWait / 2)
			viewtest.Put(t, w.store, viewtest.Account("young"))
		}()
		if took, err := try(""); took != accountWait/2 || err != nil {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
