# What people and CI call. `make test` is the whole gate and every test; the others are its parts.
# Real servers are started by tests/stack/stack from their Maven artifacts: Java 17 and Maven are all they need.

CARGO ?= cargo
STACK := tests/stack/stack

.PHONY: check test prove fuzz sim sim-replay fault audit stack stack-down bench bench-full bench-peers overload demo

check: ## format, lint, docs, tidy: the quick part of the gate
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) clippy --features flaws --test sim --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(CARGO) test --quiet --test tidy

test: check ## the gate and every test, on real Cassandra and Kafka
	$(STACK) fetch
	$(CARGO) build --workspace --all-targets
	$(STACK) run --durable -- $(CARGO) test --workspace --no-fail-fast
	$(CARGO) test --features flaws --test sim

# Seeds of the simulation: SEEDS=100000 FROM=0 JOBS=2. It goes on where it was stopped; a seed that failed is the first again.
SEEDS ?= 100000
FROM ?= 0

sim: ## that many scenarios from seeds, on every core, in release
	SEEDS=$(SEEDS) FROM=$(FROM) JOBS=$(JOBS) \
		$(CARGO) test --release --features flaws --test sim -- seeds_break_nothing --nocapture

sim-replay: ## SEED=.. [KEEP=..]: one scenario again; its trace is left under target/sim
	SEED=$(SEED) KEEP=$(KEEP) \
		$(CARGO) test --release --features flaws --test sim -- can_be_named_and_replayed --nocapture

prove: ## the models with their whole bounds, optimised, one after the other; prints the table of tests/model/RESULTS.md
	TICKWHEEL_PROVE=1 $(CARGO) test --release --test model -- --nocapture --test-threads=1

MINUTES ?= 10
fuzz: ## every decoder of outside bytes, MINUTES in all, from a random seed that is printed
	TICKWHEEL_FUZZ_MINUTES=$(MINUTES) $(CARGO) test --test fuzz -- --nocapture --test-threads=1

fault: ## three nodes on three servers of each kind, every fault alone, then together; FAULT="--minutes 30 --seed 7"
	$(STACK) fetch
	$(CARGO) test --test drill -- --all --minutes 5 $(FAULT)

audit: ## licences, banned and duplicate crates, sources (needs cargo-deny)
	$(CARGO) deny check bans licenses sources

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

overload: ## ten times the registrations that the embedded service sustains, for a minute; on a quiet machine
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	target/release/tickwheel-bench embedded --data-dir target --scenario overload --seconds 60

bench-peers: ## the service beside what a user would pick instead; PEERS="--peer redis" chooses
	bench/peers/setup
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	target/release/tickwheel-bench peers --data-dir target/peers-data --json target/peers.jsonl $(PEERS)

stack: ## real Cassandra and Kafka for hand work; prints their addresses
	$(STACK) up

stack-down: ## stops what `make stack` started
	$(STACK) down

demo: ## a service on this machine, a few tasks, each shown firing; stops by itself
	$(CARGO) build --bin tickwheel
	examples/demo.sh target/debug/tickwheel
