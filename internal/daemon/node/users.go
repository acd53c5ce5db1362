package node

import (
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/userns"
)

// buildUsers makes the manager of user namespaces. On a node whose id ranges cannot be used, pods without user namespaces run all
// the same, and the others are told why they cannot.
func (k *run) buildUsers() error {
	log := k.log().of("userns")
	pods, each := int(k.capacity.Pods().Value()), config.IDsPerPod(k.c.Kubelet)
	pool, err := userns.FindPool(k.c.Host.ReadFile, pods, each)
	if k.noUsers = err; err != nil {
		log.Warn("pods with hostUsers: false cannot run here", "err", err)
		pool = userns.DefaultPool(pods, each)
	}
	k.users, err = userns.Open(userns.Config{
		Dir: filepath.Join(k.c.Dir, "userns"), Pool: pool, Supported: k.supportsUsers, Log: log,
		Pods: func() (map[types.UID]bool, bool) { return k.kubelet.Collectable() },
	})
	return err
}

func (k *run) usersOf(pod *v1.Pod, handler string) (*runtimev1.UserNamespace, error) {
	users, err := k.users.Options(pod, handler)
	if err == nil && users != nil {
		err = k.noUsers
	}
	return users, err
}

// supportsUsers tells whether a handler supports user namespaces, by the node's status.
func (k *run) supportsUsers(handler string) bool {
	for _, h := range k.anyNode().Status.RuntimeHandlers {
		if h.Name == handler {
			return h.Features != nil && h.Features.UserNamespaces != nil && *h.Features.UserNamespaces
		}
	}
	return false
}
