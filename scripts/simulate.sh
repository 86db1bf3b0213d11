#!/usr/bin/env bash
# Runs histories of the simulator until one fails or the time is over, and prints how many there were.
#
# usage: scripts/simulate.sh HOURS | --seconds SECONDS [--from SEED]
#
# It begins at SEED, or at a random seed, which it prints. PMDNS_SEED=n replays only that one, with its trace (docs/simulator.md).
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    sed -n '4p' "$0" | sed 's/^# //' >&2
    exit 2
}

seconds="" from=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
while [[ $# -gt 0 ]]; do
    case "$1 ${2-}" in
        "--seconds "[0-9]*) seconds=$2 && shift ;;
        "--from "[0-9]*) from=$2 && shift ;;
        [0-9]*) seconds=$(awk -v hours="$1" 'BEGIN { printf "%d", hours * 3600 }') ;;
        *) usage ;;
    esac
    shift
done
[[ $seconds ]] || usage

# What `scripts/test.sh tests` has built already.
build=(cargo test --workspace --test simulator)
"${build[@]}" --no-run
[[ ${PMDNS_SEED-} ]] || echo "from seed $from on, for $seconds s"
PMDNS_SIMULATOR_SECONDS=$seconds PMDNS_FIRST_SEED=$from RUST_BACKTRACE=${RUST_BACKTRACE-0} \
    "${build[@]}" -- --nocapture histories
