# Everything a developer runs. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
VENV_41 := .venv-spark41
VENV_LOWEST := .venv-lowest
VENV_TOOLS := .venv-tools
BIN := $(VENV)/bin
UV := $(VENV_TOOLS)/bin/uv

# Tests are shared out to a process a core; then come those that start Spark, which needs all cores itself. A process
# begins with a share of the files, and takes over what another hasn't begun when it is through.
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN)
SPARK_ROOMS := tests/docs tests/spark
ROOMS := $(wildcard tests/unit tests/format tests/regressions tests/conformance tests/stateful tests/simulation) $(SPARK_ROOMS)
SHORT := not long and not stores and not soak
LONG := long and not stores and not soak
PYTEST := $(BIN)/python -m pytest
SHARED := $(PYTEST) -n $(WORKERS) --dist worksteal
PYTEST_ARGS ?=
BENCH_ARGS ?=

# On which the built wheel is tried, as far as they are on this machine; and on which the lowest versions are.
PYTHONS ?= 3.10 3.11 3.12 3.13
PYTHON_LOWEST ?= 3.10

# How long `make soak` runs: seeds for each simulation, and seconds after which no new seed begins.
SEEDS ?= 1000
TIME ?= 600
TRANSACTIONS ?= 100000

##@ Use

.PHONY: help
help: ## List the commands
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9.-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.firn-packages $(VENV)/.firn-java ## Make .venv with Firn in it, and find or install a Java

$(VENV)/.firn-packages: pyproject.toml scripts/make-venv
	@scripts/make-venv $(VENV) '.[dev]'
	@touch $@

$(VENV)/.firn-java: $(VENV)/.firn-packages scripts/ensure-java
	@scripts/ensure-java $(VENV)
	@touch $@

.PHONY: demo
demo: setup ## Load flights and airports into ./demo-db, change them, query them on Spark
	$(BIN)/firn demo

##@ Check

.PHONY: test
test: setup ## Run all tests that need no service, but for those that take long (seven minutes on two cores)
	$(SHARED) -m '$(SHORT) and not spark' $(PYTEST_ARGS) $(ROOMS)
	$(PYTEST) -m '$(SHORT) and spark' $(PYTEST_ARGS) $(SPARK_ROOMS)

.PHONY: test-long
test-long: setup ## Run the simulations, crash tests, benchmarks and runs of Spark that take long
	$(SHARED) -m '$(LONG) and not spark' $(PYTEST_ARGS) $(ROOMS)
	$(PYTEST) -m '$(LONG) and spark' $(PYTEST_ARGS) $(SPARK_ROOMS)

.PHONY: lint
lint: setup ## Formatting, lints, types, and the direction of imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: check
check: lint test test-long smoke-4.1 ## What CI runs: lint, all tests, and the smoke suite on the oldest Spark

.PHONY: setup-spark41
setup-spark41: $(VENV_41)/.firn-packages $(VENV)/.firn-java

$(VENV_41)/.firn-packages: pyproject.toml scripts/make-venv
	@scripts/make-venv $(VENV_41) '.[spark,testing]' 'pyspark[connect]==4.1.*' 'moto>=5.1' 'pytest>=8.3' 'pytest-timeout>=2.3' 'psutil>=6'
	@touch $@

.PHONY: smoke-4.1
smoke-4.1: setup setup-spark41 ## A few end-to-end tests on PySpark 4.1, the oldest that Firn supports
	$(VENV_41)/bin/python -m pytest tests/spark41 $(PYTEST_ARGS)

# uv, which builds Firn and resolves lowest versions, and what builds the site; none needs Spark or a Java.
$(VENV_TOOLS)/.firn-packages: pyproject.toml scripts/make-venv
	@scripts/make-venv $(VENV_TOOLS) 'uv>=0.13'
	@$(UV) pip install --quiet --python $(VENV_TOOLS)/bin/python --group docs
	@touch $@

$(VENV_LOWEST)/.firn-packages: pyproject.toml $(VENV_TOOLS)/.firn-packages
	@$(UV) venv --quiet --clear --no-project --python $(PYTHON_LOWEST) $(VENV_LOWEST)
	@$(UV) pip install --quiet --resolution lowest-direct --python $(VENV_LOWEST)/bin/python \
	  -e '.[pandas,polars,dynamodb,testing]' 'moto>=5.1' 'pytest>=8.3' 'pytest-timeout>=2.3'
	@touch $@

.PHONY: test-lowest
test-lowest: $(VENV_LOWEST)/.firn-packages ## A few end-to-end tests on the oldest libraries that Firn supports
	$(VENV_LOWEST)/bin/python -m pytest -W default::DeprecationWarning -W default::FutureWarning tests/lowest $(PYTEST_ARGS)

.PHONY: build
build: $(VENV_TOOLS)/.firn-packages ## Build the sdist, and the wheel from it; try the wheel on each Python that is here
	rm -rf dist
	$(UV) build --quiet --out-dir dist
	scripts/check-build $(UV) $(PYTHONS)

.PHONY: test-stores
test-stores: setup ## The suites on a real S3 server and on Azurite (builds both; needs Go and Node)
	$(BIN)/python tests/stores/install.py
	$(PYTEST) -m stores $(PYTEST_ARGS) tests

.PHONY: soak
soak: setup ## Simulate for as long as you like: make soak SEEDS=100000 TIME=3600
	FIRN_SEEDS=$(SEEDS) FIRN_SECONDS=$(TIME) $(PYTEST) -m soak -s $(PYTEST_ARGS) tests/simulation

.PHONY: soak-records
soak-records: setup ## Simulate 100,000 transactions of record tables, or TRANSACTIONS=1000000
	FIRN_TRANSACTIONS=$(TRANSACTIONS) $(PYTEST) -m soak -s $(PYTEST_ARGS) tests/simulation/test_records.py

.PHONY: bench
bench: setup ## Run the programs of bench/ beside their peers; figures go to bench/results
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m bench $(BENCH_ARGS)

##@ Write

.PHONY: format
format: setup ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: docs
docs: setup ## Write docs/reference, the bytes on the format page and the table of costs anew
	$(BIN)/python scripts/write_reference.py
	$(BIN)/python scripts/write_format_examples.py
	$(BIN)/python scripts/write_costs.py

.PHONY: site
site: $(VENV_TOOLS)/.firn-packages ## Build ./site of README, docs and CHANGELOG; broken links fail (needs npm, for Mermaid)
	$(VENV_TOOLS)/bin/python scripts/build_site.py

.PHONY: clean
clean: ## Remove what the commands above made, but for bench/results
	rm -rf $(VENV) $(VENV_41) $(VENV_LOWEST) $(VENV_TOOLS) .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis \
	  build dist site demo-db demo-db-* spark-warehouse
