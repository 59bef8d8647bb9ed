# Needs only Python >= 3.11, make and git. Everything is installed into .venv: what others made at the versions and by
# the hashes of constraints.txt, then nhalf alone.
#   make demo    the first example of the README, and how one answer of each other command begins
#   make test    lint, types, import floors, tests
#   make fuzz    100,000 damaged inputs and odd options, for an hour or two
#   make bench   speed beside its goals (studies that need data are scripts in tests/bench)
#   make format  let ruff rewrite what it can
#   make docs    the documentation as a site in build/site, to be opened without a network
#   make clean   remove .venv, caches and builds

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --retries 10 install --quiet
OWN := $(PIP) --no-deps --no-build-isolation --editable .

# A virtual environment holds absolute paths: the key makes a moved or copied tree build its own.
KEY := $(shell pwd | cksum | cut -d ' ' -f 1)
VENV := .venv/.made-$(KEY)
CORE := .venv/.core-$(KEY)
DEV := .venv/.dev-$(KEY)

ROOMS := \
  'link 5us 400GB/s --size 16KiB' \
  'collective all-reduce --on h100-sxm --ranks 8' \
  'crossover llama-3.1-70b --on h100-sxm --tp 8' \
  'fit tests/logs/netpipe/netpipe.txt' \
  'plan llama-3.1-70b --on h100-sxm --weights fp8' \
  'simulate all-reduce --on h100-sxm --ranks 8 --size 64KiB' \
  'trace tests/golden/trace/tp2_slow1'

.DEFAULT_GOAL := help
.PHONY: help demo dev test fuzz bench docs format clean python
.DELETE_ON_ERROR:

help:
	@sed -n '3,9s/^#   //p' Makefile

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "nhalf needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1). Do: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }

$(VENV): | python
	@$(PYTHON) -m venv --clear .venv
	@touch $@

# hatchling is among the hashed and is used as it is, so the build too runs at a pinned version.
$(CORE): pyproject.toml constraints-report.txt $(VENV)
	@echo "installing nhalf into .venv"
	@$(PIP) --require-hashes --requirement constraints-report.txt
	@$(OWN)
	@touch $@

$(DEV): pyproject.toml constraints.txt $(VENV)
	@echo "installing nhalf with all extras and the development tools into .venv"
	@$(PIP) --require-hashes --requirement constraints.txt
	@$(OWN)
	@touch $(CORE) $@

demo: $(CORE)
	@$(BIN)/nhalf decode llama-3.1-70b --on h100-sxm --weights fp8 --tp 1,2,4,8,16
	@printf '\nHow the other commands answer, two lines each\n'
	@set -e; for words in $(ROOMS); do \
	  printf '\n$$ nhalf %s\n' "$$words"; $(BIN)/nhalf $$words | sed -n 1,2p; done

dev: $(DEV)

# pytest comes last: its closing lines are the verdict. The test bed measures times, so nothing runs beside it; what it
# skips is told again at the very end.
test: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/testbed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz.campaign --inputs 100000 --workers $(WORKERS)

bench: $(DEV)
	@for study in speed bulk_speed predict_speed plan_speed simulate_speed; do \
	  echo; echo "tests/bench/$$study.py"; PYTHONPATH=. $(BIN)/python tests/bench/$$study.py; done

# The site's generator has a file of pins of its own: no command and no test of nhalf needs it.
SITE := .venv/.site-$(KEY)

$(SITE): constraints-docs.txt $(DEV)
	@echo "installing the site's generator into .venv"
	@$(PIP) --require-hashes --requirement constraints-docs.txt
	@touch $@

docs: $(SITE)
	@$(BIN)/python tools/build_docs.py

format: $(DEV)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
