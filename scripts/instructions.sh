#!/usr/bin/env bash
# Counts the instructions of the hot path under callgrind and compares them with bench/instructions.toml. Unlike
# times, the counts are the same on a busy machine. Fails if a case takes over 10 % more than the baseline, or is not in it.
#
# usage: scripts/instructions.sh [--accept] [CASE]...
#   --accept   write the counts into the baseline; bench/JOURNEY.md then has to say why they changed
set -euo pipefail
cd "$(dirname "$0")/.."

baseline=bench/instructions.toml
tolerance=10
accept=no
[[ ${1-} != --accept ]] || { accept=yes; shift; }
[[ ${1-} != -* ]] || { sed -n '2,6s/^# //p' scripts/instructions.sh >&2; exit 2; }

command -v valgrind > /dev/null || scripts/install.sh --lab
cargo build --quiet --release --package pmdns-bench --bin instructions
program=${CARGO_TARGET_DIR:-target}/release/instructions
mapfile -t all < <("$program")
cases=("$@")
[[ ${#cases[@]} -gt 0 ]] || cases=("${all[@]}")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Instructions of one packet, name or entry of a case, into a file.
count() {
    local units
    if ! units=$(valgrind --tool=callgrind --callgrind-out-file="$folder/$1" --collect-atstart=no \
        --toggle-collect='*instructions*measured*' "$program" "$1" 2> "$folder/$1.log"); then
        cat "$folder/$1.log" >&2
        return 1
    fi
    awk -v units="$units" '$1 == "totals:" || $1 == "summary:" { total = $2 }
        END { if (total > 0) printf "%.1f\n", total / units; else exit 1 }' "$folder/$1" > "$folder/$1.count" ||
        { echo "nothing was counted in $1: is the function \`measured\` gone?" >&2; return 1; }
}

# One case on each CPU: other programs change no count.
export -f count
export program folder
printf '%s\n' "${cases[@]}" | xargs -P "$(nproc)" -I{} bash -c 'count {}'

accepted() {
    awk -v name="$1" '$1 == name && $2 == "=" { print $3 }' "$baseline" 2> /dev/null || true
}

failed=0
improved=0
: > "$folder/counts"
printf '%-20s %12s %12s %9s\n' 'instructions each' baseline now change
for name in "${cases[@]}"; do
    now=$(< "$folder/$name.count")
    before=$(accepted "$name")
    echo "$name = $now" >> "$folder/counts"
    if [[ -z $before ]]; then
        printf '%-20s %12s %12s %9s\n' "$name" none "$now" NEW
        failed=1
        continue
    fi
    change=$(awk -v a="$now" -v b="$before" 'BEGIN { printf "%+.1f", 100 * (a / b - 1) }')
    verdict=
    if awk -v change="$change" -v limit="$tolerance" 'BEGIN { exit !(change > limit) }'; then
        verdict=MORE
        failed=1
    elif awk -v change="$change" -v limit="$tolerance" 'BEGIN { exit !(change < -limit) }'; then
        verdict=LESS
        improved=1
    fi
    printf '%-20s %12s %12s %8s%% %s\n' "$name" "$before" "$now" "$change" "$verdict"
done

if [[ $accept == yes ]]; then
    {
        echo "# Instructions of one packet, name or entry: what scripts/instructions.sh compares with. Written by its"
        echo "# --accept; the reason for each change stands in bench/JOURNEY.md."
        echo "[instructions]"
        for name in "${all[@]}"; do
            grep "^$name = " "$folder/counts" || { old=$(accepted "$name"); [[ -z $old ]] || echo "$name = $old"; }
        done
    } > "$folder/new"
    mv "$folder/new" "$baseline"
    echo "written to $baseline: say in bench/JOURNEY.md why"
elif [[ $failed -ne 0 ]]; then
    echo "more than $tolerance % above $baseline, or not in it. If there is a good reason:" >&2
    echo "  scripts/instructions.sh --accept      and the reason in bench/JOURNEY.md" >&2
    exit 1
elif [[ $improved -ne 0 ]]; then
    echo "more than $tolerance % below $baseline: keep it with scripts/instructions.sh --accept, and a line in bench/JOURNEY.md"
fi
