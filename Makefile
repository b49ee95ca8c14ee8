# For a fresh machine with Python 3.11 or newer, pip and make: `make reproduce`, `make test`, `make demo`, `make bench`.

PYTHON ?= python3
BIN := .venv/bin
# One more than there are processors: many tests wait for processes that they have started. These are many, so the
# modules are compiled once, whatever the environment says.
WORKERS = $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

.PHONY: reproduce docs test test-lowest stress demo bench clean
.DELETE_ON_ERROR:

reproduce: .venv/installed  ## every experiment of the paper; leaves results/report.html, and goes on where it was stopped
	$(BIN)/gappletron reproduce --out results

docs: .venv/installed  ## the documentation as a site, without a network: build/site/index.html
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs=2 docs build/site

test:  ## everything that CI runs: linter, types, layers, tests, examples
	@$(MAKE) --jobs=2 .venv/installed .venv-lowest/installed
	$(BIN)/ruff format --check src tests benchmarks docs/*.py
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/mypy
	$(BIN)/lint-imports
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal --doctest-modules src tests
	$(MAKE) test-lowest

test-lowest: .venv-lowest/installed  ## some of the tests with the lowest versions of the dependencies
	NUMBA_CACHE_DIR=.venv-lowest/cache PYTHONPATH=src .venv-lowest/bin/python -m pytest --numprocesses=auto --quiet \
		-p no:cacheprovider tests/kernel/test_spelling.py tests/base/test_progress.py tests/test_lowest.py

stress: .venv/installed  ## long storms of signals, kills, threads, damaged bytes, random calls and fuzzing (about an hour)
	$(BIN)/python tests/stress.py

demo: .venv/installed  ## real data under partial feedback, beside a greedy model: tables and demo/demo.png
	$(BIN)/gappletron demo

bench: .venv-bench/installed  ## ours beside other libraries (an hour); goes on where it was stopped, writes docs/benchmarks.md
	.venv-bench/bin/python -m benchmarks.peers

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up .venv (once, a minute or two) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]'
	@touch $@

.venv-lowest/installed: tests/lowest.txt
	@echo "Setting up .venv-lowest (once, about a minute) ..."
	@$(PYTHON) -m venv --clear .venv-lowest
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/lowest.txt
	@touch $@

.venv-bench/installed: benchmarks/peers.txt pyproject.toml
	@echo "Setting up .venv-bench (once, a minute or two) ..."
	@$(PYTHON) -m venv --clear .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt --editable .
	@touch $@

clean:  ## forget the environment, the caches and what demo drew (results/ stays)
	rm -rf .venv .venv-lowest .venv-bench demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
