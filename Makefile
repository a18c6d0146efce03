# Every target works from a bare clone: the first one that needs the environment makes it in .venv.
# `make` alone prints what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPARK_READY := $(VENV)/.spark-ready
PYTEST := $(BIN)/python -m pytest
PARALLEL ?= 2
SOURCES := broker operator spark tests bench tools

##@ First

.PHONY: help install demo tour test java
help: ## Print this list
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*##/ {printf "  make %-17s%s\n", $$1, $$2}' Makefile

install: $(READY) ## Make .venv with the command logherd in it

demo: java $(SPARK_READY) ## 336,776 real events through Spark and three brokers, the leader killed meanwhile; needs Java 17
	@$(BIN)/python tools/demo.py

tour: $(READY) ## Start a group of brokers, send and receive with a stock Java client, show what happened
	@tools/need jdk maven
	@$(BIN)/python tools/tour.py

test: $(READY) ## Everything that CI checks: lint, types, imports, unit, style, compat, system, spark, e2e
	@tools/need --say jdk maven go ip nft
	@tools/ahead tools/stages lint types imports unit compat system \
		$$(tools/need --stage spark java) $$(tools/need --stage e2e $(CLUSTER))
	@tools/need --without spark java
	@tools/need --without e2e $(CLUSTER)

##@ Parts

.PHONY: fmt lint types imports unit compat system e2e spark chaos sim failover
.PHONY: bench bench-raft bench-heartbeats bench-raft-inside bench-replicated bench-beside bench-spark bench-up
fmt: $(READY) ## Format the code and sort imports
	@$(BIN)/ruff check --quiet --fix $(SOURCES) || true
	@$(BIN)/ruff format $(SOURCES)

lint: $(READY) ## Find mistakes and bad style
	@$(BIN)/ruff check $(SOURCES)

types: $(READY) ## Check types, strictly
	@$(BIN)/mypy broker operator spark

imports: $(READY) ## Check who imports whom
	@$(BIN)/lint-imports --no-logo

unit: $(READY) ## Unit, property, contract and style tests
	@$(PYTEST) -n $(PARALLEL) --no-header $(UNIT_TESTS)

compat: $(READY) ## Stock Java and Go clients, mqadmin and a real RocketMQ against LogHerd
	@$(PYTEST) -n $(PARALLEL) --dist loadfile --no-loadscope-reorder --no-header tests/compat

system: $(READY) ## Real processes: kill -9, partitions, power cuts, damage; hostile peers at a live port
	@$(PYTEST) -n $(PARALLEL) --dist loadfile --no-loadscope-reorder --no-header --durations=25 tests/system

AWAY ?= 60
CLUSTER := namespaces jdk maven go ip containerd runc cni debootstrap conntrack openssl
e2e: $(READY) ## A real Kubernetes of two nodes, built from packages, as root on Linux; the first time takes half an hour
	@tools/need $(CLUSTER)
	@LOGHERD_OPERATOR_AWAY=$(AWAY) $(PYTEST) --no-header -p no:randomly --maxfail=3 --durations=25 tests/e2e

spark: $(SPARK_READY) ## A real Spark reads and writes through a real broker; installs PySpark, needs Java 17 or newer
	@tools/need java
	@$(PYTEST) --no-header tests/spark

CHAOS_SECONDS ?= 3600
CHAOS_SEED ?= $(shell date +%s)
chaos: $(READY) ## Broker groups under every kind of fault for CHAOS_SECONDS, an hour unless you say (ARGS=--guarded, "--mode raft", "--beside CHECKOUT")
	@tools/need go ip nft
	@PYTHONPATH=.:broker:tests $(BIN)/python -u -m system.chaos --seconds $(CHAOS_SECONDS) --seed $(CHAOS_SEED) $(ARGS)

SEED ?= 1000000
SECONDS_EACH ?= 600
sim: $(READY) ## Search: SECONDS_EACH of each simulation from SEED on, of small worlds; every defect from scratch
	@PYTHONPATH=broker:tests $(BIN)/python -m sim.consensus.run $(SEED) --seeds 1000000 --seconds $(SECONDS_EACH)
	@PYTHONPATH=broker:tests $(BIN)/python -m sim.consensus.run $(SEED) --seeds 1000000 --seconds $(SECONDS_EACH) --files
	@PYTHONPATH=broker:tests $(BIN)/python -m sim.consensus.small_scope --states 1000000 --seconds $(SECONDS_EACH)
	@PYTHONPATH=broker:tests $(BIN)/python -m sim.leases.run $(SEED) --seeds 1000000 --seconds $(SECONDS_EACH)
	@PYTHONPATH=broker:tests $(BIN)/python -m sim.groups.run $(SEED) --seeds 1000000 --seconds $(SECONDS_EACH)
	@PYTHONPATH=broker:tests $(BIN)/python -m sim.groups.run $(SEED) --mode raft --seeds 1000000 --seconds $(SECONDS_EACH)
	@PYTHONPATH=broker:tests $(BIN)/python -m sim.groups.run $(SEED) --mode static --seeds 1000000 --seconds $(SECONDS_EACH)
	@PYTHONPATH=broker:tests $(BIN)/python -m seeded.raft_bugs
	@PYTHONPATH=broker:tests $(BIN)/python -m seeded.controller_bugs
	@PYTHONPATH=broker:tests $(BIN)/python -m seeded.group_bugs
	@PYTHONPATH=broker:tests $(BIN)/python -m seeded.free_bugs

bench: $(READY) ## LogHerd and RocketMQ in turn under one load; takes minutes (ARGS=--quick: one)
	@tools/need jdk maven
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.compare $(ARGS)

bench-raft: $(READY) ## The Raft log beside etcd, three nodes each; takes three minutes (ARGS=--quick: one)
	@tools/need go
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.raft_log $(ARGS)

bench-raft-inside: $(READY) ## The Raft log beside SOFAJRaft, from inside the leader; takes three minutes (ARGS=--quick: one)
	@tools/need jdk maven
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.raft_inside $(ARGS)

bench-heartbeats: $(READY) ## Ten thousand brokers at one controller quorum; takes a minute
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.heartbeats $(ARGS)

bench-replicated: $(READY) ## Three replicas beside both kinds of RocketMQ; takes fifteen minutes (ARGS=--quick: four)
	@tools/need jdk maven
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.replicated $(ARGS)

bench-beside: $(READY) ## Three replicas beside NATS JetStream and Kafka, stock Go clients; takes seven minutes (ARGS=--quick: two)
	@tools/need jdk maven go
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.beside $(ARGS)

bench-spark: $(SPARK_READY) ## The data source beside Spark's Kafka connector; takes 15 minutes (ARGS=--quick: two)
	@tools/need jdk maven
	@PYTHONPATH=.:broker:spark:tests $(BIN)/python -m bench.spark_rows $(ARGS)

bench-up: $(READY) ## `logherd up` from exec to the first answered send, new and stopped in order; takes two minutes
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.first_send $(ARGS)

failover: $(READY) ## Rounds of every failover at a stock Java client, with limits; takes half an hour (ARGS="--rounds 3": four minutes)
	@tools/need jdk maven ip nft
	@PYTHONPATH=.:broker:tests $(BIN)/python -m bench.failover $(ARGS)

##@ House

.PHONY: lock docs crds clean
lock: $(READY) ## Renew requirements.lock, requirements-spark.lock and tools/uv.lock
	@$(BIN)/uv pip compile --quiet --upgrade --extra dev --extra operator --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --output-file requirements.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --upgrade --extra spark --extra demo --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --constraint requirements.lock --output-file requirements-spark.lock pyproject.toml
	@echo uv | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --output-file tools/uv.lock -

docs: $(READY) ## Renew the generated pages under docs/
	@$(BIN)/python tools/settings_page.py > docs/settings.md
	@$(BIN)/python tools/metrics_page.py > docs/metrics.md

crds: $(READY) ## Renew the CustomResourceDefinition from the models
	@$(BIN)/python tools/crd.py

clean: ## Remove the environment and all caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

java: # asked for before anything is installed
	@tools/need --install java

UNIT_TESTS = $(filter-out tests/spark tests/compat tests/system tests/e2e tests/README.md,$(wildcard tests/*))

$(SPARK_READY): $(READY) requirements-spark.lock
	@tools/bootstrap $(VENV) requirements-spark.lock
	@touch $@

$(READY): requirements.lock tools/uv.lock pyproject.toml tools/bootstrap
	@tools/bootstrap $(VENV)
	@touch $@
