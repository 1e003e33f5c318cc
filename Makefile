# Two commands do all the set-up: `make demo` and `make test`. Everything lives in .venv and .loam of this folder.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := env -u LOAM_URL -u LOAM_TOKEN
NODE   := cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH"
PYTEST := $(RUN) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m "not faults"
# About half of the tests by their time: they run beside the others, which load engines and browsers.
BESIDE := tests/core tests/house tests/jobs tests/schedules tests/tables tests/tasks tests/server tests/cli

.PHONY: help demo lab test check gen bench cover test-faults test-versions bench-scheduler clean

help:
	@echo "make demo         the first notebook, executed on real data, its results printed"
	@echo "make lab          JupyterLab on the notebooks"
	@echo "make test         all tests and checks (what CI runs)"
	@echo "make check        static checks only: ruff, mypy, import-linter, generated code"
	@echo "make test-faults  the long fault runs"
	@echo "make test-versions  the core's tests on each of Python 3.11 to 3.13 that is here"
	@echo "make cover        every branch of core and store is run by a test"
	@echo "make bench        the benchmarks of docs/benchmarks.md"
	@echo "make bench-scheduler  notebooks as jobs, beside jupyter-scheduler"
	@echo "make gen          generate the contract's code again"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "loam-lab needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || uv venv --seed -q -p $(PYTHON) $(VENV) || \
	  { rm -rf $(VENV); echo "no virtual environment can be made: install the package python3-venv (Debian, Ubuntu), or uv"; exit 1; }

# The stamps: an environment is brought up to date when pyproject.toml changes, the front end when its sources do.
FRONT := pyproject.toml hatch_build.py labextension/package.json labextension/yarn.lock $(shell find labextension/src labextension/style labextension/schema -type f)

# The demo has no use for the front end: neither Node nor npm's registry is needed.
$(VENV)/.demo: $(BIN)/python pyproject.toml
	LOAM_LAB_FRONT_END=skip $(BIN)/python -m pip install -q -e '.[local,demo]'
	@touch $@

$(VENV)/.lab: $(VENV)/.demo $(FRONT)
	$(BIN)/python -m pip install -q -e '.[local,demo]'
	@touch $@

$(VENV)/.test: $(BIN)/python $(FRONT)
	$(BIN)/python -m pip install -q -e '.[test,check]'
	@touch $(VENV)/.demo $(VENV)/.lab $@

# Debian's browser for the tests of the pages.
.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update && \
	    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; } || \
	  { echo "the browser tests need chromium: apt-get install -y --no-install-recommends chromium (as root)"; exit 1; }

demo: $(VENV)/.demo
	$(RUN) LOAM_HOME="$(CURDIR)/.loam/demo" $(BIN)/python notebooks/demo.py

lab: $(VENV)/.lab
	$(RUN) LOAM_HOME="$(CURDIR)/.loam/lab" $(BIN)/jupyter lab --ip=127.0.0.1 --notebook-dir=notebooks notebooks/01_first_run.ipynb

test: check chromium
	@mkdir -p .loam && rm -f .loam/beside.log
	@$(PYTEST) $(BESIDE) >.loam/beside.log 2>&1 & beside=$$!; \
	  $(PYTEST) $(BESIDE:%=--ignore=%); others=$$?; \
	  wait $$beside; beside=$$?; echo; echo "== $(BESIDE)"; cat .loam/beside.log; exit $$((beside ? beside : others))

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/house/generated.py
	$(NODE) jlpm check
	$(NODE) jlpm test

gen: $(VENV)/.test
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/buf generate
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/buf generate --template labextension/buf.gen.yaml
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/house/generated.py --write

test-faults: $(VENV)/.test
	$(RUN) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m faults --timeout 3600

# Not part of `make test`: it runs those tests a second time, traced (three minutes of one core).
cover: $(VENV)/.test
	$(RUN) $(BIN)/coverage run -m pytest -m "not faults" tests/jobs tests/core tests/schedules tests/tasks/test_rules.py tests/server/test_parked.py tests/server/test_fresh.py \
	  --deselect tests/jobs/test_mutants.py --ignore tests/schedules/test_real.py
	$(BIN)/coverage report

# The rules of the core on each interpreter that is here; the whole suite runs on one.
test-versions:
	@for version in 3.11 3.12 3.13; do \
	  if python$$version -c '' 2>/dev/null; then \
	    echo "== python$$version"; \
	    python$$version -m venv .venv-$$version && .venv-$$version/bin/python -m pip install -q -e '.[test]' && \
	    $(RUN) .venv-$$version/bin/python -m pytest -m "not faults" tests/core tests/jobs tests/house || exit 1; \
	  else echo "== python$$version is not here"; fi; \
	done

# Beside jupyter-scheduler, which is installed for this alone.
bench-scheduler: $(VENV)/.test
	$(BIN)/python -m pip install -q -e '.[bench]'
	$(RUN) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.bench scheduler

bench: $(VENV)/.test
	$(RUN) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) .venv-3.* .loam build dist
