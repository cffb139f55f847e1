# Everything runs in .venv, which the first command makes; the second call of a command installs nothing.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow check bench clean

# A verdict is a result, not an error: 1 is FAIL and 3 is INCONCLUSIVE.
demo: .venv/.demo
	@rm -rf out/fair && mkdir -p out
	@$(BIN)/understudy run examples/fair.toml --out out/fair; code=$$?; \
	case $$code in 0|1|3) exit 0;; *) exit $$code;; esac

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/.dev
	$(BIN)/python -m pytest -n 2 -m slow --timeout 3000

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest --doctest-modules synth evaluate reports understudy

bench: .venv/.dev
	$(BIN)/python -m benchmarks.side_by_side

clean:
	rm -rf .venv out build dist *.egg-info

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[demo]'
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	@touch .venv/.demo $@
