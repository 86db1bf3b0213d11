#!/bin/sh
# usage: rustc.sh RUSTC ARGUMENT...
# As RUSTC_WRAPPER: gives the flags in PMDNS_FUZZ_FLAGS to our own crates. The fuzzer is guided by what they do, and all others
# are built in less time without. Build scripts and macros, which cargo compiles without --target, are not fuzzed either.
# shellcheck disable=SC2086 # a list of words
case " ${CARGO_PKG_NAME-} $* " in
    " pmdns"*" --target "*) exec "$@" $PMDNS_FUZZ_FLAGS ;;
    *) exec "$@" ;;
esac
