# `make help` lists what there is. Every target that needs Python makes .venv first.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
NAME ?= limit
# Two to four: tests that start servers need a neighbour to overlap with, more only crowd memory.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); \
	[ $$n -lt 2 ] && n=2; [ $$n -gt 4 ] && n=4; echo $$n)
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

##@ Start here
.PHONY: help demo
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables: NAME=%s  WORKERS=%s  ARGS="extra pytest or bench arguments"\n' \
		'$(NAME)' '$(WORKERS)'

demo: $(STAMP) ## Join a bursty sales stream with a product master, live
	@$(BIN)/semistream demo

##@ Check
.PHONY: test lint types unit
test: lint types unit ## Everything that must pass: lint, types, tests

lint: $(STAMP) ## Style, formatting and the import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: $(STAMP) ## mypy, strict for the engine
	@$(BIN)/mypy

unit: $(STAMP) ## The tests alone; ARGS="-k name" narrows them
	@.ci/ensure-mariadb
	@$(BIN)/pytest -n $(WORKERS) $(ARGS)

##@ Measure
.PHONY: bench
bench: $(STAMP) ## Run one benchmark: make bench NAME=limit
	@$(BIN)/semistream bench $(NAME) $(ARGS)

##@ Housekeeping
.PHONY: env format clean
env: $(STAMP) ## Make or refresh .venv (exact versions from constraints.txt)

format: $(STAMP) ## Rewrite the code in the house format
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

clean: ## Remove .venv, caches and run output
	@rm -rf $(VENV) .venv-bootstrap .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
		.ruff_cache build dist demo-out bench-out
	@find include tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Editable, so that code changes need no reinstall; only new requirements do.
$(STAMP): pyproject.toml constraints.txt
	@echo "Installing semistream into $(VENV)"
	@uv=$$(.ci/find-uv "$(PYTHON)") && \
	if ! $(BIN)/python --version >/dev/null 2>&1; then \
		rm -rf $(VENV) && "$$uv" venv --quiet --python "$(PYTHON)" $(VENV); \
	fi && \
	"$$uv" pip install --quiet --python $(BIN)/python -c constraints.txt -b constraints.txt \
		-e '.[bench,dev]'
	@touch $@
