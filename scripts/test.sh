#!/usr/bin/env bash
# Runs every test there is: formatting, lints, unit tests, the cache's model check, instruction counts, fuzzing, the labs.
# Installs what is missing. --fast leaves out the labs, the model check, the counts and the fuzzing. `vm` runs nothing but
# the labs on bound NICs, both of them; all tests include the first only.
set -euo pipefail
cd "$(dirname "$0")/.."

fast=no
vm=no
case "${1-}" in
    "") ;;
    vm) vm=yes ;;
    --fast) fast=yes ;;
    *) echo "usage: scripts/test.sh [--fast|vm]" >&2; exit 2 ;;
esac

step() {
    printf '\n== %s (%d s)\n' "$*" "$SECONDS"
}

# An emulated machine is an x86-64 one.
labs=--lab
[[ $(uname -m) != x86_64 ]] || labs=--vm
if [[ $fast == yes ]]; then scripts/install.sh; else scripts/install.sh "$labs"; fi

# Runs labs on bound NICs, with the program that is built.
labs_in_a_machine() {
    local as_root=()
    [[ $(id -u) -eq 0 ]] || as_root=(sudo -E)
    for lab in "$@"; do
        step "lab on bound NICs: $lab"
        "${as_root[@]}" scripts/lab-vm.sh "$lab"
    done
}

if [[ $vm == yes ]]; then
    cargo build --release -p pmdns
    labs_in_a_machine pci bridge
    exit
fi

step formatting
cargo fmt --all --check
cargo fmt --manifest-path bench/fuzz/Cargo.toml --check
step scripts
if command -v shellcheck > /dev/null; then shellcheck -x scripts/*.sh scripts/compare/*.sh pipeline/tests/vm/*.sh .ci/run; else echo "not installed"; fi
step lints
cargo clippy --workspace --all-targets -- -D warnings
step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
step tests
cargo test --workspace
step "tests without DPDK"
# All of it has to build, and the unit tests are run again. The others know nothing of DPDK.
without_dpdk=(-p pmdns-config -p pmdns-nics -p pmdns-stages -p pmdns-resolver -p pmdns --no-default-features)
cargo check --all-targets "${without_dpdk[@]}"
cargo test --lib "${without_dpdk[@]}"
[[ $fast == no ]] || exit 0

step "model check of what cores share"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --release -p pmdns-stages --no-default-features --test cache_loom

step "instruction counts"
scripts/instructions.sh

step "fuzzing, a minute each"
PMDNS_FUZZ_SEED=1 scripts/fuzz.sh 60

step "validation beside Unbound"
cargo test -p pmdns-validator --test mutation -- --ignored

step labs
lab_tests=(cargo test --release -p pmdns --test lab)
"${lab_tests[@]}" --no-run
if [[ $(id -u) -ne 0 ]]; then
    # Only the labs need root: the built test is run by sudo, not cargo.
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E"
fi
"${lab_tests[@]}" -- --include-ignored --test-threads=1 --nocapture
step "lab of the load generator"
cargo build --release -p pmdns -p pmdns-bench --bins
cargo test --release -p pmdns-bench --test lab -- --include-ignored --test-threads=1 --nocapture
[[ $labs != --vm ]] || labs_in_a_machine pci
step finished
