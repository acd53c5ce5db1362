# Yardsticks that nobody here wrote: upstream's suite and upstream's own code. A module of their own; nothing of it is in the product.

CONFORMANCE := bin/conformance
FOCUS  ?=
PROCS  ?= 4
REPORT ?= $(CONFORMANCE)/report
ORACLE ?=

# Compiled as the product is, so that packages which both have are compiled once.
conformance conformance-ci conformance-images conformance-diff oracle peer: export CGO_ENABLED := 0
conformance conformance-ci conformance-images conformance-diff oracle peer: export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

# Programs of the pinned module. They are built once: `make clean` removes them.
$(CONFORMANCE)/e2e.test:
	@mkdir -p $(CONFORMANCE)
	cd test/conformance && go test -vet=off -mod=mod -ldflags '-s -w' -c -o ../../$@ k8s.io/kubernetes/test/e2e

$(CONFORMANCE)/agnhost:
	@mkdir -p $(CONFORMANCE)
	cd test/conformance && go build -mod=mod -ldflags '-s -w' -o ../../$@ k8s.io/kubernetes/test/images/agnhost

$(CONFORMANCE)/conformance: $(wildcard test/conformance/*/*.go test/conformance/cmd/*/*.go)
	@mkdir -p $(CONFORMANCE)
	cd test/conformance && go build -mod=mod -o ../../$@ ./cmd/conformance

.PHONY: conformance
conformance: build $(CONFORMANCE)/e2e.test $(CONFORMANCE)/agnhost $(CONFORMANCE)/conformance ## run upstream's suite: FOCUS=regexp PROCS=4 REPORT=dir KUBECONFIG=cluster (a fresh podo when empty); updates docs/conformance.md
	@tools/deps nftables busybox-static bash curl bind9-dnsutils iproute2 socat
	@report=$$(realpath -m $(REPORT)); cd test/conformance; \
		../../$(CONFORMANCE)/conformance run -focus '$(FOCUS)' -procs $(PROCS) -report $$report $(if $(KUBECONFIG),-kubeconfig '$(KUBECONFIG)') $(CONFORMANCE_FLAGS) && status=0 || status=$$?; \
		../../$(CONFORMANCE)/conformance board $$report ../../docs/conformance.md; exit $$status

.PHONY: conformance-diff
conformance-diff: $(CONFORMANCE)/conformance ## name every test whose result differs between the reports OLD=dir and NEW=dir
	$(CONFORMANCE)/conformance diff $(OLD) $(NEW)

.PHONY: oracle
oracle: ## compare the registry and the scheduler with upstream's own code: ORACLE="-short" for a minute of it, "-seed 7 -spend 5m" for more
	cd test/conformance && go test -mod=mod -count=1 -timeout 2h ./oracle $(ORACLE) 2>&1 | grep -v 'validate.go:'

# Upstream's own components, for `make bench PEER=upstream`. Dependencies are this module's: some are a little newer than upstream's.
PEER_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=v1.37.2 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37
PEER_PROGRAMS := $(addprefix $(CONFORMANCE)/,kube-apiserver kube-controller-manager kube-scheduler kubelet)

$(PEER_PROGRAMS):
	@mkdir -p $(CONFORMANCE)
	cd test/conformance && go build -mod=mod -ldflags '$(PEER_LDFLAGS)' -o ../../$@ k8s.io/kubernetes/cmd/$(@F)

$(CONFORMANCE)/etcd:
	@mkdir -p $(CONFORMANCE)
	go build -ldflags '-s -w' -o $@ go.etcd.io/etcd/server/v3

.PHONY: peer
peer: $(PEER_PROGRAMS) $(CONFORMANCE)/etcd ## build upstream's components, to measure against (about 5 minutes)
