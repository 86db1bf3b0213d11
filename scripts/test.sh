#!/usr/bin/env bash
# Runs every test there is: formatting, lints, unit tests, the cache's model check, instruction counts, fuzzing, the labs.
# Installs what is missing. --fast leaves out the labs, the model check, the counts and the fuzzing.
set -euo pipefail
cd "$(dirname "$0")/.."

fast=no
case "${1-}" in
    "") ;;
    --fast) fast=yes ;;
    *) echo "usage: scripts/test.sh [--fast]" >&2; exit 2 ;;
esac

step() {
    printf '\n== %s (%d s)\n' "$*" "$SECONDS"
}

if [[ $fast == yes ]]; then scripts/install.sh; else scripts/install.sh --lab; fi

step formatting
cargo fmt --all --check
cargo fmt --manifest-path bench/fuzz/Cargo.toml --check
step scripts
if command -v shellcheck > /dev/null; then shellcheck scripts/*.sh scripts/compare/*.sh .ci/run; else echo "not installed"; fi
step lints
cargo clippy --workspace --all-targets -- -D warnings
step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
step tests
cargo test --workspace
step "tests without DPDK"
cargo test -p pmdns-config -p pmdns-nics -p pmdns-stages -p pmdns --no-default-features
[[ $fast == no ]] || exit 0

step "model check of what cores share"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --release -p pmdns-stages --no-default-features --test cache_loom

step "instruction counts"
scripts/instructions.sh

step "fuzzing, a minute each"
PMDNS_FUZZ_SEED=1 scripts/fuzz.sh 60

step labs
labs=(cargo test --release -p pmdns --test lab)
"${labs[@]}" --no-run
if [[ $(id -u) -ne 0 ]]; then
    # Only the labs need root: the built test is run by sudo, not cargo.
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E"
fi
"${labs[@]}" -- --include-ignored --test-threads=1 --nocapture
step "lab of the load generator"
cargo build --release -p pmdns -p pmdns-bench --bins
cargo test --release -p pmdns-bench --test lab -- --include-ignored --test-threads=1 --nocapture
step finished
