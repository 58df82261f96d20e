# Two commands matter: `make test` and `make demo`. Both set up everything they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
EXTRAS := dev,docs,train,clip,sentence-transformers,evaluate,parquet,serve,ray,bench
# When this file is newer than the project's description, the environment is up to date.
READY  := $(VENV)/.ready
# A file's tests stay in one process, so that they share what they prepare.
PARALLEL := -n auto --dist loadfile
comma := ,
# The emoji are npm packages.
NPM = command -v npm >/dev/null || $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[demo]"
# The demos make do with less, if there is no environment yet.
DEMO_READY  := $(VENV)/.ready-demo
TRAIN_READY := $(VENV)/.ready-demo-train

.DEFAULT_GOAL := help
.PHONY: help install test check test-long quick lint types fix demo demo-train docs lock pages wheel torture clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## create .venv and install everything, pinned by constraints.txt

$(READY): pyproject.toml constraints.txt
	$(call set-up,$(EXTRAS))

$(DEMO_READY): pyproject.toml constraints.txt
	$(call set-up,serve)

$(TRAIN_READY): pyproject.toml constraints.txt
	$(call set-up,train$(comma)evaluate$(comma)serve)

# Compiled on all cores: by pip, on one, it would take as long as all the rest. Some packages have files that can't be.
define set-up
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "genius needs Python 3.11 or newer; point to one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "==> setting up $(VENV) (once; needs the package index)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(1)]"
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@
endef

test: install check  ## install if needed, then run every check and test but the long ones

check: lint types  ## the same without installing anything
	@echo "==> pytest"; $(BIN)/python -m pytest $(PARALLEL) -m "not long"

test-long: install  ## run the long tests (killed trainings, every rival), and properties on new examples
	@$(BIN)/python -m pytest $(PARALLEL) -m "long or hypothesis" --hypothesis-profile=explore

quick: install  ## run the tests that neither kill, train nor drive a browser: under two minutes
	@$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not long"

lint:  ## check style and formatting
	@echo "==> ruff";   $(BIN)/ruff check . && $(BIN)/ruff format --check .

types:  ## check types, also those of tests, benchmarks, tools and examples
	@echo "==> mypy";   $(BIN)/mypy --strict src tests benchmarks tools examples

fix:  ## fix what ruff can fix, and regenerate the generated pages
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .
	@$(MAKE) --no-print-directory pages

docs: install pages  ## regenerate the generated pages, build the site into out/site, list licences and known weaknesses
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "the site is in out/site"
	@$(BIN)/python -m tools.supply_chain licences > out/licences.md && echo "licences of all packages are in out/licences.md"
	@$(BIN)/pip-audit -r constraints-hashed.txt --disable-pip --progress-spinner off > out/audit.txt 2>&1; \
	  echo "pip-audit ended with $$?, and could not look up $$(grep -c 'could not be audited' out/audit.txt) packages: out/audit.txt"

lock:  ## write constraints-hashed.txt anew, from constraints.txt and the package index
	@$(BIN)/python -m tools.supply_chain lock

pages:
	@$(BIN)/python tools/cli_reference.py docs/cli.md
	@$(BIN)/python tools/recipe_reference.py docs/recipes.md
	@PYTHONPATH=benchmarks $(BIN)/python -m tools.reliability_page docs/reliability.md
	@$(BIN)/python -m tools.systems_tables docs/reproduce.md

torture: install  ## kills, damage, power loss, hostile requests, counted; BUDGET=minutes, SCALE, JOBS, SCENARIOS, SEED
	@PYTHONPATH=benchmarks $(BIN)/python -m torture $(if $(BUDGET),--budget $(BUDGET)) $(if $(SCALE),--scale $(SCALE)) \
	  $(if $(JOBS),--jobs $(JOBS)) $(if $(SEED),--seed $(SEED)) $(SCENARIOS); \
	  failed=$$?; $(MAKE) --no-print-directory pages; exit $$failed

wheel: install  ## build the wheel into dist/, and beside it a list of what it needs (SBOM)
	@rm -f dist/*.whl dist/*.cdx.json && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@$(BIN)/python -m tools.supply_chain sbom dist

demo: $(if $(wildcard $(READY)),$(READY),$(DEMO_READY))  ## search emoji with the model that ships, in a few minutes and without torch
	@$(NPM)
	@$(BIN)/genius demo

demo-train: $(if $(wildcard $(READY)),$(READY),$(TRAIN_READY))  ## train on emoji of three vendors, measure, search: about 11 minutes
	@$(NPM)
	@$(BIN)/genius demo --train --out out/demo-train

clean:  ## remove what the tools left behind (neither .venv nor out/, where models are)
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
