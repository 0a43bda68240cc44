# make train    a small GPT-2 learns to write, in about two minutes
# make test     all tests
# make parity   GPT-2 beside transformers: logits, tokens, gradients, losses; WEIGHTS=DIR takes weights of yours. It installs torch
# make prove    the long proofs (every mutant, random operands by the ten thousand); they stand in docs/proof.json
# make lint     ruff;   make types   pyright
#
# Each makes .venv and installs what it needs first. PYTHON=python3.12 takes another interpreter, ARGS="..." goes to the command.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input

# $(call need,code,text): end here, in one line, unless this interpreter runs the code.
need = $(if $(shell $(PYTHON) -c '$(1); print(1)' 2>/dev/null),,$(error $(2)))

.PHONY: train test parity prove lint types
.DELETE_ON_ERROR:

train: .venv/.plots
	$(BIN)/pullback train $(ARGS)

test: .venv/.test
	$(BIN)/python -m pytest -q -n auto --maxprocesses 8 $(ARGS)

parity: .venv/.test .venv/.parity
	WEIGHTS='$(WEIGHTS)' $(BIN)/python -m pytest -q tests/parity $(ARGS)

prove: .venv/.test .venv/.parity
	$(BIN)/python -m pullback.experiments.proof $(ARGS)

lint: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.test
	$(BIN)/pyright $(ARGS)

.venv/.plots .venv/.test .venv/.parity: .venv/.%: pyproject.toml | .venv/src/pullback
	@echo "installing pullback[$*] into .venv; the first time takes minutes"
	@$(INSTALL) --editable '.[$*]'
	@touch $@

# Editors and type checkers find the package by its name here: the root of the repository is the package.
.venv/src/pullback: | $(BIN)/python
	@mkdir -p $(@D)
	@ln -s ../.. $@

$(BIN)/python:
	$(call need,import sys,cannot run $(PYTHON); install Python 3.11 or newer or name one: make PYTHON=python3.12)
	$(call need,import sys; sys.version_info >= (3$(comma) 11) or sys.exit(1),$(PYTHON) is too old; Pullback needs Python 3.11 or newer: make PYTHON=python3.12)
	$(call need,import venv$(comma) ensurepip,$(PYTHON) has no venv module; install it (on Debian and Ubuntu: apt install python3-venv))
	@$(PYTHON) -m venv .venv

comma := ,
