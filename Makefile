# `make help` lists the targets. CI calls .ci/run, which calls these and nothing
# else, so what passes here passes there.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The command's version: the nearest tag of the coordinator module, how far we
# are from it, and whether the tree is dirty; the commit alone before any tag.
VERSION := $(shell git describe --tags --match 'coordinator/v*' --always --dirty 2>/dev/null | sed 's|^coordinator/||')

# After how long the tests of one package are taken to hang. Those that wait for servers
# and leases take minutes beside others.
TEST_TIMEOUT ?= 8m
E2E_TIMEOUT ?= 10m

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

# nomsgpack leaves an encoding out of gin that nothing here speaks; it is a third of
# a cold build.
.PHONY: build
build: ## build the command as bin/rsc
	CGO_ENABLED=0 go build -trimpath -tags nomsgpack -ldflags '-X main.version=$(VERSION)' -o bin/rsc ./coordinator/cmd/rsc

# The stack of docker-compose.yaml. COMPOSE=docker-compose for the older program.
COMPOSE ?= docker compose
export RSC_VERSION = $(VERSION)

.PHONY: image
image: ## build the image redis-stream-coordinator:local
	docker build --build-arg VERSION='$(VERSION)' -t redis-stream-coordinator:local .

.PHONY: up
up: ## start Redis, two coordinators, consumers, a producer, Prometheus and Grafana in Docker (RSC_PASSWORD, RSC_RATE, COMPOSE)
	$(COMPOSE) up -d --build
	@echo "API http://127.0.0.1:$(or $(RSC_PORT),8080)  Prometheus http://127.0.0.1:$(or $(PROMETHEUS_PORT),9090)  Grafana http://127.0.0.1:$(or $(GRAFANA_PORT),3000)"

.PHONY: down
down: ## stop them and remove what they stored
	$(COMPOSE) down -v

.PHONY: demo
demo: build ## run the whole system for a while under trouble and account for every record (DEMO_SECONDS, DEMO_RATE, REDIS_URL)
	bin/rsc demo

# -count=1, because the go command does not see everything that a result rests
# on: the suites in e2e start processes built from other modules and read files
# of the whole repository. -p 3, because the longest packages wait most of the time.
.PHONY: test
test: ## run all tests of all modules with the race detector, on servers they start themselves
	scripts/test-setup.sh
	go test -race -count=1 -p 3 -timeout $(TEST_TIMEOUT) work

.PHONY: test-fast
test-fast: ## run the tests that need no server, without the race detector
	RSC_TEST_FAST=1 go test -short -timeout $(TEST_TIMEOUT) work

.PHONY: e2e
e2e: ## run only the suites on real processes, afresh (LONG=1 for the long forms)
	scripts/test-setup.sh
	cd e2e && go test -race -count=1 -timeout $(E2E_TIMEOUT) ./...
	$(MAKE) --no-print-directory dataplane
	$(MAKE) --no-print-directory controlplane
	$(MAKE) --no-print-directory reshard

# The short form runs many scenarios side by side, since they wait most of the
# time; the long one takes its bounds as they are and runs one at a time. Without
# the race detector: it is times that are judged, and the modules' own tests have it.
LONG ?=
SCENARIO ?=
DATAPLANE = cd e2e && RSC_DATAPLANE=$(if $(LONG),long,short) RSC_SCENARIO='$(SCENARIO)' \
	go test -count=1 -v -timeout $(if $(LONG),3h,20m) -parallel $(if $(LONG),1,6)
VERDICTS = grep --line-buffered -v -e '^=== ' -e '^ *--- PASS' -e '^PASS' -e '^ok '

.PHONY: dataplane
dataplane: ## play faults of four kinds of servers against consumers and producers, with an account of every record (LONG=1, SCENARIO)
	scripts/test-setup.sh
	$(DATAPLANE) -run '^(TestScenarios$(if $(SCENARIO),,|TestMillion))$$' ./dataplane | $(VERDICTS)

.PHONY: e2e-million
e2e-million: LONG = 1
e2e-million: ## a million records through members that join, leave, are killed and frozen, and a failover (RSC_RECORDS, RSC_SEED)
	scripts/test-setup.sh
	$(DATAPLANE) -run '^TestMillion$$' ./dataplane | $(VERDICTS)

# The same for several coordinators; MINUTES is how long the long forms go on, SEED
# repeats the choices of one.
MINUTES ?=
CONTROLPLANE = cd e2e && RSC_MINUTES='$(MINUTES)' RSC_SEED='$(SEED)' go test -count=1 -v -timeout 3h

.PHONY: controlplane
controlplane: ## try three coordinators and thirty members on faults, a rolling restart, a failover and full load, in short
	scripts/test-setup.sh
	RSC_CONTROLPLANE=short; export RSC_CONTROLPLANE; $(CONTROLPLANE) -parallel 4 ./controlplane | $(VERDICTS)

.PHONY: chaos
chaos: ## kill, freeze and cut off coordinators, members and masters for 5 minutes each, on a Cluster, behind a balancer and on each database (SEED, MINUTES)
	scripts/test-setup.sh
	RSC_CONTROLPLANE=long; export RSC_CONTROLPLANE; $(CONTROLPLANE) -parallel 1 -run '^TestChaos' ./controlplane | $(VERDICTS)

.PHONY: soak
soak: ## load a coordinator as much as it can bear for 10 minutes and look at its memory (MINUTES)
	scripts/test-setup.sh
	RSC_CONTROLPLANE=long; export RSC_CONTROLPLANE; $(CONTROLPLANE) -run '^TestSoak$$' ./controlplane | $(VERDICTS)

# Changes of the shard count, in the same two forms as the data plane's scenarios.
RESHARD = cd e2e && RSC_RESHARD=$(if $(LONG),long,short) go test -count=1 -v -timeout $(if $(LONG),2h,20m) -parallel $(if $(LONG),1,6)

.PHONY: reshard
reshard: ## change the shard count under load, out, in, to zero and back, with kill -9 in each state and an account of every record (LONG=1)
	scripts/test-setup.sh
	$(RESHARD) ./reshard | $(VERDICTS)

.PHONY: smoke
smoke: ## play the stack of docker-compose.yaml as processes, ask Prometheus for all that the dashboards show, account for every record
	scripts/test-setup.sh
	cd e2e && RSC_SMOKE=processes go test -count=1 -v -timeout $(E2E_TIMEOUT) -run '^TestSmoke$$' ./smoke | $(VERDICTS)

.PHONY: smoke-containers
smoke-containers: ## build the image, run the stack in Docker and check the same (stand-ins where no image can be pulled)
	scripts/smoke-containers.sh | $(VERDICTS)

# SEEDS seeds from FIRST on, or one SEED with its whole trace; SHAPE for one shape
# of schedule only.
SEEDS ?= 3000
FIRST ?= 1
SIM = go test ./sim -count=1 -v -timeout 3h
QUIET = { grep -v -e '^=== ' -e '^--- PASS' -e '^PASS' -e '^ok ' || true; }

.PHONY: sim
sim: ## play seeded schedules full of faults (SEEDS, FIRST, SHAPE), or one SEED with its trace
	cd core && $(SIM) -run '^TestSeeds$$' -seeds '$(SEEDS)' -first '$(FIRST)' -seed '$(or $(SEED),0)' -shape '$(SHAPE)' | $(QUIET)

.PHONY: worlds
WORLDS ?= 1000000
worlds: ## visit every interleaving of small worlds, up to WORLDS distinct states
	cd core && $(SIM) -run '^TestSmallWorlds$$' -worlds '$(WORLDS)' | $(QUIET)

.PHONY: mutants
mutants: ## switch every rule of the protocol off in turn and show what notices it
	cd core && $(SIM) -run '^TestMutants$$' -mutants | $(QUIET)

# -p 1, so that no package's benchmarks disturb another's. STREAMBENCH are the
# flags of e2e/streambench: "-gate" makes a missed target an error, "-rounds 3
# -records 50000" is a short form. CONTROLBENCH are those of e2e/controlbench.
BENCH ?= .
STREAMBENCH ?=
CONTROLBENCH ?=

.PHONY: bench
bench: ## compare with peers in one run (CONTROLBENCH, STREAMBENCH, their flags), then run all benchmarks one after the other, or those that BENCH matches
	cd e2e && go run ./assignbench
	cd e2e && go run ./controlbench $(CONTROLBENCH)
	cd e2e && go run ./streambench $(STREAMBENCH)
	go test -p 1 -run '^$$' -bench '$(BENCH)' -benchmem work

.PHONY: lint
lint: ## check formatting, golangci-lint in every module, shellcheck
	scripts/lint.sh

.PHONY: alone
alone: ## build, vet and quickly test every module without the workspace
	scripts/each-module.sh go build ./...
	scripts/each-module.sh go vet ./...
	RSC_TEST_FAST=1 scripts/each-module.sh go test -short -timeout $(TEST_TIMEOUT) ./...

.PHONY: tidy
tidy: ## check that every go.mod is tidy and that the dependency rule holds
	scripts/each-module.sh go mod tidy -diff
	cd core && go test ./internal/archtest
	cd e2e && go test -count=1 ./rules

.PHONY: fmt
fmt: ## format all Go code
	go list -m -f '{{.Dir}}' | xargs gofmt -w

.PHONY: release-check
release-check: ## pack each module as a proxy would and let fresh programs outside the repository get, build and install them
	cd e2e && go run ./releasecheck
