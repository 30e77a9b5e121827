# Two commands do everything on a fresh machine with python3 (venv), git and make:
#   make run    the demo: a simulated fabric, a real agent of this machine, the centre and its page
#   make test   every check; installs what it may and says what it skipped and why
#   make check  the static checks alone; PYTEST_ARGS="tests/fleet" make test runs one area
#   make bench  benchmarks, beside their peers where those are installed
#   make docs   regenerate what is made of the code's tables: documents, manual, dashboards, exported rules
#   make lock   new versions of the dependencies, with hashes
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Python keeps what it compiled, whatever the caller's shell says: the tests start some hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check bench docs lock clean help
help:
	@sed -n '2,7p' Makefile

$(STAMP): requirements.lock requirements-dev.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: $(STAMP)
	$(BIN)/fabricmon demo

# One process more than there are cores: many tests only wait.
WORKERS ?= $(shell expr $$(nproc) + 1)

test: $(STAMP) check
	@tests/setup-peers
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

check: $(STAMP)
	$(BIN)/ruff check fabricmon tests
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(STAMP)
	$(BIN)/python -m tests.bench

docs: $(STAMP)
	$(BIN)/fabricmon docs --write docs
	$(BIN)/fabricmon man --source > fabricmon/manual/fabricmon.1
	$(BIN)/fabricmon dashboards --write dashboards
	$(BIN)/fabricmon rules export --format kubernetes --dashboards --label app.kubernetes.io/name=fabricmon \
	  --label app.kubernetes.io/instance=fabricmon --label app.kubernetes.io/part-of=fabricmon \
	  -o deploy/kubernetes/components/prometheus-rules/rules.yaml

# New versions of the dependencies, with the hashes of their files.
lock:
	$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet pip-tools
	.cache/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements.lock pyproject.toml
	.cache/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements-dev.lock requirements-dev.in

clean:
	rm -rf $(VENV) .cache build dist *.egg-info
