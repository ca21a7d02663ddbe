# Two commands need nothing but Python >= 3.10 and make:  `make demo`  and  `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

JOBS ?= 3

.PHONY: demo test test-random test-kills lint bench bench-loop bench-model bench-tuner format clean
.DELETE_ON_ERROR:

# Compiled, for where Python may write no bytecode: else each job waits for 35 ms more of it.
$(VENV)/installed: setup.cfg setup.py pyproject.toml $(wildcard native/* native/scan/*)
	$(PYTHON) -c 'import sys; sys.exit("scrtune needs Python >= 3.10, this is " + sys.version) if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[mpich,report]'
	$(BIN)/python -m compileall -q cli client daemon goodput intents replay scr_config
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# mypy and editors do not see through editable installs: give them the package as a path.
build/typing/scrtune:
	mkdir -p build/typing
	ln -sfn ../.. $@

demo: $(VENV)/installed
	$(BIN)/scrtune demo

# A file's tests run on one worker, in the order of the tree: Slurm's nodes and what a module sets up exist once.
# More workers than cores: a third of the time they wait for processes and clocks.
test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# Properties with other examples than ever, and 1,000 of each; what fails prints its @example.
test-random: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m hypothesis --timeout 1200 --hypothesis-profile random

# A job whose daemon is killed 100 times (`make test`: 12 times).
test-kills: $(VENV)/installed-dev
	SCRTUNE_TEST_KILLS=100 $(BIN)/python -m pytest tests/daemon/test_kills.py

lint: $(VENV)/installed-dev build/typing/scrtune
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run_all.py

# The tuner on simulated jobs; JOBS=300 for the tables of docs/tuning.md.
bench-tuner: JOBS = 8
bench-tuner: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.tuner --jobs $(JOBS)

# The cost model against the rows of the LLNL study.
bench-model: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.model_study

# Real jobs alone and tuned against the best of a grid; all of it: make bench-loop LOOP=
LOOP ?= --quick

bench-loop: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.loop $(LOOP)

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
