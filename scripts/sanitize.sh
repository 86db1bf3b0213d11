#!/usr/bin/env bash
# Runs tests of what holds unsafe code or is shared between threads under a sanitizer of the compiler.
# usage: scripts/sanitize.sh address|thread
#
# Nightly Rust is used. The standard library itself is not instrumented: that needs its source, which is not everywhere.
# ThreadSanitizer then does not see what the library's own fences order, so scripts/sanitize-thread.txt leaves those
# reports out.
set -euo pipefail
cd "$(dirname "$0")/.."

sanitizer=${1-}
case "$sanitizer" in
    address) flags="-Zsanitizer=address" ;;
    thread)
        flags="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
        # The test harness hands tests to its threads by a channel of the standard library, which would be reported.
        export RUST_TEST_THREADS=1
        ;;
    *) echo "usage: scripts/sanitize.sh address|thread" >&2; exit 2 ;;
esac
if ! rustup toolchain list | grep -q '^nightly'; then
    echo "nightly Rust is missing: rustup toolchain install nightly" >&2
    exit 1
fi
host=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}/$sanitizer
# What lives as long as the process is no leak.
export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS="suppressions=$PWD/scripts/sanitize-thread.txt"

# run TEST...: with --target the flags are for the program and not for build scripts and macros.
run() {
    RUSTFLAGS=$flags CARGO_TARGET_DIR=$folder cargo +nightly test --target "$host" --no-default-features "$@"
}

if [[ $sanitizer == address ]]; then
    run -p pmdns-config -p pmdns-nics -p pmdns-stages --lib
    run -p pmdns-resolver -p pmdns --lib --test slowpath --test line
else
    run -p pmdns-nics --lib
    run -p pmdns-stages --lib cache
    run -p pmdns --lib ring
    run -p pmdns --test line
fi
