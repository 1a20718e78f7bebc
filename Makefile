# What people and CI call. `make test` is the whole gate and every test; the others are its parts.
# Real servers are started by tests/stack/stack from their Maven artifacts: Java 17 and Maven are all they need.

CARGO ?= cargo
STACK := tests/stack/stack

.PHONY: check test fault audit stack stack-down bench demo

check: ## format, lint, docs, tidy: the quick part of the gate
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(CARGO) test --quiet --test tidy

test: check ## the gate and every test, on real Cassandra and Kafka
	$(STACK) fetch
	$(CARGO) build --workspace --all-targets
	$(STACK) run --durable -- $(CARGO) test --workspace --no-fail-fast

fault: ## three nodes on three servers of each kind, every fault alone, then together; FAULT="--minutes 30 --seed 7"
	$(STACK) fetch
	$(CARGO) test --test drill -- --all --minutes 5 $(FAULT)

audit: ## licences, banned and duplicate crates, sources (needs cargo-deny)
	$(CARGO) deny check bans licenses sources

bench: ## the load scenarios, on a fresh Cassandra and Kafka; BENCH="--scenario fire" chooses
	$(STACK) fetch
	$(CARGO) build --release -p tickwheel -p tickwheel-bench --bins
	$(STACK) run --measure -- target/release/tickwheel-bench run --json target/bench.jsonl $(BENCH)

stack: ## real Cassandra and Kafka for hand work; prints their addresses
	$(STACK) up

stack-down: ## stops what `make stack` started
	$(STACK) down

demo: ## a service on this machine, a few tasks, each shown firing; stops by itself
	$(CARGO) build --quiet --bin tickwheel
	examples/demo.sh target/debug/tickwheel
