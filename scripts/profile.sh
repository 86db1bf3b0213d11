#!/usr/bin/env bash
# Counts which ways the hot path takes, in the cases of scripts/instructions.sh, and writes them for scripts/package.sh: the
# compiler then puts together what runs together. bench/JOURNEY.md says what is known of its effect.
# usage: scripts/profile.sh FILE
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# -eq 1 ]] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
# Of another version of LLVM it cannot read what the program writes.
tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
[[ -x $tools/llvm-profdata ]] || { echo "llvm-profdata is missing: rustup component add llvm-tools" >&2; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/profile
# Build scripts and macros count too, where nobody looks.
LLVM_PROFILE_FILE=/dev/null RUSTFLAGS="-Cprofile-generate" cargo build --release --package pmdns-bench --bin instructions
program=$CARGO_TARGET_DIR/release/instructions
for case in $("$program"); do LLVM_PROFILE_FILE=$folder/%p.profraw "$program" "$case" > /dev/null; done
"$tools/llvm-profdata" merge --output="$1" "$folder"/*.profraw
