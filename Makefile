# Everything runs in .venv, which the first target makes by itself: python3 (3.11 or later) with pip, and make, are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_BENCH := $(VENV)/.ready-bench
READY_DOCS := $(VENV)/.ready-docs

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-isa test-sensitive test-versions release-check lint bench stress gallery docs clean

help: ## show these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

demo: $(READY) ## the star of the paper over 1500 impacts: a table, pictures and a report to open, in out/
	$(BIN)/carom demo --out out

test: $(READY) ## all tests but the slow and the long ones
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not stress"

test-slow: $(READY) ## those that compile for long (tests/slow.txt)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not stress"

stress: $(READY) ## the long tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m stress

test-isa: $(READY) ## all tests under every set of instructions that the processor has
	$(BIN)/python tools/isa.py

test-sensitive: $(READY) ## those that rounding could upset, under two sets of instructions besides the machine's own
	$(BIN)/python tools/isa.py SSE4_2 AVX -- -n 2 --dist worksteal -m "sensitive and not stress"

test-versions: $(READY) ## a smoke test with several versions of Python and JAX, in out/versions
	$(BIN)/python tools/versions.py

release-check: $(BIN)/python ## sdist and wheel, installed into a clean environment, with every extra
	$(BIN)/python tools/release_check.py

lint: $(READY) ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(READY_BENCH) ## the benchmarks, beside other tools: tables and plots, in benchmarks/
	$(BIN)/python -m benchmarks

gallery: $(READY) ## pages to play with, one for each model, in out/gallery; they open from the folder, without a network
	$(BIN)/carom gallery --out out/gallery
	@echo "open out/gallery/index.html"

docs: $(READY_DOCS) ## the site, in site/: pages, gallery, examples, reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean: ## remove what the other targets made
	rm -rf $(VENV) out site build dist .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "carom needs Python 3.11 or later; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Made again whenever the dependencies change; the order-only prerequisite keeps a touched interpreter from reinstalling.
$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(READY_BENCH): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

$(READY_DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@
