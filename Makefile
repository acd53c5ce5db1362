# Everything that a person or CI does with this repository. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
DATA_DIR ?= /var/lib/podo
# 0 runs a few short simulations, another number that one.
SEED     ?= 0
STEPS    ?= 150
# Flags for `podo up`, for example UP="--https-port 7443"
UP       ?=
# What bench measures besides podo and the floor (upstream: upstream's own components), which groups, how often, and further flags.
PEER     ?=
ONLY     ?=
RUNS     ?=
BENCH    ?=
# Packages of the unit lane without the race detector, which costs their tests ten times as much and has nothing to look for: the pure ones
# (tools/analyzers/pure), and those that start nothing and whose tests run one thing after another. What several may ask of them at once is
# asked through their users, and controllers run in a loop that has tests of its own.
PLAIN     = $(addprefix ./internal/,podlife registry/... timeline budget explain quota jointoken view/codec \
            scheduler/framework scheduler/plan scheduler/plugins/... scheduler/profile scheduler/queue \
            kubelet/admit kubelet/downward kubelet/expand \
            openapi apiserver/admit/settings apiserver/authz/review apiserver/impersonate daemon/boot daemon/config daemon/datadir daemon/joined \
            daemon/moved daemon/preflight daemon/why deptest host/dump host/tree kubelet/config kubelet/delegate kubelet/disk \
            kubelet/images/keyring kubelet/localvolume kubelet/resize kubelet/spec kubelet/state words \
            $(addprefix controllers/,certificateapproval certificatecleaning certificatesigning clusterroles cronjob deployment history \
            owning rootca serviceaccounts servicecidr servicecidrs ttlafterfinished)) ./tools/analyzers/... ./tools/images/...
# And with it: all others of this module but those with a lane of their own. Those that take longest begin first, since go keeps the order.
UNIT      = $(shell go list $(addprefix ./internal/,apiserver/wire store/etcd controllers) \
            $(addsuffix /...,$(addprefix ./,$(wildcard cmd internal tools test/scripts))) | \
            grep -v -e /internal/sim$$ -e /internal/warm$$ | grep -vxF "$$(go list $(PLAIN))")
# How long each fuzz target runs.
FUZZTIME ?= 30s
# Where the real lane's time goes is containers and waits, not processors: so many stories run side by side.
E2E_TIME ?= 30m
E2E_SIDE ?= 4
# On CI nothing is compiled for debuggers, which takes an eighth of a compiler's time. Elsewhere what editors have compiled is shared.
LEAN     := $(if $(CI),-gcflags=all=-dwarf=false)

# `make check` vets all of this module. For a test go would vet all that it depends on too, for the race detector once more, and for the
# modules with tests of their own all of upstream.
VETTED := -vet=off

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0

IMAGES := bin/images/busybox.tar bin/images/hello.tar

.PHONY: help
help: ## list the targets
	@echo 'Podo, a Kubernetes cluster in one binary. Needs Linux, root, Go 1.26.8 or newer and gcc; Debian packages are installed when missing.'
	@echo 'Elsewhere install: gcc, pkg-config, libseccomp with its static library, nftables, a static busybox at /bin/busybox.'
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  Variables: DATA_DIR=$(DATA_DIR) for up and down, UP="flags of podo up", SEED=n STEPS=n for sim, RUN=regexp for unit, e2e and fuzz,'
	@echo '  PEER=upstream ONLY=regexp RUNS=n BENCH="flags of bin/bench" for bench'

# The product, vet, staticcheck and the real lane are compiled alike, so that each package is compiled once for all of them and once
# more for the race detector.
build check e2e bench: export CGO_ENABLED := 0
build check e2e bench: export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath $(LEAN))
unit sim: export GOFLAGS := $(strip $(shell go env GOFLAGS) $(LEAN))

.PHONY: build
build: payload ## build bin/podo with its helper programs in it
	go build -ldflags '-s -w -X podo.dev/podo/internal/cli.Version=$(VERSION)' -o bin/podo ./cmd/podo

.PHONY: payload
payload: ## build the helper programs (containerd, runc, CNI plug-ins, kubectl) from their pinned modules
	go run ./tools/payload

.PHONY: images
images: $(IMAGES) ## build the container images into bin/images

$(IMAGES) &: $(wildcard tools/images/*.go tools/images/*/*.go) /bin/busybox
	go run ./tools/images

# Helm as its users have it, from a module of its own (test/helm), for the story in which it installs a chart.
bin/helm: test/helm/go.mod
	cd test/helm && go build -ldflags '-s -w' -o ../../$@ helm.sh/helm/v3/cmd/helm

/bin/busybox:
	@tools/deps busybox-static

.PHONY: deps
deps: ## install the Debian packages that building, running and testing need, when missing
	@tools/deps gcc libc6-dev pkg-config libseccomp-dev nftables busybox-static strace

.PHONY: up
up: build images ## start a cluster, import the images and run examples/hello.yaml in it
	@tools/deps nftables
	bin/podo up --data-dir $(DATA_DIR) $(UP)
	bin/podo image import --data-dir $(DATA_DIR) bin/images/*.tar
	env -u KUBECONFIG bin/podo kubectl --data-dir $(DATA_DIR) apply -f examples/hello.yaml
	env -u KUBECONFIG bin/podo kubectl --data-dir $(DATA_DIR) wait --for=condition=Ready pod/hello --timeout=60s
	@echo
	@env -u KUBECONFIG bin/podo kubectl --data-dir $(DATA_DIR) get pod hello -o wide
	@echo
	@echo 'A container runs. Next:'
	@echo '  bin/podo kubectl logs hello'
	@echo '  bin/podo timeline pod/hello               what happened to it, from the request to the process'
	@echo '  curl http://$$(bin/podo kubectl get pod hello -o jsonpath={.status.podIP}):8080'
	@echo '  export KUBECONFIG=$(DATA_DIR)/kubeconfig   for a stock kubectl'
	@echo '  make down'

.PHONY: down
down: ## stop the cluster and its pods; data stays
	bin/podo down --data-dir $(DATA_DIR)

# -cpu 1 with -race: timers of a synctest bubble share one context of the race detector, which crashes when two threads run some of
# them at once (https://go.dev/issue/78156). It finds races by what is ordered, not by what meets, so that one thread at a time will do.
.PHONY: unit
unit: ## unit and property tests and lifecycle scripts, with the race detector but for pure packages (RUN=regexp for some)
	go test -race -cpu 1 $(VETTED) -timeout 20m $(if $(RUN),-run '$(RUN)') $(UNIT)
	CGO_ENABLED=0 go test $(VETTED) -trimpath $(if $(RUN),-run '$(RUN)') $(PLAIN)
	@# What podo adds to carried programs, alone: of these modules nothing else is compiled but what the programs need anyway.
	cd tools/containerd && CGO_ENABLED=0 go test -trimpath $(if $(RUN),-run '$(RUN)') rest.go rest_test.go
	cd tools/kubectl && CGO_ENABLED=0 go test -trimpath $(if $(RUN),-run '$(RUN)') tables.go tables_test.go

.PHONY: sim
sim: ## simulate a cluster with faults; SEED=n replays one
	go test -race -cpu 1 $(VETTED) -count=1 -timeout 20m ./internal/sim -seed=$(SEED) -steps=$(STEPS)

.PHONY: long
long: ## a quarter of an hour of podlife's properties, 100,000 sequences each, and simulations of twenty nodes (SEED=n)
	cd internal/podlife && go test -count=1 -timeout 60m -run 'TestInvariants|TestRestartChangesNothing' -rapid.checks=100000
	go test -count=1 -timeout 60m ./internal/scheduler/plan -run 'Oracle|Remembered' -rapid.checks=100000
	$(MAKE) e2e RUN=TestStories/kubectl-apply DOCUMENTS=10000
	go test -count=1 -timeout 60m ./internal/sim -run TestManyNodes -seed=$(if $(filter-out 0,$(SEED)),$(SEED),1) -steps=300

.PHONY: e2e
e2e: build images bin/helm ## stories on real containers: needs root (RUN=regexp for some)
	@tools/deps nftables strace
	go test $(VETTED) -count=1 -p 2 -parallel $(E2E_SIDE) -tags e2e -timeout $(E2E_TIME) $(if $(RUN),-run '$(RUN)') ./internal/runtime ./internal/podnet/plugin ./internal/kubelet/routes ./test/e2e/...

# A line "figure scheduler.<load>.<nodes>.<pods|cpu> <value> <unit>" for each figure of each benchmark.
.PHONY: bench-scheduler
bench-scheduler: ## the scheduler alone, in process, with the loads of upstream's scheduler_perf (RUN=regexp for some): needs a quiet machine
	go test -run '^$$' -bench '$(if $(RUN),$(RUN),.)' -benchtime 1x -timeout 60m ./internal/scheduler | tools/benchfigures

.PHONY: fuzz
fuzz: ## feed every decoder with what nobody would write, each target for FUZZTIME=30s (RUN=regexp for some): the long lane
	tools/fuzz $(FUZZTIME)

.PHONY: test
test: ## everything that must pass: unit, a short simulation, e2e, and clients as programs use them
	@# The simulation is one thread: the other core has the unit tests meanwhile.
	$(MAKE) -j2 unit sim
	$(MAKE) e2e
	$(MAKE) clients

.PHONY: check
check: ## vet, staticcheck, gofumpt and the project's own analyzers
	go vet ./...
	go vet -tags e2e ./internal/runtime ./internal/podnet/plugin ./internal/kubelet/routes
	go run $(STATICCHECK) ./...
	@unformatted=$$(go run $(GOFUMPT) -l $$(git ls-files -co --exclude-standard '*.go')); \
		if [ -n "$$unformatted" ]; then echo "gofumpt would change:"; echo "$$unformatted"; exit 1; fi
	$(if $(wildcard tools/analyzers),go run ./tools/analyzers ./...)

.PHONY: bench
bench: build images $(if $(filter upstream,$(PEER)),peer) ## measure against the runtime's floor, and PEER=upstream: needs root and a quiet machine (ONLY=regexp RUNS=n)
	@tools/deps nftables
	go build -o bin/bench ./test/bench
	exec bin/bench -report bin/bench.json $(if $(filter upstream,$(PEER)),-peer $(CONFORMANCE)) $(if $(ONLY),-only '$(ONLY)') $(if $(RUNS),-runs $(RUNS)) $(BENCH)

include test/conformance/targets.mk
include test/clients/targets.mk

.PHONY: clean
clean: ## remove what was built; the cluster's data stays
	rm -rf bin internal/runtime/payload/data/*.zst internal/runtime/payload/data/manifest.json
