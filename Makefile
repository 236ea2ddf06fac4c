# `make serve` and `make test` need nothing but Python 3.11+ and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONFIG ?= config.yaml
PORT ?= 4000

# Processes of pytest. Its compiled tests stay from run to run, whatever the environment says of bytecode.
JOBS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install serve demo test test-slow test-clients test-cluster test-browser test-torch fuzz coverage check bench bench-speed bench-embeddings bench-relevance bench-tools bench-compression bench-distraction bench-grounding bench-knowledge bench-validation bench-poisoning bench-clash bench-actions-answers bench-claims bench-reflection bench-harmless bench-promise audit sbom lock docs site shots clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t16

# The lock files carry hashes; pip refuses anything else. Done again when a lock file or pyproject.toml changes. What serves comes first, and
# with its progress shown; the tools of tests and checks are added where a target needs them.
$(VENV)/.serves: requirements/all.txt requirements/uv.txt requirements/install.py pyproject.toml setup.py
	@$(PYTHON) -m requirements.install $(VENV)
	@touch $@

$(VENV)/.installed: requirements/dev.txt requirements/uv.txt requirements/install.py pyproject.toml setup.py
	@$(PYTHON) -m requirements.install $(VENV) requirements/dev.txt --editable
	@touch $@

install: $(VENV)/.installed  ## the environment in .venv, from the lock file

serve: $(VENV)/.serves  ## install and start the proxy with config.yaml
	@$(BIN)/groundwire fetch-model
	@$(BIN)/groundwire serve --config $(CONFIG) --port $(PORT)

demo: $(VENV)/.serves  ## install and take the guided tour: five prepared exchanges without a key, then the dashboard
	@$(BIN)/groundwire demo --port $(PORT)

test: $(VENV)/.installed  ## the tests that need neither a key nor a minute: all of the logic
	$(PYTEST) -m "not slow and not process and not postgres and not cost and not scale and not clients and not browser and not cluster"

SLOW ?= slow or process or postgres or cost or scale

test-slow: $(VENV)/.installed  ## the others: processes, PostgreSQL, real models, litellm, scenarios in APIs but chat, the cost of hostile input (but the clients')
	@$(BIN)/groundwire fetch-model
	$(PYTEST) -m "($(SLOW)) and not clients and not browser and not cluster" $(TESTS)

coverage: $(VENV)/.installed  ## lines and branches of proxy/ that the tests of test and test-slow reach, with CI's examples
	@$(BIN)/groundwire fetch-model
	HYPOTHESIS_PROFILE=ci $(BIN)/coverage run -m pytest -n $(JOBS) --dist worksteal -m "not cost and not scale and not clients and not browser and not cluster"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test-clients: $(VENV)/.installed $(VENV)/.clients  ## real client libraries against the running proxy
	@$(BIN)/groundwire fetch-model
	$(BIN)/python -m pytest -m clients tests/clients

# Client libraries live in an environment of their own: their pins are not the proxy's, and aider's are nobody else's.
$(VENV)/.clients: requirements/clients.txt tests/clients/aider.txt tests/clients/node/package-lock.json
	@$(PYTHON) -m requirements.install $(VENV)-clients requirements/clients.txt
	@$(PYTHON) -m requirements.install $(VENV)-aider tests/clients/aider.txt || { rm -rf $(VENV)-aider; echo "aider cannot be installed here (it wants a Python below 3.13): its tests will be skipped"; }
	@if command -v npm >/dev/null; then npm ci --prefix tests/clients/node --loglevel=error --no-fund --no-audit; \
	else echo "no npm here: the tests of node clients and of agents of the command line will be skipped"; fi
	touch $@

# Runs with a fault (twelve have one of each kind), and minutes of the soak; `python -m tests.cluster` takes more.
SEEDS ?= 12
SOAK ?= 1

test-cluster: $(VENV)/.installed  ## two nodes of two workers behind HAProxy, on PostgreSQL behind PgBouncer: scenarios, faults, a short soak
	$(BIN)/python -m pytest -m cluster tests/cluster -rs -s
	$(BIN)/python -m tests.cluster --seeds $(SEEDS) --soak $(SOAK)

test-browser: $(VENV)/.installed tests/browser/node/node_modules/.package-lock.json  ## the dashboard in Chromium (the system's), with screenshots
	$(BIN)/python -m pytest -m browser tests/browser -rs -s

tests/browser/node/node_modules/.package-lock.json: tests/browser/node/package-lock.json
	@if command -v npm >/dev/null; then npm ci --prefix tests/browser/node --loglevel=error --no-fund --no-audit; \
	else echo "no npm here: the tests in a browser will be skipped"; fi

test-torch: $(VENV)/.torch  ## the models of the extra sentence-transformers, with one that a package carries and tiny ones
	$(VENV)-torch/bin/python -m pytest --noconftest -p no:cacheprovider -m slow tests/models/test_embedding_sentence_transformers.py

# torch comes as whichever build the index or a local wheel offers, so it alone is pinned by version and not by hash. Of its 10,000 files few
# are imported: none is compiled before.
TORCH ?= torch==2.13.0
$(VENV)/.torch: $(VENV)/.installed requirements/torch.txt
	@$(PYTHON) -m requirements.install $(VENV)-torch requirements/torch.txt
	$(VENV)-torch/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(TORCH)
	touch $@

# Seconds of fuzzing, all targets together; what it finds lies in tests/data/fuzz.
BUDGET ?= 60

fuzz: $(VENV)/.installed  ## requests, answers, streams, policies, config, text in six scripts: mutated for BUDGET seconds (60)
	$(BIN)/python -m tests.fuzz --seconds $(BUDGET) $(if $(SEED),--seed $(SEED))

check: $(VENV)/.installed  ## ruff, mypy strict, import-linter, generated tables, the rooms' sizes, pins against advisories
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.readme --check
	$(BIN)/python -m tests.size --check
	$(BIN)/python -m requirements.audit

bench: $(VENV)/.installed  ## the measurements behind docs/speed.md
	$(BIN)/python -m benchmarks.tokens
	$(BIN)/python -m benchmarks.records
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.dialects
	$(BIN)/python -m benchmarks.metrics
	$(BIN)/python -m benchmarks.observability

bench-speed: $(VENV)/.installed  ## the hop beside the floor, and beside Portkey and LiteLLM where they are installed; what new content costs, by stage
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.stage_costs

bench-tools: $(VENV)/.installed  ## tool RAG: does it keep the tools that are needed, how sure is it, what does it cost
	$(BIN)/python -m benchmarks.tools

bench-knowledge: $(VENV)/.installed  ## a million facts: time to build and to update, disk, memory, search
	$(BIN)/python -m benchmarks.knowledge

bench-validation: $(VENV)/.installed  ## validation of new context: time per piece, relevance and consistency at their thresholds
	$(BIN)/python -m benchmarks.validation

bench-poisoning: $(VENV)/.installed  ## false statements and hidden instructions kept out of the context: found, false alarms, by type and source
	$(BIN)/python -m benchmarks.poisoning

bench-clash: $(VENV)/.installed  ## statements against earlier ones: clashes found, false alarms, changes of mind, by topic; resolution given detection
	$(BIN)/python -m benchmarks.clash
	$(BIN)/python -m benchmarks.clash_actions
	$(BIN)/python -m benchmarks.clash_latency

bench-actions-answers: $(VENV)/.installed  ## actions on answers: how often a claim that is warned of, redacted or refused is wrong, what of planted errors is found
	$(BIN)/python -m benchmarks.actions_answers

bench-claims: $(VENV)/.installed  ## statements that nothing was made for, through the running proxy: right ones kept, others caught
	$(BIN)/python -m benchmarks.claims

bench-reflection: $(VENV)/.installed  ## failures: found in tool results and in what users say, repeats of a simulated agent, cost of a turn
	$(BIN)/python -m benchmarks.reflection_signals
	$(BIN)/python -m benchmarks.reflection_corrections
	$(BIN)/python -m benchmarks.reflection
	$(BIN)/python -m benchmarks.reflection_store
	$(BIN)/python -m benchmarks.reflection_stage

bench-harmless: $(VENV)/.installed  ## ordinary conversations left alone, harmful ones stopped: every shipped policy, with limits
	$(BIN)/python -m benchmarks.harmless --check
	$(BIN)/python -m benchmarks.harmless --suite unseen
	$(BIN)/python -m benchmarks.harmless --suite made --check

bench-promise: $(VENV)/.installed  ## the same answer right and with one thing wrong: what a client is told of it, with limits
	$(BIN)/python -m benchmarks.promise --check

bench-compression: $(VENV)/.installed  ## what is left of a conversation after compression, how much smaller it is, what it costs
	$(BIN)/python -m benchmarks.compression

bench-distraction: $(VENV)/.installed  ## answers of the built-in model with a distracting history, a window of it, a summary of it
	$(BIN)/python -m benchmarks.distraction

bench-relevance: $(VENV)/.installed  ## does the relevance guard tell passages that help from those that do not
	$(BIN)/python -m benchmarks.relevance

# The models that the built-in one is compared with, in an environment of their own.
PEERS := benchmarks/results/peers/embeddings
$(PEERS)/.installed: requirements/embeddings.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/embeddings.txt
	touch $@

bench-embeddings: $(VENV)/.installed $(PEERS)/.installed  ## embedding models compared: quality, languages, speed, size
	$(BIN)/python -m benchmarks.embeddings

bench-grounding: $(VENV)/.installed $(PEERS)/.installed  ## does the verifier know what a context supports: by source, language, length, whole answers
	$(BIN)/python -m benchmarks.grounding

docs: $(VENV)/.installed  ## write the generated tables and the JSON Schemas anew, and build the site into site/
	$(BIN)/python -m benchmarks.readme
	$(BIN)/python -m docs.schemas
	$(MAKE) site

# TAGS="v0.1.0 v0.2.0" builds the pages of these tags too.
site: $(VENV)-docs/.installed  ## build the pages of docs/ into site/VERSION/, offline, beside earlier versions; a link that leads nowhere is an error
	$(VENV)-docs/bin/python -m docs.versions $(if $(TAGS),--tags $(TAGS))

$(VENV)-docs/.installed: requirements/docs.txt
	@$(PYTHON) -m requirements.install $(VENV)-docs requirements/docs.txt
	@touch $@

shots: $(VENV)/.installed tests/browser/node/node_modules/.package-lock.json  ## the pictures of README and docs, from a real run, and every page in light and dark
	$(BIN)/python -m tests.browser.pictures

audit: $(VENV)/.installed  ## the saved advisories written anew from osv.dev (needs a network), then every pin against them
	$(BIN)/python -m requirements.audit --refresh

sbom: $(VENV)/.installed  ## a bill of materials of dependencies and weights, CycloneDX 1.6: dist/sbom.cdx.json
	$(BIN)/python -m requirements.sbom dist/sbom.cdx.json

LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links

lock:  ## resolve the lock files anew (needs uv)
	$(LOCK) pyproject.toml --extra all -o requirements/all.txt
	$(LOCK) pyproject.toml --extra all --group dev -c requirements/all.txt -o requirements/dev.txt
	$(LOCK) requirements/plain.in -c requirements/all.txt -o requirements/plain.txt
	$(LOCK) requirements/clients.in -o requirements/clients.txt
	$(LOCK) tests/clients/aider.in -o tests/clients/aider.txt
	$(LOCK) requirements/torch.in -c requirements/dev.txt --overrides requirements/without-torch.txt -o requirements/torch.txt
	$(LOCK) requirements/docs.in -o requirements/docs.txt
	$(LOCK) requirements/uv.in -o requirements/uv.txt
	$(LOCK) --no-deps requirements/embeddings.in -c requirements/dev.txt -o requirements/embeddings.txt

clean:  ## remove environments and caches
	rm -rf $(VENV) $(VENV)-clients $(VENV)-aider $(VENV)-docs $(VENV)-torch site build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
