PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Extra words for pytest, e.g. make test PYTEST="-k federation".
PYTEST ?=
# Where `make site` serves the documentation.
PORT ?= 8000

.PHONY: demo test pytest lint style types typed format bench docs site readme submissions notebooks clean help

help:
	@echo "make demo    the four schemes on the paper's small instance: scoreboards, plot, report"
	@echo "make test    lint, types and all tests"
	@echo "make bench   speed and memory, as ratios against a stated yardstick"
	@echo "make lint    ruff and mypy        make format   ruff format"
	@echo "make docs    build the documentation site into site/    make site   serve it on this machine"
	@echo "make readme  fill the generated parts of the README    make notebooks   run them all, keep outputs"
	@echo "make submissions   play the reference submissions of the leaderboard (QUICK= for full runs)"

# Errors only: setuptools prints a box of warnings about every editable install.
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Dependency groups need pip 25.1.
$(VENV)/.pip: $(BIN)/python
	$(PIP) --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.core: $(VENV)/.pip pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e ".[all]"
	@touch $@

$(VENV)/.docs: $(VENV)/.pip pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e ".[all]" --group docs
	@touch $@ $(VENV)/.core

# Of torch and its like the tests import a small part: what is not compiled now takes less time then.
$(VENV)/.test: $(VENV)/.pip pyproject.toml constraints.txt
	$(PIP) --no-compile -c constraints.txt -e ".[all,rl,dask,pettingzoo]" --group test --group docs
	@touch $@ $(VENV)/.core $(VENV)/.docs

demo: $(VENV)/.core
	@echo "1. With a verdict: δ = 0.05, where 83 trials without an error are enough for a PASS"
	$(BIN)/clustered-bai compare ClusteredBAI-PaperSmall-v0 --n-agents 30 --delta 0.05 --trials 83 --jobs -1 --out out/demo --quiet --policies naive naive:engine=mixture cl-bai bai-cl bai-cl++
	@echo "2. As in the paper: N = 30, δ = 1e-10, which no simulation can confirm"
	$(BIN)/clustered-bai compare ClusteredBAI-PaperSmall-v0 --n-agents 30 --delta 1e-10 --trials 50 --jobs -1 --out out/demo --quiet
	@echo "3. More agents, and a picture"
	$(BIN)/clustered-bai compare ClusteredBAI-PaperSmall-v0 --n-agents 9 30 100 300 --delta 1e-10 --trials 10 --jobs -1 --out out/demo/agents --quiet
	$(BIN)/clustered-bai show out/demo/agents --plot out/demo/pulls.png
	@echo "4. A report of the boards of 1 and 2, every trial in it"
	$(BIN)/clustered-bai report out/demo -o out/demo/report.html

# mypy runs beside the tests, which leave it a third of two cores.
test: style typed
	$(MAKE) --no-print-directory -j 2 types pytest

# Two workers fill two cores, hence one thread for linear algebra in each. Compiled files are kept, whatever the
# environment says: the tests start hundreds of processes.
pytest: $(VENV)/.test
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST)

lint: style typed types

style: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

# mypy and the site do not follow an editable install into the two mapped folders: they read a built copy. All of build/
# goes first: setuptools would put modules of yesterday into it.
typed: $(VENV)/.pip
	rm -rf build
	$(PIP) --no-deps --target build/typed .

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs typed
	$(BIN)/mkdocs build --strict
	@echo "The site is in site/; make site serves it on this machine"

site: docs
	@echo "http://127.0.0.1:$(PORT)/ (Ctrl-C ends it)"
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site $(PORT)

# The generated parts of the README, from the package and from docs/results.
readme: $(VENV)/.test
	$(BIN)/python docs/make_readme.py

# Reference submissions of every policy that ships; QUICK= makes full runs, an hour on two cores.
QUICK ?= --quick
submissions: $(VENV)/.test
	$(BIN)/python docs/make_submissions.py $(QUICK) --jobs 2 --out submissions/$(if $(QUICK),quick,full)

# Runs all notebooks and keeps their outputs.
notebooks: $(VENV)/.test
	$(BIN)/python docs/make_notebooks.py

clean:
	rm -rf build dist out site .pytest_cache .mypy_cache .ruff_cache *.egg-info
