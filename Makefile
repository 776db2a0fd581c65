# Tranche: `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export GOTOOLCHAIN := local

BIN := bin
PROGRAMS := $(BIN)/worker $(BIN)/starter $(BIN)/shop
SOURCES := $(shell find . -name '*.go' -not -path './devserver/*' -not -path './bin/*') go.mod go.sum \
	$(shell find . \( -name '*.sql' -o -name '*.zip' -o -name 'schema.json' \) -not -path './bin/*')
DEVSERVER_SOURCES := $(shell find devserver -name '*.go') devserver/go.mod devserver/go.sum

# Tools of the linters, by version: `go run` builds them once.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
WORKFLOWCHECK := go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: $(PROGRAMS) ## build worker, starter and the shop of the example into bin/

$(BIN)/worker: $(SOURCES)
	go build -ldflags '-s -w' -o $@ ./worker

$(BIN)/starter: $(SOURCES)
	go build -ldflags '-s -w' -o $@ ./starter

$(BIN)/shop: $(SOURCES)
	go build -ldflags '-s -w' -o $@ ./pipelines/orders/shop

.PHONY: devserver
devserver: $(BIN)/devserver ## build the Temporal server for laptops into bin/ (five minutes the first time)

$(BIN)/devserver: $(DEVSERVER_SOURCES)
	@echo 'building the Temporal server: about five minutes the first time, seconds afterwards'
	cd devserver && go build -ldflags '-s -w' -o ../$@ .

.PHONY: demo
demo: build devserver ## run the three example pipelines twice, end to end; KEEP=1 keeps it up
	go run ./systemtest/demo $(if $(KEEP),--keep)

# Tests of Schedules consist mostly of waiting for ticks: more of them at a time than there are processors.
TESTFLAGS ?= -parallel 4 -timeout 20m
.PHONY: test
test: build devserver ## run all tests, against a real Temporal and a real PostgreSQL
	scripts/with-postgres go test $(TESTFLAGS) ./...
	cd devserver && go test -vet=off $(TESTFLAGS) ./...

.PHONY: race
race: build devserver ## run the tests with the race detector, also in the worker they start (needs a C compiler)
	go build -race -o $(BIN)/worker ./worker
	GORACE=halt_on_error=1 scripts/with-postgres go test -race $(TESTFLAGS) ./... && status=0 || status=$$?; rm -f $(BIN)/worker; exit $$status

.PHONY: nightly
nightly: build devserver ## Schedules with Temporal's new scheduler; hold ten years of ticks in every time zone against Temporal's scheduler (about an hour)
	TRANCHE_TEST_CHASM=1 go test ./schedules -count=1
	TRANCHE_TEST_CHASM=1 scripts/with-postgres go test ./systemtest -run 'Past|Paused|Outage|Deleted|Taken|Calls|Grids|Operator|Apply' -count=1
	TRANCHE_NIGHTLY=1 go test ./schedules -run 'AreTheGrid|TemporalFires' -count=1 -timeout 3h -v

INTERVALS ?= 10000
.PHONY: soak
soak: build devserver ## run a backfill of INTERVALS intervals through kills of workers and server (about ten minutes)
	go test ./systemtest -run TestSoak -soak $(INTERVALS) -count=1 -timeout 3h -v

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## fuzz every parser for FUZZTIME each
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: build devserver ## measure loads of a million rows against psql and sqlite3, and a backfill against bare workflows
	scripts/with-postgres go run ./systemtest/bench $(BENCHFLAGS)

.PHONY: zones
zones: ## take the time zone database of the installed Go, after an update of either
	go generate ./interval

.PHONY: generate
generate: ## write the JSON Schema and the pipeline reference again
	go generate ./...

.PHONY: replay-record
replay-record: build devserver ## record the histories that `make test` replays; only from released code
	scripts/with-postgres go test ./systemtest -run TestRecord -record -count=1

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, workflowcheck
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; test -z "$$unformatted" || { echo "gofmt would change: $$unformatted"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	go run $(WORKFLOWCHECK) -config .workflowcheck.yaml ./workflows/...

.PHONY: lint-devserver
lint-devserver: ## the same for devserver; vet reads all of Temporal, which takes many minutes the first time
	cd devserver && go vet ./... && go run $(STATICCHECK) ./...

.PHONY: ci
ci: ## what CI runs: the linters, the tests and the demo, on a machine with Go and Debian's packages
	scripts/install-postgres
	$(MAKE) lint
	$(MAKE) test
	$(MAKE) demo

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) .demo .test
