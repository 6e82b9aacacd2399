# `make` lists the verbs. Each works on a machine that has only Python >= 3.11, pip, a C compiler and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export FLWR_TELEMETRY_ENABLED := 0
export FLWR_DISABLE_UPDATE_CHECK := 1
export RAY_USAGE_STATS_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help demo federation test test-portable test-federation test-browser test-slow fuzz soak mutants check format docs dist bench-filter bench-rules bench-agreement bench-memmap bench-gauntlet bench-simulator bench-training \
	bench-convex bench-flower bench-compare theory clean

help:  ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

demo: $(VENV)/installed  ## train digits with 20 % Byzantine clients: mean against RAGE, side by side
	@$(BIN)/steadfed demo

federation: $(VENV)/installed-flower  ## a real federation: SuperLink, 5 SuperNodes, TLS, keys; one node is Byzantine and is removed
	@PATH="$(CURDIR)/$(BIN):$$PATH"; folder=build/federation; \
	stop() { trap '' INT TERM; steadfed federation down --folder $$folder; }; \
	trap 'stop; exit 130' INT TERM; \
	rm -rf build/federation-run; \
	steadfed federation up --nodes 5 --byzantine 4=sign-flip --folder $$folder && \
	steadfed federation run examples/flower-federation --set rounds=3 --out build/federation-run --folder $$folder && \
	steadfed audit build/federation-run; \
	code=$$?; stop; exit $$code

test: $(VENV)/installed-dev  ## run the test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-portable: $(VENV)/installed-dev  ## run the tests of bits, solvers and printed figures under every instruction set of this CPU
	$(BIN)/python -m tests.portable

test-federation: $(VENV)/installed-dev  ## run the tests with real SuperLinks, SuperNodes and nginx (Debian's package, installed if missing) on loopback
	PATH="$$PATH:/usr/sbin" command -v nginx >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends nginx-light; }
	$(BIN)/python -m pytest -n 2 -m 'federation and not slow' tests/deploy tests/flower/integration

test-browser: $(VENV)/installed-dev  ## run the tests of pages in a headless Chromium (Debian's package, installed if missing)
	command -v chromium >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium; }
	$(BIN)/python -m pytest -n 2 --dist worksteal -m browser tests/browser

test-slow: $(VENV)/installed-dev  ## run the full grids: theorems, every malformed reply at every position and on the real engine
	$(BIN)/python -m pytest -n 2 -m slow

fuzz: $(VENV)/installed-fuzz  ## play every decoder of foreign bytes with coverage, MINUTES=5 each (all: three hours; NAMES="reply npy-array" for some)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),5) $(NAMES)

soak: $(VENV)/installed-dev  ## disturb a federation for MINUTES=30: kills, bad lines, a hostile node; nothing may be lost
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),0)

mutants: $(VENV)/installed-dev  ## make small mistakes in the code that everything rests on: do the tests notice? (30 min; resumable)
	$(BIN)/python -m tests.mutants --jobs 2

check: $(VENV)/installed-dev  ## lint, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed-dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed-dev  ## write the generated pages, then build the documentation site into build/site
	$(BIN)/python -m steadfed._cli.reference docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site
	@echo "the site is build/site/index.html"

dist: $(VENV)/installed-dev  ## build/dist: source distribution, and a wheel of it; HOME_URL=https://… is where links lead
	rm -rf build/dist
	STEADFED_HOME=$(HOME_URL) $(BIN)/python -m build --quiet --outdir build/dist

bench-filter: $(VENV)/installed-bench  ## time and memory of the filter against its peers
	$(BIN)/python -m benchmarks.filter
	$(BIN)/python -m benchmarks.passes

bench-rules: $(VENV)/installed-bench  ## time of every rule that a peer has too, against the peer
	$(BIN)/python -m benchmarks.rules

bench-agreement: $(VENV)/installed-bench  ## values of rules and attacks against the peers' own
	$(BIN)/python -m benchmarks.agreement

bench-memmap: $(VENV)/installed-bench  ## filter a 12 GB matrix on disk (needs the disk space)
	$(BIN)/python -m benchmarks.memmap

bench-gauntlet: $(VENV)/installed  ## every rule against every attack (hours; resumable), records in benchmarks/results
	$(BIN)/steadfed gauntlet --preset full --jobs 2 --out benchmarks/results/gauntlet.jsonl

bench-simulator: $(VENV)/installed-bench  ## rounds per second against a plain loop and byzfl
	$(BIN)/python -m benchmarks.simulator

bench-training: $(VENV)/installed  ## accuracy of rules under attacks (hours; resumable; needs STEADFED_DATA)
	$(BIN)/python -m benchmarks.training

bench-convex: $(VENV)/installed  ## distance to the known minimum on a9a (needs STEADFED_DATA)
	$(BIN)/python -m benchmarks.convex

bench-flower: $(VENV)/installed-bench  ## what one bad client does to Flower's strategies and to steadfed's; their cost
	$(BIN)/python -m benchmarks.flower bad-client
	$(BIN)/python -m benchmarks.flower deployed
	$(BIN)/python -m benchmarks.flower cost

bench-compare: $(VENV)/installed  ## the grids quick (4 min), few-sites (25 min), reach (10 min), bucketing with a small network (30 min) and, for an hour beyond what is in results, bucketing itself (four need STEADFED_DATA): results and pages
	$(BIN)/steadfed compare quick --out build/compare-quick
	$(BIN)/steadfed compare benchmarks/few-sites.toml --out build/few-sites
	$(BIN)/steadfed compare benchmarks/reach.toml --out build/reach
	$(BIN)/steadfed compare benchmarks/bucketing.toml --out build/bucketing-small
	mkdir -p build/compare-bucketing && cp -n benchmarks/results/compare-bucketing/results.parquet build/compare-bucketing || true
	$(BIN)/steadfed compare bucketing --minutes 60 --out build/compare-bucketing
	for name in compare-quick few-sites reach bucketing-small compare-bucketing; do \
		mkdir -p benchmarks/results/$$name && cp build/$$name/results.parquet build/$$name/grid.toml benchmarks/results/$$name && \
		$(BIN)/steadfed report build/$$name --out benchmarks/results/$$name/report.html; done
	$(BIN)/python -m benchmarks.few_sites
	$(BIN)/python -m benchmarks.reach

theory: $(VENV)/installed  ## the theorems against measured runs: tables and figures under docs/theory (30 min; resumable)
	$(BIN)/python -m benchmarks.theory

clean:  ## remove the environment and all caches
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[plot,report,compare,ui]'
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[plot,report,compare,ui,ray,tensorboard,mlflow,docs,flower,dev]'
	touch $@

$(VENV)/installed-fuzz: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --editable '.[fuzz]'
	touch $@

$(VENV)/installed-flower: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[plot,report,compare,ui,flower]'
	touch $@

$(VENV)/installed-bench: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[plot,report,compare,ui,flower,bench]'
	$(BIN)/pip install --quiet --no-deps byzfl==0.0.11 torchjd==0.18.0
	touch $@
