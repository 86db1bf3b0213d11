#!/usr/bin/env bash
# Runs tests of what holds unsafe code or is shared between threads under a sanitizer of the compiler.
# usage: scripts/sanitize.sh address|thread|lab
#
# lab: AddressSanitizer over labs that serve real ports, with DPDK and with dropped privileges. It needs root or sudo.
#
# Nightly Rust is used. The standard library itself is not instrumented: that needs its source, which is not everywhere.
# ThreadSanitizer then does not see what the library's own fences order, so scripts/sanitize-thread.txt leaves those
# reports out.
set -euo pipefail
cd "$(dirname "$0")/.."

sanitizer=${1-}
case "$sanitizer" in
    address | lab) flags="-Zsanitizer=address" ;;
    thread)
        flags="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
        # The test harness hands tests to its threads by a channel of the standard library, which would be reported.
        export RUST_TEST_THREADS=1
        ;;
    *) echo "usage: scripts/sanitize.sh address|thread|lab" >&2; exit 2 ;;
esac
if ! rustup toolchain list | grep -q '^nightly'; then
    echo "nightly Rust is missing: rustup toolchain install nightly" >&2
    exit 1
fi
host=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}/${sanitizer/lab/address}
# What lives as long as the process is no leak.
export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS="suppressions=$PWD/scripts/sanitize-thread.txt"

# test_with ARGUMENT...: with --target the flags are for the program and not for build scripts and macros.
test_with() {
    RUSTFLAGS=$flags CARGO_TARGET_DIR=$folder cargo +nightly test --target "$host" "$@"
}
run() { test_with --no-default-features "$@"; }

if [[ $sanitizer == lab ]]; then
    if [[ $(id -u) -ne 0 ]]; then
        runner=CARGO_TARGET_$(tr a-z- A-Z_ <<< "$host")_RUNNER
        export "$runner=sudo -E"
    fi
    test_with -p pmdns --test lab -- --include-ignored --test-threads=1 --nocapture \
        tap:: upstreams:: malformed privileges::audit_12_a
elif [[ $sanitizer == address ]]; then
    run -p pmdns-config -p pmdns-import -p pmdns-nics -p pmdns-stages --lib
    run -p pmdns-resolver -p pmdns-engine --lib
    run -p pmdns-engine --test all -- slowpath:: kernel:: line::
    run -p pmdns-encrypted --lib --test upstreams
    run -p pmdns --lib
else
    run -p pmdns-nics --lib
    run -p pmdns-stages --lib cache
    run -p pmdns-engine --lib ring
    run -p pmdns-engine --test all -- line::
fi
