# The clients that programs are written with, driven against bin/podo. A module of its own: it takes minutes to compile the first time.

# Compiled as the product is, so that packages which both have are compiled once.
clients: export CGO_ENABLED := 0
clients: export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath $(LEAN))

.PHONY: clients
clients: build ## client-go's informers and controller-runtime against podo's API
	cd test/clients && go test $(VETTED) -count=1 -timeout 10m ./...
