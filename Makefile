# Rowmill: `make` alone lists what there is to make. Every target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
BUILT  := $(VENV)/.built
READY  := $(VENV)/.ready
NATIVE := CMakeLists.txt $(wildcard src/rowmill/_native/*.cpp src/rowmill/_native/*.hpp)

# Installed where that may be done unasked: on Debian, as root.
APT := test "$$(id -u)" = 0 && command -v apt-get >/dev/null && timeout 300 sh -c 'apt-get update && apt-get install -y --no-install-recommends $$0'

# The report's page is tested in Chromium; without one those tests are skipped.
BROWSER  := command -v chromium >/dev/null || { $(APT) chromium >/dev/null 2>&1; } || true
COMPILER := command -v c++ >/dev/null || { $(APT) g++ >/dev/null 2>&1; } || \
	{ echo "Rowmill is built with a C++17 compiler, and there is none here: install g++ or clang++, then run make again."; exit 1; }

# One process for each core, at most four. Bytecode is kept, for the many child processes.
TEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help build demo test test-all coverage lint format bench docs sanitize clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(VENV)/.demo: requirements-demo.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --requirement requirements-demo.txt
	touch $@

$(BUILT): $(VENV)/.demo pyproject.toml $(NATIVE)
	@$(COMPILER)
	$(PIP) --no-build-isolation --editable .
	touch $@

$(READY): $(BUILT) requirements.txt
	$(PIP) --requirement requirements.txt
	touch $@

build: $(BUILT) ## compile what has changed and install Rowmill into .venv

demo: $(BUILT) ## race the stock DataLoader against Rowmill, train with both, draw the result
	$(BIN)/python -m rowmill.tools.demo --output demo-output

test: $(READY) ## run all tests, what is random a few times
	@$(BROWSER)
	$(TEST)

test-all: $(READY) ## run all tests, what is random thousands of times: takes hours
	@$(BROWSER)
	ROWMILL_THOROUGH=1 ROWMILL_HOSTILE=full $(TEST)

coverage: $(READY) ## run all tests and show which lines of src they run
	@$(BROWSER)
	$(TEST) --cov --cov-report=term:skip-covered

lint: $(READY) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## measure against peers; rewrite docs/benchmarks.md and the README's table
	$(BIN)/python benchmarks/run.py

docs: $(READY) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

sanitize: $(READY) ## test the C++ code with AddressSanitizer and UBSan
	$(BIN)/cmake -S . -B build/sanitize -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
		-DPython_EXECUTABLE=$(abspath $(BIN)/python) -DROWMILL_SANITIZE=ON >/dev/null
	$(BIN)/cmake --build build/sanitize
	$(BIN)/python -m tests.native.sanitized build/sanitize

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build site demo-output .pytest_cache .mypy_cache .ruff_cache src/rowmill/_native/*.so
