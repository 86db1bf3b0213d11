#!/usr/bin/env bash
# Fuzzes the parsers of outside bytes, guided by coverage. Each target of bench/fuzz runs for SECONDS (60), one on each CPU.
#
# usage: scripts/fuzz.sh [SECONDS [TARGET...]]
#
# Stable Rust is enough: the script gives the compiler the flags of cargo-fuzz. AddressSanitizer is on if the toolchain
# has it. The corpus stays in target/fuzz/corpus; the next run starts from it and from bench/fuzz/seeds. Inputs that failed
# are in target/fuzz/found. To replay one, run the program that this script names with the file as its argument.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1-60}
# 0: other inputs each time. A gate sets it, so that what it finds comes from the change it guards.
seed=${PMDNS_FUZZ_SEED-0}
[[ $seconds =~ ^[0-9]+$ ]] || { echo "usage: scripts/fuzz.sh [SECONDS [TARGET...]]" >&2; exit 2; }
targets=("${@:2}")
if [[ ${#targets[@]} -eq 0 ]]; then
    for file in bench/fuzz/src/targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

mkdir -p "${CARGO_TARGET_DIR:-target}/fuzz"
folder=$(cd "${CARGO_TARGET_DIR:-target}/fuzz" && pwd)
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
if compgen -G "$(rustc --print target-libdir)/librustc-*_rt.asan.a" > /dev/null; then
    # The only option here that stable Rust would not take.
    export RUSTC_BOOTSTRAP=1 PMDNS_FUZZ_SANITIZER=-Zsanitizer=address
fi
PMDNS_FUZZ_FLAGS=$flags RUSTC_WRAPPER=$PWD/bench/fuzz/rustc.sh cargo build --release --locked \
    --manifest-path bench/fuzz/Cargo.toml --target "$host" --target-dir "$folder/build"

# fuzz TARGET: runs one, and says in a line what came of it.
fuzz() {
    # Of most inputs, long ones show nothing that short ones do not. Replies have bounds that only whole messages reach.
    local log=$folder/$1.log status=0 longest=4096 cpu TIMEFORMAT='%0U %0S'
    [[ $1 != validator && $1 != reply ]] || longest=65540
    mkdir -p "$folder/corpus/$1" "$folder/found"
    # The rigs live as long as the process: what they hold is no leak.
    cpu=$({ time ASAN_OPTIONS=detect_leaks=0 "$programs/$1" -seed="$seed" -max_total_time="$seconds" -max_len="$longest" \
        -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$folder/found/$1-" \
        "$folder/corpus/$1" "bench/fuzz/seeds/$1" > "$log" 2>&1; } 2>&1) ||
        status=$?
    if ! grep -q 'INFO: Loaded .* inline 8-bit counters' "$log"; then
        echo "$1: compiled without counters, so nothing would guide it"
        status=1
    fi
    if [[ $status -ne 0 ]]; then
        # What went wrong, where, and in which file it is kept.
        grep -h -E -A 1 'panicked at|ERROR: |Test unit written' "$log" | cut -c1-200 || tail -n 20 "$log"
        echo "$1: FOUND SOMETHING; again with: $programs/$1 $folder/found/$1-..."
        return 1
    fi
    awk -v name="$1" -v cpu=$((${cpu/ /+})) '/^stat::number_of_executed_units/ { runs = $2 }
        { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "corp:") corpus = $(i + 1) } }
        END { printf "%s: %d runs in %d s of CPU time, %d edges, corpus %s\n", name, runs, cpu, cov, corpus }' "$log"
}
export -f fuzz
mkdir -p "$folder/programs"
# Some targets write a file for each input: in memory, where there is room for that.
TMPDIR=$(mktemp -d -p /dev/shm pmdns-fuzz.XXXXXX 2> /dev/null || mktemp -d "$folder/tmp.XXXXXX")
trap 'rm -rf "$TMPDIR"' EXIT
export folder seconds seed programs="$folder/programs" TMPDIR
# One program has all targets, and does the one that it is called by.
for target in "${targets[@]}"; do ln -sf "$folder/build/$host/release/pmdns-fuzz" "$programs/$target"; done
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
