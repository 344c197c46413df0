# Two commands do everything: `make lab` (install, build the course, open JupyterLab) and `make test`.
PYTHON ?= python3.11
BIN := .venv/bin
CHAPTER ?= my_work/notebooks/en/00_start_here.ipynb
LAB_ARGS ?=
# pip's extra arguments, e.g. PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" for torch's CPU build
PIP_ARGS ?=
# uv installs, in a third of pip's time and with bars on a terminal; where it can't, pip does. What the shell says to pip
# of an index holds for both. $(call pip_install,ENVIRONMENT,WHAT)
define pip_install
  @{ $(1)/bin/python -m pip install --quiet $(PIP_ARGS) -c constraints.txt uv && \
    $(1)/bin/uv pip install $(QUIETLY) --python $(1)/bin/python --compile-bytecode --index-strategy unsafe-best-match $(PIP_ARGS) $(2); \
  } || $(1)/bin/python -m pip install --quiet $(PIP_ARGS) $(2)
endef
BOTH_PROJECTS := -c constraints.txt -e '.[lab,test]' -e './grader[cluster,passback,test]'
QUIETLY = $(if $(shell test -t 2 && echo bars),,--quiet)
BLANK := $() $()
COMMA := ,
export UV_FIND_LINKS ?= $(subst $(BLANK),$(COMMA),$(PIP_FIND_LINKS))
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
export UV_INDEX ?= $(PIP_EXTRA_INDEX_URL)
# test files run side by side in so many processes: more than there are cores, since many wait for a kernel or a browser;
# PYTEST_ARGS="--pdb -n 0" in one
WORKERS ?= 4
DIST := --dist loadfile --no-loadscope-reorder
# rooms whose tests start no process and need no notebook: all that `make quick` runs, but for what is marked slow
QUICK := $(addprefix tests/library/,words model diagnose picture quiz) tests/house/test_architecture.py \
  $(addprefix grader/tests/,bridge/test_wire.py course/test_intake.py)
BENCHMARKS ?= record op_db autograde crash
ROOT_ARGS := $(if $(filter 0,$(shell id -u)),--allow-root)

unexport PYTHONDONTWRITEBYTECODE  # tests start hundreds of processes; none need compile what another has
unexport VIRTUAL_ENV  # one that the shell has activated isn't the one used here, and IPython warns of two

# what is installed beside each other, what is checked too; a make that this one starts takes part in it
ifeq ($(MAKELEVEL),0)
  MAKEFLAGS += --jobs=2
endif

.DEFAULT_GOAL := help
.PHONY: help install system frontend course lab kit tools site hub dist quick test test-all test-torch test-upstream test-gpu test-libraries \
  test-courses check derived compiled player grade bench clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: .venv/.installed  ## Python packages into .venv
.venv/.installed: pyproject.toml grader/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "seegrad needs $(PYTHON): install Python 3.11, or say make PYTHON=python3"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing Python packages into .venv: minutes, most of them for torch"
	$(call pip_install,.venv,$(BOTH_PROJECTS))
	@touch $@

system:  ## Chromium, by the system's package manager, where it is missing
	@sh tools/system.sh

frontend: frontend/node_modules/.installed  ## TypeScript → seegrad/static
	cd frontend && npm run --silent build
frontend/node_modules/.installed: frontend/package-lock.json
	@echo "fetching what builds the front end into frontend/node_modules, by npm"
	cd frontend && npm ci --loglevel=error --no-audit --no-fund --no-update-notifier
	@touch $@

course: install  ## masters → notebooks, release
	$(BIN)/python -m tools.book build

lab: install frontend  ## JupyterLab on your own copy of the first chapter; LAB_ARGS=--no-browser in a script
	$(BIN)/python -m tools.book build --missing
	$(BIN)/python -m tools.my_work
	$(BIN)/python -m tools.kernels
	@echo "JupyterLab starts; Ctrl-C here ends it"
	$(BIN)/jupyter lab $(ROOT_ARGS) --log-level=ERROR --ServerApp.root_dir='$(CURDIR)' \
	  --LabApp.default_url='/lab/tree/$(CHAPTER)' $(LAB_ARGS)

kit: install frontend  ## what a class receives, in build/kit: no solution, no hidden test
	rm -rf build/kit
	$(BIN)/python -m tools.book student-kit build/kit

check: install  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

derived: install  ## are texts, translations and evidence what their sources make?
	$(BIN)/python -m tools.book --check --unrun
	$(BIN)/python -m tools.words.catalogue --check
	$(BIN)/python -m tools.evidence.seeds --check

compiled: install  # the tests, once, and not by each of the processes that begin together; an error is the run's to tell
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null || true

player: frontend
	cd frontend && npm test --silent

quick: install check  ## two minutes: style, types, the player, the tests of the rooms that are pure
	test ! -d frontend/node_modules || (cd frontend && npm test --silent)
	$(BIN)/python -m pytest -q -m 'not slow' -n $(WORKERS) $(DIST) $(PYTEST_ARGS) $(QUICK)

test: install system compiled check derived player  ## all that a change may break, many cases alike by some of them
	$(BIN)/python -m pytest -n $(WORKERS) $(DIST) --durations=25 $(PYTEST_ARGS)

test-all: export SEEGRAD_TEST_ALL = 1
test-all: tools hub  ## everything: every case, newly drawn examples, every chapter built anew, byte for byte
	$(MAKE) test
	$(BIN)/python -m tools.book --check

tools: install
	$(call pip_install,.venv,-c constraints.txt -e '.[release]' -e './grader[launchers]')

site: install frontend  ## docs, chapters, gallery, errors in two languages, for any static host: build/site
	$(BIN)/python -m tools.site

dist: tools frontend  ## what is published: both packages and the course's kit, in dist/
	rm -rf dist
	$(BIN)/python -m tools.release

grade: install  ## a class of twelve, from submitted/ to CSV and feedback
	$(BIN)/python -m tools.evidence.demo_class build/course

bench: install  ## measurements, printed as ratios; the peers are installed too
	$(call pip_install,.venv,-c constraints.txt -e '.[bench]')
	for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

test-torch: install  ## the library's tests on other torches, some by VERSIONS="2.9 2.15" (gigabytes)
	$(BIN)/python -m tools.evidence.versions $(VERSIONS)

test-upstream: install  ## torch's own tests, recorded: TESTS=FOLDER holds its test files, UPSTREAM_ARGS="--mode nested"
	$(BIN)/python -m tools.upstream $(TESTS) $(UPSTREAM_ARGS)

test-gpu: export SEEGRAD_TEST_ALL = 1
test-gpu: install  ## the corpus and the course on a GPU; fails with a sentence where there is none
	@$(BIN)/python -m tools.kernels --gpu
	$(BIN)/python -m pytest tests/gpu $(PYTEST_ARGS)

test-libraries: build/libraries/.installed  ## programs on real libraries, in build/libraries (gigabytes): PYTEST_ARGS="-k timm"
	build/libraries/bin/python -m pytest -q --confcutdir=tests/libraries -n $(WORKERS) $(PYTEST_ARGS) tests/libraries
build/libraries/.installed: tests/libraries/requirements.txt pyproject.toml constraints.txt
	test -x build/libraries/bin/python || $(PYTHON) -m venv build/libraries
	$(call pip_install,build/libraries,-c constraints.txt -r tests/libraries/requirements.txt -e .)
	@touch $@

# its servers run in other accounts: a Python that these can reach, where the machine has one
HUB_PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3 || echo $(PYTHON))
HUB ?= $(if $(filter 0,$(shell id -u)),/opt/seegrad-hub,build/hub)
hub: $(HUB)/.installed  ## JupyterHub with its proxy, the course and the grader, in HUB=/opt/seegrad-hub (gigabytes): docs/hub.md
	$(HUB)/bin/python -m pip install --quiet $(PIP_ARGS) --no-deps --force-reinstall . ./grader
	$(HUB)/bin/python -m tools.kernels
$(HUB)/.installed: deploy/hub/requirements.txt pyproject.toml grader/pyproject.toml constraints.txt
	test -x $(HUB)/bin/python || $(HUB_PYTHON) -m venv $(HUB)
	@echo "installing into $(HUB): minutes, most of them for torch"
	$(call pip_install,$(HUB),-c constraints.txt '.[lab]' ./grader -r deploy/hub/requirements.txt)
	npm install --loglevel=error --no-fund --prefix $(HUB)/proxy configurable-http-proxy@5
	@touch $@

# other people's courses: nothing of theirs is kept here, and they need packages that this project doesn't
test-courses: build/courses/.installed  ## COURSES="FOLDER …" of somebody's notebooks: stock nbgrader and ours, every row
	build/courses/bin/python -m tools.strangers $(COURSES) $(COURSES_ARGS)
build/courses/.installed: grader/pyproject.toml
	test -x build/courses/bin/python || $(PYTHON) -m venv build/courses
	$(call pip_install,build/courses,-e ./grader pandas scipy seaborn scikit-learn sympy ipywidgets pytest)
	@touch $@

clean:  ## all that was made, the environment too
	rm -rf .venv build dist frontend/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
