# Requires python3 (3.11 or newer, venv), git and make; every target installs what it needs into .venv.
#   make run        the demo: a simulated fabric, an agent of this machine, the server and its page; DEMO="--listen HOST:PORT"
#   make test       the tests that a change usually breaks, in minutes; lists what it skipped and why
#   make test-all   every test: also the virtual machine, kills at random moments, whole scenarios (run by CI)
#   make test-rigs  per release: the image, systemd, a real Kubernetes API server; root on Debian
#   make fuzz       search for inputs that a reader mishandles (MINUTES=10; READERS="yaml frame": these only)
#   make check      the static checks; PYTEST_ARGS="tests/fleet" make test runs one area
#   make mutate     small changes in the code, one at a time: does a test fail? MUTATE="rules --seed 7 --number 50"
#   make bench      benchmarks, compared with their peers where those are installed
#   make oracle     compare with NVIDIA's nvml-mock and mock-ib: MOCK=PATH of a checkout that is built (CONTRIBUTING.md)
#   make deb        Debian packages of the agent, the server and the command line, in dist/deb (debhelper, Python 3.11)
#   make rpm        the same as rpm, in dist/rpm (rpmbuild, Python 3.11)
#   make image      the container image, with its labels (docker; IMAGE=registry.example/fabricmon:1)
#   make chart      the Helm chart of deploy/kubernetes, in dist/chart/fabricmon (kustomize or kubectl)
#   make site       the documents as a static site, in dist/site; a broken link fails
#   make sbom       the libraries of packages and image as CycloneDX, from requirements.lock, in dist/sbom.json
#   make docs       regenerate documents, manual, dashboards and exported rules from the tables in the code
#   make lock       update the dependencies and their hashes
#   make clean      remove what the other targets created
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed-to-run
TEST := $(VENV)/.installed-to-test
# Python compiles what is imported; compiling all that is installed would take a third of the time.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile

# Keep compiled bytecode even if the shell disables it: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-all test-rigs fuzz check peers pytest-quick pytest-all mutate bench oracle deb rpm image chart site sbom docs lock clean help
help:
	@sed -n '2,19p' Makefile

# An incomplete .venv, or one whose Python was removed, is created again.
define VENV_EXISTS
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "fabricmon needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>&1). Choose another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV) && echo "creating $(VENV) ..." && $(PYTHON) -m venv $(VENV); }
endef

# Dependencies of the program.
$(RUN): requirements.lock pyproject.toml
	$(VENV_EXISTS)
	@echo "installing fabricmon's dependencies into $(VENV) (a minute the first time) ..."
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --editable .
	@touch $@

# Dependencies of the program and its tests, by one call of pip; setuptools is one of them.
$(TEST): requirements.lock requirements-dev.lock pyproject.toml
	$(VENV_EXISTS)
	@echo "installing the dependencies of fabricmon and its tests into $(VENV) (a minute the first time) ..."
	@$(PIP) --require-hashes -r requirements.lock -r requirements-dev.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $(RUN) $@

run: $(RUN)
	@$(BIN)/fabricmon demo $(DEMO)

# Most tests wait for I/O: use more processes than cores.
WORKERS ?= $(shell expr $$(nproc) \* 2)
XDIST = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SIDE_BY_SIDE = @$(MAKE) --no-print-directory -j3

test:
	$(SIDE_BY_SIDE) check pytest-quick

test-all:
	$(SIDE_BY_SIDE) check pytest-all
	$(BIN)/python -m tests.fuzz --fixed

pytest-quick: $(TEST) peers
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || true  # compiles once what every process would compile
	$(BIN)/python -m pytest $(XDIST) --hypothesis-profile=quick -m "not (long or vm or chaos or rig)" $(PYTEST_ARGS)

pytest-all: $(TEST) peers
	$(BIN)/python -m tests.once_more $(XDIST) -m "not rig" $(PYTEST_ARGS)

# KUBE_APISERVER=PATH adds the real Kubernetes API server (tests/rigs/kube/build makes one).
test-rigs: $(TEST) peers
	$(BIN)/python -m pytest -m rig
	$(BIN)/python -m tests.hostile
	$(BIN)/python -m tests.fabric.against_tools $(DUMPS)
	@$(MAKE) --no-print-directory fuzz MINUTES=10
	$(BIN)/python -m tests.chaos --faults 1000 --seed 1 --minutes 60
	$(BIN)/python -m tests.systemd
	$(BIN)/python -m tests.image
	$(BIN)/python -m tests.image.compose
	@$(MAKE) --no-print-directory deb rpm
	$(BIN)/python -m tests.packages dist/deb
	$(BIN)/python -m tests.packages.rpm dist/rpm
	$(BIN)/python -m tests.first_alert dist/deb
	@$(MAKE) --no-print-directory site
	$(if $(KUBE_APISERVER),$(BIN)/python -m tests.kubernetes $(KUBE_APISERVER),@echo "skipped: the Kubernetes API server (KUBE_APISERVER is not set)")

MINUTES ?= 10
fuzz: $(TEST)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(READERS)

peers:
	@tests/setup-peers

check: $(TEST)
	@$(BIN)/ruff check --quiet fabricmon tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

mutate: $(TEST)
	$(BIN)/python -m tests.mutation $(MUTATE)

bench: $(TEST)
	$(BIN)/python -m tests.bench

oracle: $(TEST)
	$(BIN)/python -m tests.oracle $(MOCK)

# The program as it is in this tree, with the dependencies of the lock.
dist/stage: $(shell find fabricmon packaging/stage packaging/licences.py requirements.lock pyproject.toml -newer dist/stage 2>/dev/null)
	packaging/stage dist/stage
	@touch dist/stage

deb: dist/stage
	rm -rf dist/deb && packaging/deb dist/stage dist/deb && ls dist/deb

rpm: dist/stage
	rm -rf dist/rpm && packaging/rpm dist/stage dist/rpm && ls dist/rpm

# The time is the commit's, so that the same commit gives the same image.
IMAGE ?= fabricmon
image:
	docker build --tag $(IMAGE) \
	  --build-arg VERSION=$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' fabricmon/__init__.py) \
	  --build-arg REVISION=$$(git describe --always --abbrev=40 --exclude='*' --dirty) \
	  --build-arg CREATED=$$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd) \
	  --build-arg SOURCE=$$(git remote get-url origin 2>/dev/null || echo unknown) .

chart: $(RUN)
	$(BIN)/python packaging/chart.py dist/chart/fabricmon

# The tools of these two are in environments of their own, by the hashes of their own locks.
.cache/%/.installed: packaging/%/requirements.lock
	$(PYTHON) -m venv .cache/$*
	.cache/$*/bin/pip install --disable-pip-version-check --quiet --require-hashes -r packaging/$*/requirements.lock
	@touch $@

sbom: .cache/sbom/.installed
	@mkdir -p dist
	.cache/sbom/bin/cyclonedx-py requirements --output-reproducible --of JSON -o dist/sbom.json requirements.lock

site: .cache/site/.installed
	NO_MKDOCS_2_WARNING=1 .cache/site/bin/mkdocs build --strict --config-file packaging/site/mkdocs.yml

docs: $(TEST)
	$(BIN)/fabricmon docs --write docs
	$(BIN)/fabricmon man --source > fabricmon/manual/fabricmon.1
	$(BIN)/fabricmon dashboards --write dashboards
	$(BIN)/fabricmon rules export --format kubernetes --dashboards --label app.kubernetes.io/name=fabricmon \
	  --label app.kubernetes.io/instance=fabricmon --label app.kubernetes.io/part-of=fabricmon \
	  -o deploy/kubernetes/components/prometheus-rules/rules.yaml

# Update the dependencies and the hashes of their files.
lock:
	$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet pip-tools
	.cache/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements.lock pyproject.toml
	.cache/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements-dev.lock requirements-dev.in
	for tool in site sbom; do .cache/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe \
	  --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  -o packaging/$$tool/requirements.lock packaging/$$tool/requirements.in || exit 1; done

clean:
	rm -rf $(VENV) .cache build dist *.egg-info
