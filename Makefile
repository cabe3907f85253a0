# `make help` lists the commands. Each one sets up what it needs by itself.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
SECONDS ?=
SEEDS ?=
SETS ?=
SEED ?=
BASE ?=
# The tests start thousands of processes. Without its files each one would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup runtime demo test quick check check-types check-text soak soak-cluster soak-simulation soak-moves soak-streams soak-spark soak-authorization conformance bench bench-cluster bench-spark format generate wheel lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## everything that demo, test, check and bench need; quick when nothing changed
	@$(PYTHON) scripts/bootstrap.py dev

runtime:
	@$(PYTHON) scripts/bootstrap.py runtime

demo: runtime ## a broker, live events and pipelines on Spark in this terminal (SECONDS=30 to end by itself)
	@$(BIN)/ruslo demo $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

# The order of the files is that of tests/conftest.py. More workers than processors: tests of processes mostly wait.
test: check ## check, then all tests: unit, cluster, interop (ARGS="-k name" for some)
	@$(BIN)/pytest -q -n 4 --dist loadfile --no-loadscope-reorder --durations=25 $(ARGS)

quick: setup ## the unit tests of what changed since main, for the inner loop (BASE=commit for another start)
	@tests=$$($(BIN)/python scripts/changed_tests.py $(BASE)); \
		if [ -z "$$tests" ]; then echo "no unit test concerns what changed"; \
		else $(BIN)/pytest -q -n 2 $$tests $(ARGS); fi

check: setup ## linter, format, types, import floors, vocabulary, generated files up to date
	@$(MAKE) --no-print-directory --output-sync=target -j 2 check-types check-text

check-types:
	$(BIN)/mypy --no-error-summary

check-text:
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --quiet --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_words.py
	$(BIN)/python codegen/generate.py --check
	$(BIN)/python -m ruslo.config.reference --check
	$(BIN)/python -m ruslo.broker.metrics.reference --check
	$(BIN)/python -m ruslo.broker.node.api_reference --check
	$(BIN)/python -m ruslo.client.settings.reference --check
	$(BIN)/python -m ruslo.pipeline.files.reference --check
	$(BIN)/python -m conformance.report --check

soak: setup ## clients and brokers killed and started at random for minutes, the figures printed (SECONDS=300)
	@RUSLO_CHAOS_SECONDS=$(or $(SECONDS),300) $(BIN)/pytest -q -s tests/cluster/test_group_chaos.py \
		tests/cluster/test_transaction_histories.py --timeout=0 $(ARGS)

soak-simulation: setup ## whole clusters under simulated faults, many more than in the tests (SEEDS=20000)
	@RUSLO_NODES_SEEDS=$(or $(SEEDS),20000) $(BIN)/pytest -q -n 2 tests/sim/test_nodes_chaos.py $(ARGS)

soak-cluster: setup ## a cluster under load, one fault again and again for a million records (FAULT=kill-leader, NODES=5)
	@RUSLO_FAULT=$(or $(FAULT),all) RUSLO_FAULT_RECORDS=$(or $(RECORDS),1000000) RUSLO_FAULT_NODES=$(or $(NODES),3) \
		RUSLO_FAULT_SILENCE_S=15 $(BIN)/pytest -q -s tests/cluster/test_faults.py --timeout=0 $(ARGS)

soak-moves: setup ## replicas that move between log directories under load and kill -9, many times (MOVES=200)
	@RUSLO_MOVES=$(or $(MOVES),200) $(BIN)/pytest -q -s tests/cluster/test_log_dir_moves.py --timeout=0 $(ARGS)

soak-streams: setup ## Apache Kafka's own smoke test of Kafka Streams, exactly once, on three nodes
	@RUSLO_STREAMS_SOAK=1 $(BIN)/pytest -q -s tests/interop/test_streams_smoke.py --timeout=0 $(ARGS)

soak-spark: setup ## a Spark query with driver, workers and broker killed at random; each record must arrive once
	@RUSLO_SPARK_SOAK=1 $(BIN)/pytest -q -s tests/pipeline/test_exactly_once.py $(ARGS)

soak-authorization: setup ## requests of all APIs under generated ACL sets, each response compared with Apache Kafka's (SETS=100, SEED=2)
	@RUSLO_ACL_SETS=$(or $(SETS),100) RUSLO_ACL_SEED=$(or $(SEED),1) \
		$(BIN)/pytest -q -s tests/interop/test_same_authorization.py --timeout=0 $(ARGS)

conformance: setup ## Apache Kafka's own integration tests against Ruslo, hours (ARGS="--jobs 2 tools", "--target kafka", "--help")
	@$(BIN)/python -m conformance.run $(ARGS)

bench: setup ## compare with Apache Kafka on this machine (ARGS="--quick", "--only records-1k", "--help")
	@$(BIN)/python -m bench.run $(ARGS)

bench-cluster: setup ## three nodes beside three of Apache Kafka, at work and losing nodes (ARGS="--only kill-9 --broker ruslo", "--help")
	@$(BIN)/python -m bench.cluster $(ARGS)

bench-spark: setup ## topics read and written by Spark, beside its own connector (ARGS="--only sink", "--help")
	@$(BIN)/python -m bench.spark_source $(ARGS)

format: setup ## let ruff fix and format
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

generate: setup ## write the generated files anew
	@$(BIN)/python codegen/generate.py
	@$(BIN)/python -m ruslo.config.reference
	@$(BIN)/python -m ruslo.broker.metrics.reference
	@$(BIN)/python -m ruslo.broker.node.api_reference
	@$(BIN)/python -m ruslo.client.settings.reference
	@$(BIN)/python -m ruslo.pipeline.files.reference
	@$(BIN)/python -m conformance.report

wheel: runtime ## the package for other machines, with the console's browser libraries inside, in dist
	@$(BIN)/python -m hatchling build --target wheel

lock: setup ## pin the newest allowed versions of all dependencies
	@$(BIN)/python scripts/lock.py

clean: ## remove what can be made again, except .venv
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
