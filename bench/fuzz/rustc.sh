#!/bin/sh
# usage: rustc.sh RUSTC ARGUMENT...
# As RUSTC_WRAPPER: gives the flags in PMDNS_FUZZ_FLAGS to our own crates, and PMDNS_FUZZ_SANITIZER to those that hold frames and
# rings. The others forbid unsafe code; without AddressSanitizer they are compiled in less time, and run more often. The fuzzer
# is guided by what our crates do, so dependencies get no flag. Build scripts and macros, which cargo compiles without --target,
# are not fuzzed either.
# shellcheck disable=SC2086 # lists of words
case " ${CARGO_PKG_NAME-} $* " in
    " pmdns-nics "*" --target "* | " pmdns-stages "*" --target "* | " pmdns-engine "*" --target "* | " pmdns-fuzz "*" --target "*)
        exec "$@" $PMDNS_FUZZ_FLAGS ${PMDNS_FUZZ_SANITIZER-} ;;
    " pmdns"*" --target "*) exec "$@" $PMDNS_FUZZ_FLAGS ;;
    *) exec "$@" ;;
esac
