#!/usr/bin/env bash
# Compares pmdns with testpmd, other DNS servers and capsule on this machine: one server at a time, pinned apart from its client.
# As root, on an idle machine with 2 CPUs or more. Every lab has namespaces of its own; nothing is left behind.
set -euo pipefail
cd "$(dirname "$0")/.."

GROUPS_KNOWN=(virtio_user veth cached cold miss mixed streams log capsule load storm seeds)

usage() {
    cat >&2 <<- 'TEXT'
	usage: scripts/compare.sh [--quick] [--rounds N] [--json FILE] [--write] [GROUP...]
	  --quick   short runs of fewer programs, one round unless --rounds says otherwise: 12 minutes
	  --rounds  how often each program runs; programs take turns (3)
	  --json    where the ratios and the raw figures go (target/compare/compare.json)
	  --write   also write comparison.md and plots of docs/reports; without it they go to target/compare. On a busy machine it refuses
	  GROUP     virtio_user veth cached cold miss mixed streams log capsule load storm seeds; all of them if none is named
	TEXT
    exit 2
}

quick=no rounds='' json='' write=no groups=()
arguments=("$@")
while [[ $# -gt 0 ]]; do
    case "$1" in
        --quick) quick=yes; shift ;;
        --write) write=yes; shift ;;
        --rounds) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || usage; rounds=$2; shift 2 ;;
        --json) [[ $# -ge 2 ]] || usage; json=$2; shift 2 ;;
        -*) usage ;;
        *) [[ " ${GROUPS_KNOWN[*]} " == *" $1 "* ]] || usage; groups+=("$1"); shift ;;
    esac
done
[[ ${#groups[@]} -gt 0 ]] || groups=("${GROUPS_KNOWN[@]}")
[[ -n $rounds ]] || { [[ $quick == yes ]] && rounds=1 || rounds=3; }
built=${CARGO_TARGET_DIR:-target}
target=$built/release
# shellcheck disable=SC2034 # for scripts/compare/capsule.sh
capsule=$built/capsule/release/capsule-bench
output=$built/compare
[[ -n $json ]] || json=$output/compare.json

prepare() {
    [[ $(id -u) -eq 0 ]] || { echo "run as root: it makes network namespaces and reserves huge pages" >&2; exit 1; }
    [[ $(nproc) -ge 2 ]] || { echo "needs 2 CPUs: one for the server, one for the client" >&2; exit 1; }
    scripts/install.sh --peers
    cargo build --release --bins
    [[ " ${groups[*]} " != *" capsule "* ]] ||
        CARGO_TARGET_DIR=$built/capsule cargo build --release --locked --manifest-path bench/capsule/Cargo.toml
}

# The machine's huge pages are all that the namespaces do not give back by themselves.
run_isolated() {
    pages=$(< /proc/sys/vm/nr_hugepages)
    trap 'echo "$pages" > /proc/sys/vm/nr_hugepages' EXIT
    PMDNS_COMPARE_ISOLATED=yes unshare --net --mount --pid --fork --mount-proc --kill-child scripts/compare.sh "${arguments[@]}"
}

report() {
    local folder=$output older=()
    # Groups that did not run keep what the book has of them.
    [[ $write == no ]] || { folder=docs/reports; older=(docs/reports/plots/results.jsonl); }
    "$target/compare" "$raw" "${older[@]}" --load "$output"/load-*.json --json "$json" \
        --markdown "$folder/comparison.md" --plots "$folder/plots"
}

if [[ ${PMDNS_COMPARE_ISOLATED-} != yes ]]; then
    prepare
    run_isolated
    exit
fi
for part in common servers virtio_user quiet veth kernel misses streams log capsule load storm seeds; do
    # shellcheck source=/dev/null
    . "scripts/compare/$part.sh"
done
mkdir -p "$output"
raw=$output/raw.jsonl
: > "$raw"
rm -f "$output"/load-*.json
shopt -s nullglob
set_up_lab
measure_quiet
describe_machine
for group in "${groups[@]}"; do
    for ((round = 1; round <= rounds; round++)); do
        "group_$group"
    done
done
measure_end
report
