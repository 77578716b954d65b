# Rowmill: `make` alone lists what there is to make. Every target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# The report's page is tested in Chromium. Installed where that may be done unasked; elsewhere those tests are skipped.
BROWSER := command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	timeout 300 sh -c 'apt-get update && apt-get install -y --no-install-recommends chromium' >/dev/null 2>&1; } || true

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench docs clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): requirements.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY) ## race the stock DataLoader against Rowmill, train with both, draw the result
	$(BIN)/python -m rowmill.tools.demo --output demo-output

test: $(READY) ## run all tests
	@$(BROWSER)
	$(BIN)/python -m pytest

lint: $(READY) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## measure against peers; rewrite the README's table and picture
	$(BIN)/python benchmarks/run.py

docs: $(READY) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove the environment and everything generated
	rm -rf $(VENV) site demo-output .pytest_cache .mypy_cache .ruff_cache
