# Every target works on a fresh machine with the Rust toolchain alone; `make full` wants more tools.
CARGO ?= cargo

FUZZ_SECONDS ?= 60

.PHONY: help run test check full oracles fuzz build release clean
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Build and show the main job for real: three processes, one killed and brought back
	$(CARGO) run --quiet --locked -- demo

test: ## Every test; one that needs a missing program says that it skipped
	$(CARGO) test --locked

check: ## Format, lints, documentation, layers, licences and sources of dependencies
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items
	$(CARGO) test --locked --test tidy

full: release oracles ## Long sweeps and measurements; their output belongs in docs/measurements.md
	CROWNY_FED_FULL=1 $(CARGO) test --locked --release -- --nocapture
	benches/journal_size.py

oracles: ## Our notes, tiles and proofs, read and made anew by other people's libraries
	$(CARGO) clippy --locked --features oracles --test oracles -- -D warnings
	$(CARGO) test --locked --features oracles --test oracles --test tidy

fuzz: ## Every fuzz target for FUZZ_SECONDS (60) each; wants cargo-fuzz, not a nightly toolchain
	for target in line note proof body; do \
	  $(CARGO) fuzz run --fuzz-dir tests/fuzz -s none $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=20000 || exit 1; \
	done

build: ## Debug binary
	$(CARGO) build --locked

release: ## Release binary
	$(CARGO) build --locked --release

clean: ## Remove what was built
	$(CARGO) clean
