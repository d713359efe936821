# The commands that a person types. `make 2010` and `make test` need nothing but Python >= 3.11.1 and make.
# DATA=path  RHO=fraction  OUT=folder  WORKERS=n  (of detailed groups PARAMETERS=folder, too) reach the run;
# VENV=folder  is where the environment lives.
# EXTRAS=test,browser  tests the look-up of the pages in a browser, too.
# UV=  installs with pip also where there is uv, which does it in a tenth of the time and reads no configuration of pip.

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test
UV ?= $(shell command -v uv 2>/dev/null)
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')

DAS := $(VENV)/bin/das
OPTIONS := --workers $(WORKERS) $(if $(DATA),--data $(DATA))
BUDGET := $(if $(RHO),--set budget.rho=$(RHO))
RUN_OUT := $(if $(OUT),--out $(OUT))
STAMP := $(shell date +%Y%m%d-%H%M%S)
RHOS ?= 1/10,1/2,293764/114921,10,50

# `make --jobs=2 test` checks the code while the tests run.
.PHONY: 2010 1940 detailed dhc sweep compare test accept accept-all pytest test-times coverage lint bench reference claims docs docs-links slides notebooks dist environment clean

2010: $(VENV)/.installed
	$(DAS) run configs/pl94-2010.toml $(OPTIONS) $(BUDGET) $(RUN_OUT)

1940: $(VENV)/.installed
	$(DAS) run configs/1940.toml $(OPTIONS) $(BUDGET) $(RUN_OUT)

# Tables of detailed groups. DATA and PARAMETERS: folders as SafeTab-P takes them; simulated ones without DATA.
DETAILED := $(or $(OUT),runs/detailed-$(STAMP))
detailed: $(VENV)/.installed
ifeq ($(DATA),)
	$(DAS) data simulate detailed --out $(DETAILED)-simulated --seed 1 --quiet $(if $(PARAMETERS),--parameters $(PARAMETERS))
	$(DAS) run detailed-dhc --data $(DETAILED)-simulated/data --set data.parameters=$(DETAILED)-simulated/parameters --out $(DETAILED) --workers $(WORKERS)
else
	$(DAS) run detailed-dhc --data $(DATA) --set data.parameters=$(or $(PARAMETERS),$(error DATA is given: give PARAMETERS, too)) --out $(DETAILED) --workers $(WORKERS)
endif

# The DHC on a redistricting release; records are made up to the counts of DATA (a redistricting extract).
DHC := $(or $(OUT),runs/dhc-$(STAMP))
dhc: $(VENV)/.installed
	$(DAS) run configs/pl94-2010.toml $(OPTIONS) $(BUDGET) --out $(DHC)-redistricting
	$(DAS) data simulate dhc --blocks $(or $(DATA),data/pl94_2010) --out $(DHC)-linked --seed 1
	$(DAS) run configs/dhc-2020.toml --set constraints.from=$(DHC)-redistricting --data $(DHC)-linked --workers $(WORKERS) --out $(DHC)

sweep: $(VENV)/.installed
	$(DAS) sweep configs/pl94-2010.toml $(OPTIONS) --rho $(or $(RHO),$(RHOS)) --out $(or $(OUT),runs/sweep-$(STAMP))

compare: $(VENV)/.installed
	$(DAS) run configs/pl94-2010.toml $(OPTIONS) $(BUDGET) --out $(or $(OUT),runs/compare-$(STAMP))
	$(DAS) compare $(or $(OUT),runs/compare-$(STAMP))

ifeq ($(UV),)
BEGIN := $(PYTHON) -m venv $(VENV)
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
else
BEGIN := $(UV) venv --quiet --allow-existing --seed --python $(PYTHON) $(VENV)
INSTALL := $(UV) pip install --quiet --python $(VENV)/bin/python
endif

# The tests start many processes: byte code is kept, or each would make it anew.
pytest test-times coverage: export PYTHONDONTWRITEBYTECODE :=

test: lint pytest

pytest: $(VENV)/.tested
	$(VENV)/bin/python -m pytest -n auto --dist worksteal

# What README and docs promise, on the official files that they name (DAS_SHARED_DATA, or ../shared/data).
accept: $(VENV)/.tested
	$(VENV)/bin/python -m pytest -n 2 --dist loadscope tests/accept

# Every command, on whole states, with its figures in docs/reference/acceptance.md: up to an hour. CHAINS=name,name  only some.
accept-all: $(VENV)/.tested
	$(VENV)/bin/python -m tests.accept.whole $(if $(CHAINS),--chains $(CHAINS))

# The processor time of each file of tests: of all, or of TESTS=path.
test-times: $(VENV)/.tested
	$(VENV)/bin/python -m pytest -n auto --dist worksteal -p tests.times $(TESTS)

coverage: $(VENV)/.tested
	@mkdir -p build
	$(VENV)/bin/python -m slipcover --branch --source das --json --out build/coverage.json -m pytest -n auto --dist worksteal
	$(VENV)/bin/python -m tests.covered build/coverage.json

lint: $(VENV)/.tested
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(VENV)/.tested
	$(VENV)/bin/python -m benchmarks

reference: $(VENV)/.installed
	$(VENV)/bin/python -m docs.reference

claims: $(VENV)/.installed
	$(VENV)/bin/python -m docs.claims

docs: $(VENV)/.documented
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html -c docs . build/docs
	$(VENV)/bin/python -m docs.llms build/docs
	@echo "written: build/docs/index.html"

slides: $(VENV)/.documented
	$(VENV)/bin/python -m docs.slides $(NOTEBOOKS)

docs-links: $(VENV)/.documented
	$(VENV)/bin/python -m sphinx -q -b linkcheck -c docs . build/docs-links

notebooks: $(VENV)/.tested
	$(VENV)/bin/python -m docs.notebooks

dist: $(VENV)/.builder
	$(VENV)/bin/python -m build $(if $(UV),$(if $(shell command -v uv),--installer uv)) --outdir $(or $(OUT),dist)

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 1) and "das needs Python 3.11.1 or newer")'
	$(BEGIN)
	$(INSTALL) --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(INSTALL) --editable '.[$(EXTRAS)]'
	touch $@

# What builds a wheel needs nothing of das.
$(VENV)/.builder: pyproject.toml
	$(BEGIN)
	$(INSTALL) 'build>=1.2'
	touch $@

$(VENV)/.documented: $(VENV)/.installed
	$(INSTALL) --editable '.[docs]'
	touch $@

# All three at once, for who wants all: dependencies are then resolved once.
environment: pyproject.toml
	$(BEGIN)
	$(INSTALL) --editable '.[$(EXTRAS),docs]'
	touch $(VENV)/.installed $(VENV)/.tested $(VENV)/.documented
