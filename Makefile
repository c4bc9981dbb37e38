# make demo   starts a job that hangs, attaches to it and says why; then cleans up
# make test   installs what the tests need and passes them all
# A fresh machine needs Python 3.10 or newer with pip, and make.
#
# The jobs need torch. On Linux its default build brings the CUDA libraries along; for the
# much smaller CPU build give pip the index that pytorch.org names for it: make demo TORCH_INDEX=URL

PYTHON ?= python3
TORCH_INDEX ?=
DEMO ?= rank-zero-awaits-metrics
NAMES ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
EXTRA := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

PROFILE = quick
LIVE = live
.PHONY: demo test check fast live smoke hostile wheel site man capture clean
.DEFAULT_GOAL := test

demo: $(VENV)/.demo
	@$(BIN)/whyhang demo $(DEMO)

test: PROFILE = thorough
test: LIVE = live and not variation
test: check fast smoke live

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# `make fast` draws few examples of each property, `make test` many: tests/conftest.py has the numbers
fast: $(VENV)/.dev
	$(BIN)/pytest -q -n auto -m "not live" --hypothesis-profile=$(PROFILE)

# `make test` starts no sample that varies another one (sample.toml: like), `make live` all of them.
# Real jobs on a busy machine may come late to their hang: what fails is run once more, in sight.
live: $(VENV)/.dev
	$(BIN)/pytest -q -n 3 --dist worksteal -m "$(LIVE)" --durations 5 || \
	  { echo "once more, those that failed:"; $(BIN)/pytest -q -m "$(LIVE)" --last-failed; }

# hostile inputs of all kinds, for MINUTES; what goes wrong is kept and named by its seed
hostile: $(VENV)/.dev
	$(BIN)/python tests/hostile.py --minutes $(or $(MINUTES),10)

# builds the wheel, installs it where there is neither torch nor this checkout, and runs it
smoke: wheel
	sh .ci/smoke dist/*.whl $(PYTHON)

wheel: $(VENV)/.dev
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist . >build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log

# the docs as a site, in site/
site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --site-dir site

# the manual page, which the wheel installs, and the picture of a report in the README
man: $(VENV)/.dev
	$(BIN)/python docs/manpage.py
	$(BIN)/python docs/picture.py

# records the bundles of the samples anew: all, or NAMES="a b"
capture: $(VENV)/.dev
	$(BIN)/python -m whyhang.samples.harness.capture $(NAMES)

clean:
	rm -rf $(VENV) build dist site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --constraint constraints.txt $(EXTRA) --editable '.[torch]'
	@touch $@

# mpi4py is for the samples under mpirun; without mpirun they are skipped
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --constraint constraints.txt $(EXTRA) --editable '.[torch,docs,dev]'
	@if command -v mpirun >/dev/null; then $(PIP) mpi4py || echo "no mpi4py: MPI samples skip"; fi
	@touch $@
