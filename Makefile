# Everything runs from .venv, which is made on first use and again when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
# Tests start hundreds of processes; each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lint check test bench format

## lint: format, style, types and layers
lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

## check: everything that is fast and needs neither a container engine nor Debian packages
check: lint
	$(BIN)/pytest --numprocesses $$((2 * $$(nproc))) --dist worksteal --ignore tests/docker -m "not docker and not slow and not browser and not shells"

## test: everything, against real containers; installs what is missing where it may
test:
	tests/run

## bench: what performance is claimed by, side by side with `docker exec`
bench: .venv/installed
	$(BIN)/python -m bench

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Compiled is what is imported, when it is: less than half of what is installed, and on all cores.
.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --no-compile --editable . --group dev
	touch $@
