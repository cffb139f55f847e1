# Everything runs in .venv, which the first command makes; the second call of a command installs nothing.
# Another Python beside it: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := opendp smartnoise dpmm mostly arf anonymeter mostlyai_qa published
# Two workers, of one thread each: on two cores, more threads wait for each other.
SUITE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Every package by its hash, but torch, whose build the index decides: TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
LOCK := uv --config-file requirements/uv.toml pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-annotate --no-emit-package torch --constraint requirements/torch.txt --custom-compile-command "make lock" $(UPGRADE) pyproject.toml

define INSTALL
$(PIP) install --require-hashes --no-deps --requirement requirements/$(1).txt
$(if $(filter dev,$(1)),$(PIP) install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) --requirement requirements/torch.txt)
$(PIP) install --no-deps --no-build-isolation --editable .
$(PIP) check
@touch $(2)
endef

.PHONY: demo test test-statistical test-slow tutorials check style types apart doctests docs lock bench bench-peers clean

# A verdict is a result, not an error: 1 is FAIL and 3 is INCONCLUSIVE.
demo: $(VENV)/.demo
	@rm -rf out/fair && mkdir -p out
	@$(BIN)/understudy run examples/fair.toml --out out/fair; code=$$?; \
	case $$code in 0|1|3) exit 0;; *) exit $$code;; esac

test: $(VENV)/.dev
	$(SUITE) -m "not statistical and not tutorial and not slow"

test-statistical: $(VENV)/.dev
	$(SUITE) -m "statistical and not slow"

test-slow: $(VENV)/.dev
	$(SUITE) -m slow --timeout 3000

# Every block of every tutorial, as a reader follows it.
tutorials: $(VENV)/.dev
	$(SUITE) -m tutorial

# Two at a time; the slowest begin first.
check: $(VENV)/.dev
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target apart types docs doctests style

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m benchmarks.house --check

types: $(VENV)/.dev
	$(BIN)/mypy

# Each extra deleted in turn, and what is left used.
apart: $(VENV)/.dev
	$(BIN)/python -m benchmarks.extras_apart

doctests: $(VENV)/.dev
	$(BIN)/python -m pytest --doctest-modules synth evaluate reports understudy

# The manual, in build/site; a link that leads nowhere ends it. The variable turns off an advertisement of the theme's.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.side_by_side
	$(BIN)/python -m benchmarks.large $(ADULT) --rows 1000000
	@echo
	@echo "Three tasks here and with SDV, in lines, seconds and words: $(BIN)/python -m benchmarks.tasks"
	@echo "Private generators on UCI's Adult, which you bring: $(BIN)/python -m benchmarks.adult adult.data --out adult.json"
	@echo "The same beside other libraries: make bench-peers, then add --peers (hours; --help says how to take less)"
	@echo "What mst and aim cost as the work grows: $(BIN)/python -m benchmarks.growth --out growth.json --svg growth.svg"
	@echo "The evaluation beside SDMetrics' reports: $(BIN)/python -m benchmarks.evaluation adult.data --out evaluation.json"
	@echo "Generators on tables of yours, nothing set by hand: $(BIN)/python -m benchmarks.shelf FOLDER --page shelf.html"
	@echo "A whole evaluation of a table of yours: $(BIN)/python -m benchmarks.whole_evaluation TABLE --target NAME"
	@echo "Privacy beside anonymeter and mostlyai-qa: make bench-peers, then $(BIN)/python -m benchmarks.privacy adult.data --out privacy.json"
	@echo "A table of twenty million rows made of Adult: $(BIN)/python -m benchmarks.large adult.data --out large.json"
	@echo "Verdicts on honest, leaking and ruined tables made of yours: $(BIN)/python -m benchmarks.verdicts FOLDER --out verdicts.json"
	@echo "Six deliveries of which the ranking is known, made of a table of yours (of a folder: what vendors delivered): $(BIN)/python -m benchmarks.vendors TABLE --target NAME"
	@echo "Measured bounds, with few rows and many: $(BIN)/python -m benchmarks.bounds --clamped insurance.csv:charges --out bounds.json"
	@echo "Free text with secrets, with epsilon and without: $(BIN)/python -m benchmarks.texts --out texts.json"
	@echo "Ours under a public benchmark's protocol: make bench-peers, then $(BIN)/python -m benchmarks.published FOLDER --out published.json"
	@echo "Ours beside a study of reconstruction: make bench-peers, then $(BIN)/python -m benchmarks.reconstruction ADULT --out reconstruction.json"
	@echo "CTGAN and TVAE beside their library and private peers: $(BIN)/python -m benchmarks.neural adult.data --out neural.json"

# Other libraries, each in an environment of its own. A torchaudio of another version than torch breaks `transformers`. One that does not install stops nothing: its rows will say so.
bench-peers: $(PEERS:%=.venv-peers/%/.made)

.venv-peers/%/.made: benchmarks/peers/%.txt
	@rm -rf .venv-peers/$* && $(PYTHON) -m venv .venv-peers/$*
	@if .venv-peers/$*/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< \
	&& .venv-peers/$*/bin/python -m pip uninstall --quiet --yes torchaudio; then touch $@; \
	else rm -rf .venv-peers/$*; echo "$* does not install here and will be missing from the benchmark"; fi

clean:
	rm -rf .venv .venv-* out build dist *.egg-info

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml requirements/demo.txt | $(BIN)/python
	$(call INSTALL,demo,$@)

$(VENV)/.dev: pyproject.toml requirements/dev.txt requirements/torch.txt | $(BIN)/python
	$(call INSTALL,dev,$(VENV)/.demo $@)

# After a change of dependencies, with `uv` on the PATH: make lock, or make lock UPGRADE=--upgrade for newer versions.
lock:
	$(LOCK) --extra dev --output-file requirements/dev.txt
	$(LOCK) --constraint requirements/dev.txt --extra demo --output-file requirements/demo.txt
	$(LOCK) --constraint requirements/dev.txt --extra private --output-file requirements/private.txt
