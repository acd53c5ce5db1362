# Yardsticks that nobody here wrote: upstream's suite and upstream's own code. A module of their own; nothing of it is in the product.

CONFORMANCE := bin/conformance
FOCUS  ?=
PROCS  ?= 4
REPORT ?= $(CONFORMANCE)/report
ORACLE ?=

# Compiled as the product is, so that packages which both have are compiled once.
conformance conformance-ci conformance-board conformance-images conformance-diff oracle peer: export CGO_ENABLED := 0
conformance conformance-ci conformance-board conformance-images conformance-diff oracle peer: export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath $(LEAN))

# Programs are asked which version they are; the suite takes itself for older than every pod security standard when it does not know.
VERSION_FLAGS := -s -w $(foreach v,gitVersion=v1.37.2 gitMajor=1 gitMinor=37,-X k8s.io/component-base/version.$(v))

# Programs of the pinned module. They are built once: `make clean` removes them.
$(CONFORMANCE)/e2e.test:
	@mkdir -p $(CONFORMANCE)
	@awk '/^MemAvailable:/ && $$2 < 3500000 { print "Building upstream'"'"'s suite needs 3.5 GB of memory, " int($$2/1000) " MB are free: end other programs."; exit 1 }' /proc/meminfo
	cd test/conformance && go test -vet=off -mod=mod -ldflags '$(VERSION_FLAGS)' -c -o ../../$@ k8s.io/kubernetes/test/e2e

$(CONFORMANCE)/agnhost:
	@mkdir -p $(CONFORMANCE)
	cd test/conformance && go build -mod=mod -ldflags '-s -w' -o ../../$@ k8s.io/kubernetes/test/images/agnhost

$(CONFORMANCE)/conformance: $(wildcard test/conformance/*/*.go test/conformance/cmd/*/*.go)
	@mkdir -p $(CONFORMANCE)
	cd test/conformance && go build -mod=mod -o ../../$@ ./cmd/conformance

CONFORMANCE_TOOLS := $(addprefix $(CONFORMANCE)/,e2e.test agnhost conformance)
# Programs of this machine that the images hold, and libraries of those.
CONFORMANCE_DEPS := nftables busybox-static bash curl bind9-dnsutils bind9-host iproute2 socat netcat-openbsd hostname libpcre2-8-0 libssl3
# A cluster is tested only when it is named on make's command line, never because the shell happens to know it.
ON_CLUSTER = $(if $(filter command,$(firstword $(origin KUBECONFIG))),-kubeconfig '$(abspath $(KUBECONFIG))')

.PHONY: conformance
conformance: build $(CONFORMANCE_TOOLS) ## run upstream's suite: FOCUS=regexp PROCS=4 REPORT=dir KUBECONFIG=cluster (a fresh podo when not given)
	@tools/deps $(CONFORMANCE_DEPS)
	@cd test/conformance && exec ../../$(CONFORMANCE)/conformance run -focus '$(subst ','\'',$(value FOCUS))' -procs $(PROCS) \
		-report '$(abspath $(REPORT))' -board '$(abspath $(or $(BOARD),$(REPORT)/board.md))' $(ON_CLUSTER) $(CONFORMANCE_FLAGS)

# The names are in quick.txt with the reason of each. Whatever does not pass, or does not run, fails.
.PHONY: conformance-ci
conformance-ci: build $(CONFORMANCE_TOOLS) ## run the few quick tests of upstream's suite that guard what works
	@tools/deps $(CONFORMANCE_DEPS)
	@rm -rf $(CONFORMANCE)/ci
	@cd test/conformance && exec ../../$(CONFORMANCE)/conformance run -only quick.txt -procs $(PROCS) -report ../../$(CONFORMANCE)/ci -per-test 90s -in-all 4m

.PHONY: conformance-board
conformance-board: $(CONFORMANCE)/conformance ## write docs/conformance.md from REPORT=dir
	cd test/conformance && ../../$(CONFORMANCE)/conformance board '$(abspath $(REPORT))' ../../docs/conformance.md

.PHONY: conformance-images
conformance-images: $(CONFORMANCE)/agnhost $(CONFORMANCE)/conformance ## make the suite's images into bin/conformance/images, for a cluster of your own
	@tools/deps $(CONFORMANCE_DEPS)
	cd test/conformance && ../../$(CONFORMANCE)/conformance images

.PHONY: conformance-diff
conformance-diff: $(CONFORMANCE)/conformance ## name every test whose result differs between the reports OLD=dir and NEW=dir
	$(CONFORMANCE)/conformance diff '$(OLD)' '$(NEW)'

.PHONY: oracle
oracle: build ## compare the registry, the scheduler and what a live server shows with upstream's own code: ORACLE="-short" for a minute of it, "-seed 7 -spend 5m" for more
	cd test/conformance && go test $(VETTED) -mod=mod -count=1 ./policy
	cd test/conformance && go test $(VETTED) -mod=mod -count=1 -timeout 2h ./oracle $(ORACLE) 2>&1 | grep -v 'validate.go:'

# Upstream's own components, for `make bench PEER=upstream`. Dependencies are this module's: some are a little newer than upstream's.
# They are compiled as e2e.test is, so that what both need is compiled once.
PEER_NAMES := kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl
PEER_PROGRAMS := $(addprefix $(CONFORMANCE)/,$(PEER_NAMES))

$(PEER_PROGRAMS) &:
	@mkdir -p $(CONFORMANCE)
	cd test/conformance && CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags '$(VERSION_FLAGS)' -o ../../$(CONFORMANCE)/ $(addprefix k8s.io/kubernetes/cmd/,$(PEER_NAMES))

$(CONFORMANCE)/etcd:
	@mkdir -p $(CONFORMANCE)
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@ go.etcd.io/etcd/server/v3

.PHONY: peer
peer: $(PEER_PROGRAMS) $(CONFORMANCE)/etcd ## build upstream's components, to measure against (5 to 10 minutes)
