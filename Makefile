# One entry for everything. `make help` lists the targets.
# A bare machine needs Python 3.11 or newer with pip; all else is installed into .venv.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
# Each process of a test would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
STAMP  := $(VENV)/.installed
PYTEST_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# What builds the package is pinned too; pip reads the first name since 25.3, the second before.
export PIP_BUILD_CONSTRAINT := $(CURDIR)/requirements.lock
export PIP_CONSTRAINT := $(CURDIR)/requirements.lock

.PHONY: help audit-check audit-same blocking blocking-check modules venv setup setup-all etcd strace directories chromium spark exactly-once pipeline-check pipeline-demo spark-cluster pages demo demo-macro demo-twin demo-units test test-all campaigns nightly shuffled coverage lint fmt types pytest bench bench-deps bench-failover bench-growth bench-levers bench-macro bench-native bench-open bench-peers bench-quick bench-report bench-scale bench-secure bench-spark bench-twin bench-units crash-images soak chaos chaos-deps drills lying-disk pair-model example sim sim-steps sim-bugs model model-rules mutants failover interop wheel-check proto proto-check proto-lint proto-release requirements fuzz clean secure-demo hostile deploy-check guard guard-baseline bench-budget flamegraph one-message names crowd

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
	@tools/install_packages.sh etcd

strace: ## see that strace is there for crash images; as root on Debian, install it
	@tools/install_packages.sh strace

demo: $(STAMP) ## start a pair and a witness, kill the master under load, account for every message
	@mkdir -p build/demo
	$(BIN)/tandemq demo

UNITS_DEMO_ARGS ?=
MACRO_DEMO_ARGS ?=
demo-macro: $(STAMP) ## flights by carrier into a macro queue over a pair and a single manager, and out of another one by priority; each manager is killed, a member destroyed, one added: build/demo/macro.json, macro.svg (2 minutes)
	$(BIN)/python -m chaos.macros $(MACRO_DEMO_ARGS)

demo-units: $(STAMP) ## flights in units of work, a cancelled airline, exchanged aircraft, a second pair; masters and a worker are killed; account for every flight: build/demo/units.json, units.svg (4 minutes)
	$(BIN)/python -m chaos.units $(UNITS_DEMO_ARGS)

SECURE_ARGS ?=
secure-demo: $(STAMP) ## a pair with certificates: every call as five principals about every queue, at both members, after a kill and a handoff, beside a model; exchanges under load, impostors; SECURE_HOLE=1: a hole, and it must FAIL: build/secure/summary.json, matrix.html (a minute)
	$(BIN)/python -m chaos.secure $(if $(SECURE_HOLE),--hole) $(SECURE_ARGS)

HOSTILE_ARGS ?=
hostile: $(STAMP) ## hostile inputs, from without and with a certificate, at a pair with TLS, while another client sends; HOSTILE_HOLE=1: a hole, and it must FAIL: build/secure/hostile.json (6 minutes; HOSTILE_ARGS='--only flood': less)
	$(BIN)/python -m chaos.hostile $(if $(HOSTILE_HOLE),--hole) $(HOSTILE_ARGS)

TWIN_DEMO_ARGS ?=
demo-twin: $(STAMP) ## two processes that do the same on flight records; managers and twins are killed, one is away for a third; DIVERGE=1: one differs, and it must FAIL: build/demo/twin.json, twin.svg (1 minute)
	$(BIN)/python -m chaos.twins $(if $(DIVERGE),--diverge) $(TWIN_DEMO_ARGS)

PHASES_ARGS ?=
test: setup ## what must hold before a commit, in phases, with what each took: build/test/phases.json (8 minutes on two cores)
	$(BIN)/python -m tools.phases test --pytest='$(PYTEST_ARGS)' $(PHASES_ARGS)

test-all: setup-all ## all of it: also Spark, browsers, every process test, 3,000 seeds, crash images, the guard (20 minutes on two cores)
	$(BIN)/python -m tools.phases test-all --pytest='$(PYTEST_ARGS)' $(PHASES_ARGS)

campaigns: setup ## more of what `make test-all` has some of, before an issue is resolved: property tests in more examples, the demos of units and macro queues, 10,000 grants (10 minutes)
	$(BIN)/python -m pytest tests/property tests/integration/test_rights_faults.py tests/integration/test_bench_stopped.py \
	  tests/integration/test_demo_macro.py tests/integration/test_demo_units.py tests/unit/chaos/test_crash_images.py -m long -v

nightly: test-all campaigns ## what a night has time for: campaigns, tests in an order of the day, 20,000 seeds, coverage by folder, mutants
	$(MAKE) shuffled SHUFFLE=$$(date +%Y%m%d)
	$(MAKE) sim SEEDS=20000
	$(MAKE) coverage
	$(MAKE) mutants

SHUFFLE ?= 1
shuffled: setup ## the tests that start no process, in an order drawn from SHUFFLE=1, which is the seed of hashes too (8 minutes on two cores)
	PYTHONHASHSEED=$(SHUFFLE) $(BIN)/python -m tools.phases test-all --only computing --only computing-wide \
	  --slow-is-ok --pytest='--shuffle $(SHUFFLE) $(PYTEST_ARGS)'

coverage: $(STAMP) ## lines and branches that the tests of `make test` without processes reach, by folder: exit 1 when one falls
	$(BIN)/python -m tools.covered

setup: $(STAMP) ## install what `make test` needs, as far as this machine lets us: programs of the system, Toxiproxy
	@tools/install_packages.sh etcd strace 'directories?' 'chromium?' 'valgrind?'
	@tools/install_toxiproxy.sh --optional

setup-all: setup ## that, and what `make test-all` needs beside it: PySpark where there is Java 17
	@tools/install_spark.sh $(BIN)/python --optional

directories: ## see that slapd and nsd are there for the tests; as root on Debian, install them
	@tools/install_packages.sh 'directories?'

chromium: ## see that Chromium is there for the tests of pages; as root on Debian, install it
	@tools/install_packages.sh chromium

pages: $(STAMP) chromium ## a drill's report, a campaign's timeline and spoilt pages in a real browser; pictures in build/pages (a minute)
	TANDEMQ_BROWSER_REQUIRED=1 $(BIN)/python -m pytest tests/integration/test_pages.py -v

spark: $(STAMP) ## see that Java 17 is there for the Spark data source; install PySpark and PyArrow (450 MB) beside Tandemq
	@tools/install_spark.sh $(BIN)/python

exactly-once: $(STAMP) spark ## ingest, a copy of a queue, and a queue that is consumed, on executors of their own, each ROUNDS=20 times a kill -9 of driver, JVM, executor, Python worker or master: every row once (a quarter of an hour)
	TANDEMQ_SPARK_REQUIRED=1 $(BIN)/python -m pytest tests/spark/test_exactly_once.py tests/spark/test_exactly_once_queue.py tests/spark/test_exactly_once_consume.py -m long -v -s

pipeline-demo: $(STAMP) spark ## flight records through a pair that loses its master, ingest all the while; audit; planted faults are named (a few minutes)
	$(BIN)/tandemq pipeline demo

CLUSTER_ROUNDS ?= 5
CLUSTER_ARGS ?=
spark-cluster: $(STAMP) spark ## Spark's standalone master and two workers in networks of their own, CLUSTER_ROUNDS=5 times a kill -9 of executor, worker or the pair's master: build/spark-cluster.json; exit 1 when a row is lost or twice, 3 where it cannot run (20 minutes on a crowded machine)
	$(BIN)/python -m tests.spark.cluster --rounds $(CLUSTER_ROUNDS) $(CLUSTER_ARGS)

pipeline-check: $(STAMP) spark ## what of the pipeline takes long: the demo, a trimmed journal, a full disk (as root), and exactly-once (an hour)
	TANDEMQ_SPARK_REQUIRED=1 $(BIN)/python -m pytest tests/spark -m long -v -s

chaos-deps: ## see that Toxiproxy is there for chaos and drills: on the PATH, else built with Go, once for a user, into build/chaos
	@tools/install_toxiproxy.sh

drills: $(STAMP) chaos-deps ## every drill of the library on a pair of its own, and drills that are stopped, cannot heal or meet strangers (7 minutes)
	$(BIN)/python -m pytest tests/integration/test_drill.py tests/integration/test_drill_strangers.py tests/integration/test_drill_stopped.py tests/integration/test_drill_unread.py -m long -v

LYING_ARGS ?=
lying-disk: $(STAMP) ## kill a pair under load, take the last writes of one copy back, start both: build/lying-disk.json; exit 1 when an acknowledged message is gone (5 minutes; LYING_ARGS='--rounds 6 --seed 2': less)
	$(BIN)/python -m chaos.lying $(LYING_ARGS)

CHAOS_SECONDS ?= 180
chaos: $(STAMP) chaos-deps ## faults on real processes through Toxiproxy: a planted bug that must be found, then 14 configurations of CHAOS_SECONDS=180 (an hour)
	$(BIN)/python -m pytest tests/integration/test_chaos.py -m long -v
	$(BIN)/python -m chaos.campaign --seconds $(CHAOS_SECONDS)

pytest: setup ## a part of the tests: PYTEST_ARGS='-n 2 -k takeover'
	$(BIN)/python -m pytest -m 'not long' $(PYTEST_ARGS)

AUDIT_ARGS ?=
audit-check: $(STAMP) spark ## plant each of 58 faults in a lake of real flights, alone and all together; both audits must name it at its place, and clean runs must raise nothing: build/audit-check.json (AUDIT_ARGS="--spark-faults 0": less)
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.audit.run $(AUDIT_ARGS)

audit-same: $(STAMP) ## the audit on Spark and the one in memory say the same of planted faults and of random runs (minutes)
	TANDEMQ_SPARK_REQUIRED=1 $(BIN)/python -m pytest tests/spark/test_audit.py tests/spark/test_bench.py -m 'long or not long' -v

MUTANTS_ARGS ?= --count 60
mutants: $(STAMP) ## small bugs at random in one area after the other, each asked of the tests that reach it, and of 40 seeds: build/mutants-<area>.json; exit 1 when too many live, or one without a line in equivalent.toml (an hour; MUTANTS_ARGS='--count 300')
	for area in machine core failover storage client services; do \
	  $(BIN)/python -m tools.mutants --area $$area --out build/mutants-$$area.json $(MUTANTS_ARGS) || failed=1; \
	done; exit $${failed:-0}

lint: $(STAMP) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fmt: $(STAMP) ## rewrite the sources in the agreed format
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

bench: $(STAMP) ## a pair beside the floor of the same stack: build/bench/bench.json (4 minutes)
	@test -f bench/run.py || { echo "bench: bench/run.py does not exist yet" >&2; exit 1; }
	$(BIN)/python bench/run.py

bench-failover: $(STAMP) ## how long a producer waits when its master dies, freezes, is cut off or hands over: build/bench/failover.json (5 minutes)
	$(BIN)/python bench/failover.py

bench-scale: $(STAMP) ## 10,000 queues, a million queued messages, 10,000 senders that wait: what they cost; 3,000,000 messages copied anew: how long a producer waits (25 minutes)
	$(BIN)/python bench/scale.py

bench-deps: $(STAMP) ## obtain the peers and their load tools: packages as root on Debian, newer ones in a root of the newest stable Debian (once, minutes), NATS through Go, Artemis and PerfTest through Maven, Python clients
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= tools/install_peers.sh $(abspath $(BIN))/python

guard: $(STAMP) ## instructions and system calls of the path of a message, beside bench/results/guard.json and guard_calls.json: exit 1 when a figure is 10 % worse, 5 % for large messages (45 s; needs valgrind, strace, root)
	@tools/install_packages.sh $(if $(filter --optional,$(GUARD_ARGS)),'valgrind?' 'strace?',valgrind strace)
	$(BIN)/python -m bench.guard.run $(GUARD_ARGS)
	$(BIN)/python -m bench.guard.calls $(filter --optional,$(GUARD_ARGS)) $(CALLS_ARGS)

guard-baseline: $(STAMP) ## make what is counted now the baseline; the commit says why it changes
	@tools/install_packages.sh valgrind strace
	$(BIN)/python -m bench.guard.run --write
	$(BIN)/python -m bench.guard.calls --write

one-message: $(STAMP) ## where one message goes: system calls, wake-ups and microseconds of each process, before, now and at the floor; writes docs/ONE_MESSAGE.md (1 minute; needs strace, root)
	@tools/install_packages.sh strace
	PYTHONPATH="$(CURDIR)/bench:$(CURDIR)" $(BIN)/python -m bench.guard.one_message $(ONE_ARGS)

PEERS_RUN = PATH="$$PATH:/usr/sbin:/sbin" PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.peers.run
PEERS_ARGS ?=

bench-quick: $(STAMP) ## ours, the floor, Redis and RabbitMQ quorum in one run: build/bench/quick.json (under 3 minutes)
	$(PEERS_RUN) --quick $(PEERS_ARGS)

bench-peers: $(STAMP) ## everything that is installed, three times: build/bench/peers.json (PEERS_ARGS='--peers redis --runs 1': less)
	$(PEERS_RUN) $(PEERS_ARGS)

bench-open: $(STAMP) ## open loops at four rates from one and fifty producers, ours, Redis, RabbitMQ quorum, NATS, PostgreSQL, Valkey, older versions: build/bench/open.json (25 minutes; PEERS_ARGS='--producers 10': other numbers)
	$(PEERS_RUN) --open $(PEERS_ARGS)

SPARK_ARGS ?=
bench-spark: $(STAMP) ## reading a pair with Spark, whole and as a bounded stream, the master beside it, the audit of 1, 5 and 20 million rows: build/bench/spark.json (SPARK_ARGS='--share 0.01': tiny)
	@tools/install_spark.sh $(BIN)/python
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.spark_read $(SPARK_ARGS)

NATIVE_ARGS ?=
bench-native: $(STAMP) ## every peer with its vendor's load tool, ours beside them: build/bench/native.json (NATIVE_ARGS='--peers nats --runs 1': less)
	PATH="$$PATH:/usr/sbin:/sbin" PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.native.run $(NATIVE_ARGS)

UNITS_ARGS ?=
bench-units: $(STAMP) ## what units, reactions and links cost beside plain messages and PostgreSQL with a synchronous standby, in turns: build/bench/units.json (10 minutes; UNITS_ARGS='--quick': tiny)
	PATH="$$PATH:/usr/sbin:/sbin" PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.units.run $(UNITS_ARGS)

TWIN_ARGS ?=
bench-twin: $(STAMP) ## what queues with sides and twins cost beside plain ones, how soon a twin takes over, how fast one replays: build/bench/twin.json (10 minutes; TWIN_ARGS='--quick': tiny)
	PATH="$$PATH:/usr/sbin:/sbin" PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.twins.run $(TWIN_ARGS)

MACRO_ARGS ?=
bench-macro: $(STAMP) ## what macro queues over 8 and over 1,000 members cost beside a plain queue, in turns: build/bench/macro.json (4 minutes; MACRO_ARGS='--quick': tiny)
	PATH="$$PATH:/usr/sbin:/sbin" PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.macros.run $(MACRO_ARGS)

SECURE_BENCH_ARGS ?=
bench-secure: $(STAMP) ## what certificates, rights and quotas cost beside a plain pair, in turns, and a takeover with 100 clients: build/bench/secure.json (4 minutes; SECURE_BENCH_ARGS='--quick': tiny)
	PATH="$$PATH:/usr/sbin:/sbin" PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.secure.run $(SECURE_BENCH_ARGS)

LEVERS_ARGS ?=
bench-levers: $(STAMP) strace ## what small batches, short commits and gRPC's event engine are worth, on and off in turns: build/bench/levers.json (under 5 minutes; LEVERS_ARGS="--runs 1": less)
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.levers.run $(LEVERS_ARGS)

GROWTH_ARGS ?=
bench-growth: $(STAMP) strace ## cost per message against depth, queues, producers, payload; open loops, faults: build/bench/growth.json (GROWTH_ARGS=--deep: ten million too)
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.growth.run $(GROWTH_ARGS)

BUDGET_RUN = @tools/install_py_spy.sh $(BIN)/python && PYTHONPATH="$(CURDIR):$(CURDIR)/bench" $(BIN)/python -m bench.budget.run
BUDGET_ARGS ?=

bench-budget: $(STAMP) ## where the time of a message goes, ours beside the floor: build/bench/budget.json (2 minutes)
	$(BUDGET_RUN) $(BUDGET_ARGS)

flamegraph: $(STAMP) ## where the master is under pipelined load: docs/img/flame-master.svg (half a minute)
	$(BUDGET_RUN) --only enqueue --runs 1 --seconds 15 --flame docs/img/flame-master.svg

bench-report: $(STAMP) ## plots and tables in README and docs/PERFORMANCE.md from bench/results (TAKE=build/bench/peers.json, bench.json, failover.json, open.json, native.json, growth.json, levers.json or budget.json: put that there first)
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m bench.shown $(if $(TAKE),--take $(TAKE))

model: $(STAMP) ## every order of steps of a pair inside a bound, over the real tables: states, steps, violations (minutes)
	$(BIN)/python -m chaos.sim.model

model-rules: $(STAMP) ## take each rule of the pair out and see that the exhaustive model, or what is named, misses it
	$(BIN)/python -m chaos.sim.model --rules

failover: $(STAMP) ## twenty kills, twenty handoffs, faults of every kind in a row, every way of a client, a disk that hangs (4 minutes; needs strace)
	$(BIN)/python -m pytest tests/integration/test_series.py tests/integration/test_hung_disk.py tests/client_suite -m long -v

crash-images: $(STAMP) strace ## cut the power at every write of a real store; open what is left (half a minute; IMAGES=10000: more)
	$(BIN)/python -m chaos.sim.images $(if $(IMAGES),--images $(IMAGES))

soak: $(STAMP) ## random kills and pauses of real members under load (4 minutes)
	$(BIN)/python -m pytest tests/integration/test_soak.py -m long -v

CROWD_ARGS ?=
crowd: $(STAMP) ## silent connections, floods and 10,000 idle consumers at a pair: build/crowd.json (CROWD_ARGS='--only silent,floods': less)
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m chaos.crowd $(CROWD_ARGS)

pair-model: $(STAMP) ## 10,000 random operations at a pair of real processes, with faults, against the list model (SEED=1, STEPS=10000; an hour)
	SEED=$(or $(SEED),1) STEPS=$(or $(STEPS),10000) $(BIN)/python -m pytest tests/integration/test_pair_model.py -m long -v

SEEDS ?= 3000
TWIN_SEEDS ?= 150

sim: $(STAMP) ## whole pairs in one process on virtual time, SEEDS=3000 runs of them (about four minutes), and TWIN_SEEDS=150 of twins (one)
	$(BIN)/python -m chaos.sim campaign --seeds $(SEEDS)
	$(BIN)/python -m chaos.sim campaign --profiles twins --seeds $(TWIN_SEEDS)

sim-steps: $(STAMP) ## every pair of faults at every pair of steps of a promotion and a handoff, and all rows (10 minutes)
	$(BIN)/python -m pytest tests/sim/test_rows.py tests/sim/test_steps.py -m long -v

sim-bugs: $(STAMP) ## plant each known bug and see that the simulator finds it within its budget; name rules no run shows
	$(BIN)/python -m chaos.sim bugs

interop: $(STAMP) ## four scripts by clients in Go, Java, Node and Rust, over kills of master and replica and a handoff (CLIENTS="go rust": only these)
	$(BIN)/python -m tests.interop.run $(CLIENTS)

names: $(STAMP) etcd ## names of witness, etcd, members that get another address, in a network of its own with a DNS server: how soon they are found (2 minutes)
	$(BIN)/python -m pytest tests/integration/test_names.py -m long -v -s

requirements: $(STAMP) ## print what was asked for, R001 to R235, and the tests that show each (Markdown)
	@$(BIN)/python -m tests.support.requirements_table

deploy-check: $(STAMP) ## what deploy/ ships, by systemd-analyze, schemas, promtool, HAProxy, and a Prometheus at a live pair (CHECKS=systemd: only this; a minute)
	$(BIN)/python -m tests.deploy.check $(CHECKS)

wheel-check: $(STAMP) ## build wheel and sdist, install the wheel alone elsewhere, look at what landed (DEMO=1: run the demo too)
	$(BIN)/python tools/wheel_check.py $(if $(DEMO),--demo)

example: $(STAMP) chaos-deps ## the example project's tests in a new environment with only wheel and pytest, and the plugin's long tests (3 minutes)
	$(BIN)/python tools/example_check.py
	$(BIN)/python -m pytest tests/integration/test_pytest_plugin*.py tests/integration/test_example_project.py -m long -v

blocking: $(STAMP) ## write the calls that the blocking client shares with the asyncio one
	$(BIN)/python tools/gen_blocking.py write

blocking-check: $(STAMP) ## fail if the committed calls are not what the asyncio client says
	$(BIN)/python tools/gen_blocking.py check

modules: ## write docs/MODULES.md, one line a module, from the docstrings
	$(PYTHON) tools/module_map.py write

proto: ## write the stubs from proto/ into tandemq/
	$(PYTHON) tools/gen_proto.py write

proto-check: ## fail if the committed stubs are not what proto/ says
	$(PYTHON) tools/gen_proto.py check

proto-lint: $(STAMP) ## buf lint, and buf breaking against what was released
	@PATH="$(abspath $(BIN)):$$PATH" tools/proto_lint.sh

proto-release: $(STAMP) ## make proto/released.binpb the contract that later changes must not break
	$(BIN)/buf build --output proto/released.binpb

SECONDS ?= 5
fuzz: $(STAMP) ## every fuzz target (SECONDS=5 each, ENGINE=atheris|hypothesis, TARGET=wire): exit 1 and the input on a crash
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(ENGINE),--engine $(ENGINE)) $(if $(TARGET),--target $(TARGET))

clean: ## remove what builds and runs left behind (environments stay)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
