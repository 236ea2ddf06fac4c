# `make serve` and `make test` need nothing but Python 3.11+ and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONFIG ?= config.yaml
PORT ?= 4000

.DEFAULT_GOAL := help
.PHONY: help install serve test test-slow test-clients check bench lock docs clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t16

# The lock files carry hashes; pip refuses anything else. Done again when a lock file or pyproject.toml changes.
$(VENV)/.installed: requirements/dev.txt pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

install: $(VENV)/.installed  ## the environment in .venv, from the lock file

serve: $(VENV)/.installed  ## install and start the proxy with config.yaml
	@$(BIN)/groundwire fetch-model
	@$(BIN)/groundwire serve --config $(CONFIG) --port $(PORT)

test: $(VENV)/.installed  ## the tests that need no key (without the marks slow and clients)
	$(BIN)/python -m pytest -m "not slow and not clients"

test-slow: $(VENV)/.installed  ## the tests that load real models or litellm (but the clients')
	@$(BIN)/groundwire fetch-model
	$(BIN)/python -m pytest -m "slow and not clients"

test-clients: $(VENV)/.installed $(VENV)/.clients  ## real client libraries against the running proxy
	@$(BIN)/groundwire fetch-model
	$(BIN)/python -m pytest -m clients

# Client libraries live in an environment of their own: their pins are not the proxy's.
$(VENV)/.clients: requirements/clients.txt tests/clients/node/package-lock.json
	$(PYTHON) -m venv $(VENV)-clients
	$(VENV)-clients/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/clients.txt
	@if command -v npm >/dev/null; then npm ci --prefix tests/clients/node --loglevel=error --no-fund --no-audit; \
	else echo "no npm here: the tests of openai-node will be skipped"; fi
	touch $@

check: $(VENV)/.installed  ## ruff, mypy strict, import-linter, README tables
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.readme --check

bench: $(VENV)/.installed  ## the measurements behind the README's numbers
	$(BIN)/python -m benchmarks.tokens
	$(BIN)/python -m benchmarks.records
	$(BIN)/python -m benchmarks.overhead

docs: $(VENV)/.installed  ## write the README's generated tables anew
	$(BIN)/python -m benchmarks.readme

LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links

lock:  ## resolve the lock files anew (needs uv)
	$(LOCK) pyproject.toml --extra local --extra postgres -o requirements/all.txt
	$(LOCK) pyproject.toml --extra local --extra postgres --group dev -c requirements/all.txt -o requirements/dev.txt
	$(LOCK) requirements/clients.in -o requirements/clients.txt

clean:  ## remove environments and caches
	rm -rf $(VENV) $(VENV)-clients build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
