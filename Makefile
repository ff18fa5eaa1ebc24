# Every command of the project. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
.DEFAULT_GOAL := help
.PHONY: help venv demo test test-unit check format simulate simulate-groups pack-env bench clean require-python require-java

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

require-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	  || { echo "sparklog needs Python 3.10 or newer as '$(PYTHON)'; name another with PYTHON=..." >&2; exit 1; }

require-java:
	@java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' \
	  || { echo "sparklog needs Java 17 or newer on the PATH for Spark" >&2; exit 1; }

$(DEV): pyproject.toml | require-python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --upgrade pip
	@$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@

$(BENCH): $(DEV)
	@$(BIN)/python -m pip install -q -e '.[bench]'
	@touch $@

venv: $(DEV) ## set up the virtual environment

demo: require-java $(DEV) ## produce, consume beside it, read with Spark, on local disk
	@$(BIN)/python jobs/demo.py

test: check require-java ## the checks, then all tests
	@$(BIN)/python -m pytest

test-unit: $(DEV) ## only the quick tests
	@$(BIN)/python -m pytest -q tests/unit tests/clients

check: $(DEV) ## ruff and strict mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(DEV) ## bring the code into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

simulate: $(DEV) ## replay a seed of the simulation: make simulate SEED=123
	@$(BIN)/python -m tests.simulation.run --seed $(or $(SEED),0) --count $(or $(COUNT),1)

simulate-groups: $(DEV) ## the same for consumer groups
	@$(BIN)/python -m tests.simulation.group_run --seed $(or $(SEED),0) --count $(or $(COUNT),1)

pack-env: $(DEV) ## pack Python and sparklog for Spark workers that have neither: OUT=...
	@$(BIN)/python -m sparklog.spark.pack_env $(or $(OUT),build/environment.tar.gz)

bench: require-java $(BENCH) ## the benchmarks, with their peers; make bench FULL=1 takes published sizes
	@$(BIN)/python -m bench.run $(if $(FULL),--full)

clean: ## remove what was built
	@rm -rf $(VENV) data bench/results .pytest_cache .mypy_cache .ruff_cache
