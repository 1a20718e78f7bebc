# What people and CI call. `make test` is the gate with all tests that are quick; `make test-all` adds those that wait, kill or
# search. A test of the second kind is marked `#[ignore]` with the reason, or lies in a program that `cargo test` leaves out.
# Real servers are started by tests/stack/stack from their Maven artifacts: Java 17 and Maven are all they need.

CARGO ?= cargo
STACK := tests/stack/stack
TOOL := tests/python_tools tests/tools.txt
# Every build is of the whole workspace: with fewer members cargo picks other features of a dependency, and builds what lies on
# top of it once more. A name of tests takes those along that `cargo test` leaves out, as they need servers, or kill them.
EVERY := --workspace --lib --bins --test '*'
# The tests that need no server. Those of `integration` wait more than they compute, so more of them run at once.
COMPUTING := --workspace --lib --bins --test model --test fuzz --test sim --no-fail-fast
WAITING := --workspace --test integration --no-fail-fast -- --test-threads=8

.PHONY: setup bare texts check test test-all all-tools test-cassandra-4 prove fuzz openapi clients reference docs sim sim-replay fault audit package dist release operations stack stack-down bench bench-full bench-operating bench-peers gate overload demo

# A release build lacks the code of tests. So the library is compiled as in a release build once, as far as its errors go.
RELEASED = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/released $(CARGO) --config profile.dev.package.tickwheel.debug-assertions=false

# One look at the machine comes before anything is compiled, and names all that it lacks: tests/look.
LOOK = check
FOR ?= demo

setup: ## installs what this machine lacks for `make demo`; FOR=check, FOR=test: for the gate, for the tests
	tests/look --install $(FOR)

texts: ## format, house rules, spelling: what needs no build of the service
	@tests/look $(LOOK)
	$(CARGO) fmt --all --check
	$(CARGO) test -p tickwheel-tidy --quiet
	$(TOOL) typos

check: texts ## the quick part of the gate: texts, and lints
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) clippy $(EVERY) --quiet -- -D warnings

# The tests are compiled and linted in one pass, and the pages are written from the same libraries: no dependency is checked
# first and then built, and the library is compiled twice instead of four times (decision 129). The artefacts lie beside those of
# a plain `cargo test`.
test test-all test-cassandra-4: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/tests/linted
test test-all test-cassandra-4: export RUSTDOC := $(CURDIR)/tests/documented

test: LOOK = test
test: texts ## the gate: texts, lints, documentation and the quick tests, also on real Cassandra and Kafka; prints the slowest ones
	$(STACK) fetch
	$(CARGO) test --no-run $(EVERY) --quiet
	$(CARGO) build --workspace --bins --examples --quiet
	$(RELEASED) build --workspace --lib --test tidy --quiet
	tests/openapi/clients
	tests/clients/python
	tests/clients/typescript
	$(CARGO) test --workspace --doc --quiet
	tests/timed $(COMPUTING)
	tests/timed $(WAITING)
	$(STACK) run --durable -- tests/timed --workspace --test servers

# Quarters of an hour before it would be missed. The long scenarios of the simulation are optimised, as its seeds are: each of
# them runs some hundred times, and one took twenty minutes of a debug build.
all-tools:
	@tests/look test-all

# The targets of fuzz have the seed of an ordinary run, so that every machine tries the same inputs; `make fuzz` draws one.
# Those on servers stop and kill nodes, and compare how late their tasks are: one at a time.
test-all: all-tools test audit ## every test: faults, kills, floods, planted flaws, long searches, a drill
	$(TOOL) tests/timed --workspace --lib --test model --test integration --no-fail-fast -- --ignored
	tests/timed --workspace --profile search --features flaws --test sim --no-fail-fast -- --ignored
	TICKWHEEL_FUZZ_MINUTES=2 TICKWHEEL_FUZZ_SEED=8388345094170240357 tests/timed --workspace --test fuzz
	$(STACK) run --durable -- sh -c 'tests/timed --workspace --test servers -- --ignored --skip secured:: --test-threads=1; servers=$$?; \
		tests/timed --workspace --test fault --no-fail-fast && exit $$servers'
	$(STACK) run --secured -- tests/timed --workspace --test servers -- --ignored secured::
	$(STACK) run -- sh -c 'tests/clients/java && tests/clients/kafka_python && tests/clients/kafka_typescript && \
		tests/clients/promises'
	$(CARGO) test --workspace --test drill
	$(CARGO) clippy --all-targets --quiet -- -D warnings
	$(CARGO) clippy --lib --no-default-features --features client --quiet -- -D warnings
	$(CARGO) clippy --lib --no-default-features --features worker --quiet -- -D warnings
	tests/clients/python --all
	tests/alerts
	PROGRAM=target/debug/tickwheel tests/dist/check
	tests/clients/typescript --all
	docs/site/reference --check
	tests/docs/run
	$(MAKE) docs

test-cassandra-4: ## the tests on servers with Cassandra 4.1 instead of 5.0, those that wait included
	$(STACK) fetch --cassandra 4.1
	$(STACK) run --durable --cassandra 4.1 -- sh -c 'tests/timed --workspace --test servers && \
		tests/timed --workspace --test servers -- --ignored --skip secured:: --test-threads=1'
	$(STACK) run --secured --cassandra 4.1 -- tests/timed --workspace --test servers -- --ignored secured::

operations: ## alert rules and packages, with checkers that are built from their Go modules where they are not installed
	tests/alerts
	tests/dist/check

# Seeds of the simulation: SEEDS=100000 FROM=0 JOBS=2. It goes on where it was stopped; a seed that failed is the first again.
# Seeds from 1000000 on are the second family, with scenes of the operating model.
SEEDS ?= 100000
FROM ?= 0
SIM = SEEDS=$(SEEDS) JOBS=$(JOBS) $(CARGO) test --workspace --profile search --features flaws --test sim -- \
	seeds_break_nothing --nocapture

sim: ## that many scenarios from seeds of each family, on every core, optimised
	FROM=$(FROM) $(SIM)
	FROM=$$((1000000 + $(FROM))) $(SIM)

sim-replay: ## SEED=.. [KEEP=..] [FLAW=..]: one scenario again, with a planted bug; its trace is left under target/sim
	SEED=$(SEED) KEEP=$(KEEP) FLAW=$(FLAW) \
		$(CARGO) test --workspace --profile search --features flaws --test sim -- can_be_named_and_replayed --nocapture

prove: ## the models with their whole bounds, optimised, one after the other; prints the table of tests/model/RESULTS.md
	TICKWHEEL_PROVE=1 $(CARGO) test --workspace --profile search --test model -- --include-ignored --nocapture --test-threads=1

MINUTES ?= 10
fuzz: ## every decoder of outside bytes, MINUTES in all, from a random seed that is printed
	TICKWHEEL_FUZZ_MINUTES=$(MINUTES) $(CARGO) test --workspace --test fuzz -- --nocapture --test-threads=1

clients: ## writes what is generated of the clients in other languages, from schemas/openapi.json
	tests/clients/python --generate
	clients/typescript/generate

reference: ## writes the pages of docs/reference that are generated from the description of the API and from the program
	$(CARGO) build --bin tickwheel
	docs/site/reference $${CARGO_TARGET_DIR:-target}/debug/tickwheel

docs: ## the documentation site in target/site/html, with its links checked (needs mdBook)
	docs/site/build
	tests/docs/links

openapi: ## every call fuzzed by schemas/openapi.json with schemathesis (pip install schemathesis), SECONDS in all
	tests/openapi/fuzz $(SECONDS)

fault: ## three nodes on three servers of each kind, work of every kind, every fault alone, then together; FAULT="--minutes 30 --seed 7"
	$(STACK) fetch
	$(CARGO) test --workspace --test drill -- --all --kinds --minutes 5 $(FAULT)

audit: ## licences, banned and duplicate crates, sources (needs cargo-deny)
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo "licences need cargo-deny: cargo install --locked cargo-deny" >&2; exit 3; }
	$(CARGO) deny --log-level error check bans licenses sources

package: ## the crate as a registry would take it, built from the package alone; sends nothing
	$(CARGO) publish --dry-run --allow-dirty --package tickwheel

release: ## VERSION=0.2.0: all that is published of a tag, built, linted, installed and run; uploads nothing (docs/release.md)
	deploy/release $(VERSION)

dist: ## what people install, in target/dist (docs/install.md); PROFILE=dev packs a debug build
	deploy/dist

BENCHED := target/release/tickwheel-bench

bench: ## the load scenarios, on a fresh Cassandra and Kafka; BENCH="--scenario fire" chooses
	$(STACK) fetch
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	mkdir -p target/bench
	$(BENCHED) embedded --tasks 20000 --pending 200000 --seconds 5 --missed 20000 --data-dir target/bench \
		--json target/bench/embedded.jsonl --charts target/bench/charts
	$(STACK) run --measure -- $(BENCHED) run --json target/bench.jsonl $(BENCH)

# One piece, some three hours on two quiet cores; FULL_ROUNDS=1 FULL_SECONDS=30 SOAK_MINUTES=5 is an hour's look at all of it.
FULL_ROUNDS ?= 3
FULL_SECONDS ?= 60
SOAK_MINUTES ?= 60

bench-full: ## every load scenario at full size, hours on a quiet machine; figures and charts in target/bench
	$(STACK) fetch
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	mkdir -p target/bench
	$(BENCHED) embedded --scenario register,burst,mixed,cancel_heavy,recover,catch_up,idle --tasks 1000000 --missed 1000000 \
		--rounds $(FULL_ROUNDS) --seconds $(FULL_SECONDS) --data-dir target/bench --json target/bench/embedded.jsonl \
		--charts target/bench/charts
	$(BENCHED) embedded --scenario steady --rate 1000,5000,10000 --pending 1000000,10000000 --seconds $(FULL_SECONDS) \
		--data-dir target/bench --json target/bench/steady.jsonl --charts target/bench/charts
	$(BENCHED) embedded --scenario soak --minutes $(SOAK_MINUTES) --data-dir target/bench --json target/bench/soak.jsonl \
		--charts target/bench/charts
	$(STACK) run --measure -- $(BENCHED) run --tasks 150000 --rounds $(FULL_ROUNDS) --seconds $(FULL_SECONDS) \
		--json target/bench/cluster.jsonl $(BENCH)

# Small sizes, some ten minutes; bench/README.md lists those for the aims.
OPERATING ?= --scenario keys,ordering,limits,http,schedules,trees,backup,access,lists,payloads --tasks 20000 \
	--pending 100000 --rate 1000 --seconds 15 --firing 5000 --resting 20000 --levels 100 --contents 200

bench-operating: ## keys, lanes, limits, HTTP, schedules, trees, backups, access, lists; OPERATING="--scenario keys" chooses
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	mkdir -p target/bench
	$(BENCHED) embedded --data-dir target/bench --json target/bench/operating.jsonl $(OPERATING)

overload: ## ten times the registrations that the embedded service sustains, for a minute; on a quiet machine
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	target/release/tickwheel-bench embedded --data-dir target --scenario overload --seconds 60

bench-peers: ## the service beside what a user would pick instead; PEERS="--peer redis" chooses
	bench/peers/setup
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	target/release/tickwheel-bench peers --data-dir target/peers-data --json target/peers.jsonl $(PEERS)

gate: ## BASE=.. CHANGED=..: whether a built program costs more CPU a task than another; GATE="--seed 7" (bench/README.md)
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	mkdir -p target/bench
	bench/gate $(BASE) $(CHANGED) $(GATE)

stack: ## real Cassandra and Kafka for hand work; prints their addresses
	$(STACK) up

stack-down: ## stops what `make stack` started
	$(STACK) down

# Nobody waits for optimised dependencies here: they would take as long again as all the rest (decision 126).
demo: ## a service on this machine, a few tasks, each shown firing; stops by itself
	@tests/look demo
	$(CARGO) --config 'profile.dev.package."*".opt-level=0' build --locked --bin tickwheel
	examples/demo.sh $${CARGO_TARGET_DIR:-target}/debug/tickwheel

bare: ## `make demo` of a fresh clone in a Debian with nothing in it, with the time of each step; needs root
	tests/bare/run
