# Each target is complete from a bare clone: the environment is made first where it is missing or out of date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Real text that every machine with Python has: its standard library, and the packages installed here but for one, which
# holds the same thousand schemas in twenty versions: 60,000 pairs of no interest.
DEMO_PATHS = $(shell $(BIN)/python -c "import pathlib, sysconfig as s; \
  print(*sorted(p for name in ('stdlib', 'purelib') for p in pathlib.Path(s.get_path(name)).iterdir() \
  if p.name not in ('site-packages', 'kubernetes_validate')))")

# What "make check" runs: the tests that need no process, broker or browser and are not long; ROOM=verdicts: of a room.
ROOM ?=
CHECKED = $(if $(ROOM),$(shell find tests -type d -name '$(ROOM)'),tests)
QUICK = not processes and not broker and not browser and not long

.DEFAULT_GOAL := help
.PHONY: help demo demo-page demo-large site dist made wheel machine sanitized check types quick test processors bench results peers bench-kafka kafka torture soak clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP)  ## near-duplicates in one morning of news, on one screen
	@$(BIN)/python docs/examples/demo.py

demo-page: $(STAMP)  ## the page of the service while two hours of news come in two minutes, until Ctrl-C
	@$(BIN)/python tests/browser/demo_page.py --seconds 120

demo-large: $(STAMP)  ## find the near-duplicates among the Python files of this machine
	@$(BIN)/neardup run --window-documents 200000 --overview --output demo-pairs.jsonl $(DEMO_PATHS)

site: $(STAMP)  ## the pages of docs and of the public API with a search, in build/site; each link is checked
	$(BIN)/python docs/make_site.py build/site

# The wheel is made from the archive, as those who get the archive make it. Nothing is downloaded for it.
dist: $(STAMP)  ## a wheel and an archive of the sources, in dist
	@rm -rf dist
	@HATCH_QUIET=1 $(BIN)/python -m hatchling build --target sdist
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/neardup-*.tar.gz
	@ls dist

# What is compiled is kept, so a second run compiles only what changed. It needs a compiler of C.
made: $(STAMP)  ## the machine code of such a wheel alone, in build/made
	@rm -rf build/made
	@$(BIN)/python wheel/emit.py build/made

wheel: made  ## a wheel with machine code for this version of Python and this system, in dist: it compiles nothing
	@rm -rf build/wheel
	@NEARDUP_MADE=$(CURDIR)/build/made HATCH_QUIET=1 $(BIN)/python -m hatchling build --target wheel --directory build/wheel
	@PATH=$(BIN):$$PATH $(BIN)/auditwheel repair --plat auto --wheel-dir dist build/wheel/*.whl
	@ls dist

# Types are checked while the quick tests run, which often wait. Compiled modules are kept, whatever the environment says: some three hundred processes start in the tests.
check quick test: export PYTHONDONTWRITEBYTECODE :=
check: $(STAMP)  ## style, types and the quick tests: no processes, no servers; ROOM=verdicts: the tests of one room
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory -j 2 types quick

types: $(STAMP)  ## the types alone
	$(BIN)/mypy

quick: $(STAMP)  ## the quick tests alone, with ROOM too
	$(BIN)/python -m pytest -q --hypothesis-profile quick -n 2 --dist loadfile --no-loadscope-reorder -m '$(QUICK)' $(CHECKED)

test: $(STAMP)  ## style, types and tests: all of them, then the sum
	@$(BIN)/python tests/support/sources/all_parts.py

# Kernels of a processor and of a choice are stored next to those of others.
processors: export NUMBA_CPU_FEATURES :=
processors: $(STAMP)  ## the library on other processors: of x86-64-v3, one without vectors, plain loops for instructions
	NUMBA_CPU_NAME=x86-64-v3 $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/stream tests/textbook tests/laws
	NUMBA_CPU_NAME=generic $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/stream tests/textbook tests/laws
	NUMBA_CPU_NAME=generic NEARDUP_MACHINE_CODE=models $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/stream tests/textbook tests/laws

# The tests of these folders run a tree that has machine code, in processes that cannot import numba.
MACHINE = tests/built tests/workers/stages tests/workers/commands tests/workers/http tests/simulation/test_golden.py \
  tests/kafka/workers/test_workers_kafka.py tests/kafka/workers/test_kafka_verdicts.py
machine: made  ## commands, schemes, the service and the roles on Kafka without a compiler, with machine code made before
	@$(BIN)/python tests/support/sources/bare_tree.py build/made build/bare
	TESTED_TREE=$(CURDIR)/build/bare $(BIN)/python -m pytest -q -n 2 --dist loadfile -o pythonpath=build/bare $(MACHINE)

# SANITIZERS are what gcc's checks need in a process whose program has none.
sanitized: export CFLAGS = -fsanitize=address,undefined -fno-sanitize-recover=all -g -O1
sanitized: export ASAN_OPTIONS = detect_leaks=0
sanitized: export PYTHONMALLOC = malloc
sanitized: SANITIZERS = $(shell cc -print-file-name=libasan.so):$(shell cc -print-file-name=libubsan.so)
sanitized: made  ## commands and schemes with gcc's checks of addresses and of undefined behaviour in wheel/caller.c
	@$(BIN)/python tests/support/sources/bare_tree.py build/made build/bare
	LD_PRELOAD=$(SANITIZERS) TESTED_TREE=$(CURDIR)/build/bare $(BIN)/python -m pytest -q -o pythonpath=build/bare tests/built
	LD_PRELOAD=$(SANITIZERS) $(BIN)/python -m pytest -q tests/stream/machine/test_made.py

bench: $(STAMP)  ## speed, memory and recall, next to the peers
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks

results: DATA ?= ../shared/data
results: $(STAMP)  ## labelled pairs and planted quotes, into docs/RESULTS.md, what a drop loses, into docs/LOST.md (DATA: the folder of the sets)
	$(BIN)/python -m benchmarks.labelled --data $(DATA) --write docs/RESULTS.md
	$(BIN)/python -m benchmarks.lost --data $(DATA) --write docs/LOST.md
	$(BIN)/python -m benchmarks.typed.novelty docs/RESULTS.md
	$(BIN)/python -m benchmarks.pages.quotes docs/RESULTS.md

peers: DATA ?= ../shared/data
peers: $(STAMP)  ## programs that drop near-duplicates as typed (each in an environment of its own)
	$(BIN)/python -m benchmarks.typed --data $(DATA)

bench-kafka: $(STAMP)  ## the workers on a real broker
	$(BIN)/python -m benchmarks.kafka

kafka: $(STAMP)  ## a broker on 127.0.0.1:9092 until interrupted (Java 17 and Maven)
	$(BIN)/python tests/kafka/servers/broker.py --port 9092

torture: $(STAMP)  ## thousands of simulated schedules, then workers and brokers killed at random, then a soak
	$(BIN)/python tests/simulation/torture.py --seeds 2000
	SIMULATION_SEEDS=60 $(BIN)/python -m pytest -q tests/simulation/growth
	$(BIN)/python tests/kafka/torture/torture.py --documents 50000 --kills 60 --stops 10 --standbys 1 --shards 8 --templates 50
	$(BIN)/python tests/kafka/torture/torture.py --nodes 3 --documents 20000 --kills 10 --stops 4 --brokers 4 --freezes 4
	$(BIN)/python tests/kafka/torture/soak.py
	$(BIN)/python tests/support/workers/hook_process.py --events 10000 --kills 100
	NEARDUP_LAW_SEEDS=3 $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/laws tests/stream/texts/test_unicode_fold.py
	NEARDUP_SPARK_PARTITIONS='1 7 64' $(BIN)/python -m pytest -q tests/workers/commands/batch/test_spark.py

soak: HOURS ?= 3
soak: $(STAMP)  ## all roles and serve for HOURS (3): memory, descriptors, threads, disk and latency do not grow
	$(BIN)/python tests/kafka/torture/soak.py --hours $(HOURS)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[jit,plot]' --group dev
	touch $(STAMP)

clean:  ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info bench-results
	find . -name '__pycache__' -type d -prune -exec rm -rf {} +
