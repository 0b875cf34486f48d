# One entry for everything. `make help` lists the targets.
# A bare machine needs Python 3.11 or newer with pip; all else is installed into .venv.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# What builds the package is pinned too; pip reads the first name since 25.3, the second before.
export PIP_BUILD_CONSTRAINT := $(CURDIR)/requirements.lock
export PIP_CONSTRAINT := $(CURDIR)/requirements.lock

.PHONY: help venv etcd demo test lint fmt types pytest bench bench-failover soak failover interop wheel-check proto proto-check proto-lint proto-release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## create .venv and install Tandemq into it, editable, with locked versions

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Tandemq needs Python 3.11 or newer, this is {v[0]}.{v[1]}; try: make PYTHON=/path/to/python3.11")'
	@# Without ensurepip, because some distributions leave it out; the pip that exists installs the pinned one.
	@test -x $(BIN)/pip || { $(PYTHON) -m venv --without-pip $(VENV); \
	  $(PYTHON) -m pip --python $(BIN)/python install --quiet -c requirements.lock pip; }
	$(BIN)/python -m pip install --quiet -c requirements.lock -e '.[dev,uvloop]'
	@touch $@

etcd: ## see that etcd is there for the tests; as root on Debian, install it
	@tools/install_etcd.sh

demo: $(STAMP) ## start a pair and a witness, kill the master under load, account for every message
	@mkdir -p build/demo
	$(BIN)/tandemq demo

test: $(STAMP) lint types proto-check proto-lint pytest ## everything that must hold before a commit (under 15 minutes)

pytest: $(STAMP) etcd
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m 'not long'

lint: $(STAMP) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fmt: $(STAMP) ## rewrite the sources in the agreed format
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

bench: $(STAMP) ## our benchmarks: one JSON line per run
	@test -f bench/run.py || { echo "bench: bench/run.py does not exist yet" >&2; exit 1; }
	$(BIN)/python bench/run.py

bench-failover: $(STAMP) ## how long a producer waits when its master dies, freezes, is cut off or hands over (5 minutes)
	$(BIN)/python bench/failover.py

failover: $(STAMP) ## twenty kills, twenty handoffs, faults of every kind in a row, a disk that hangs (4 minutes; needs strace)
	$(BIN)/python -m pytest tests/integration/test_series.py tests/integration/test_hung_disk.py -m long -v

soak: $(STAMP) ## random kills and pauses of real members under load (4 minutes)
	$(BIN)/python -m pytest tests/integration/test_soak.py -m long -v

interop: $(STAMP) ## the same script of steps from clients in other languages
	@test -x tests/interop/run.sh || { echo "interop: tests/interop/run.sh does not exist yet" >&2; exit 1; }
	PATH="$(abspath $(BIN)):$$PATH" tests/interop/run.sh

wheel-check: $(STAMP) ## build wheel and sdist, install the wheel alone elsewhere, look at what landed (DEMO=1: run the demo too)
	$(BIN)/python tools/wheel_check.py $(if $(DEMO),--demo)

proto: ## write the stubs from proto/ into tandemq/
	$(PYTHON) tools/gen_proto.py write

proto-check: ## fail if the committed stubs are not what proto/ says
	$(PYTHON) tools/gen_proto.py check

proto-lint: $(STAMP) ## buf lint, and buf breaking against what was released
	@PATH="$(abspath $(BIN)):$$PATH" tools/proto_lint.sh

proto-release: $(STAMP) ## make proto/released.binpb the contract that later changes must not break
	$(BIN)/buf build --output proto/released.binpb

clean: ## remove what builds and runs left behind (environments stay)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
