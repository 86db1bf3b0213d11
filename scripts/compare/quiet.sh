# shellcheck shell=bash disable=SC2034,SC2154
# Whether the machine is quiet: how much of its CPU testpmd macswap gets, and how much its seconds differ. Nothing of pmdns
# takes part.

QUIET_SECONDS=10
# Between the slowest second and the fastest one, as a share of the median. Above it nothing is written into the book.
QUIET_SPREAD=0.25
# The share of its CPU that testpmd has to get: on a machine that is evenly busy the seconds do not differ.
QUIET_CPU=0.95

# Sets quiet_facts, as JSON, and refuses to go on if results shall be written and the machine is too busy for it.
measure_quiet() {
    local seconds=$QUIET_SECONDS
    measure_frames quiet "macswap before" testpmd_forward macswap
    quiet_facts=$(awk -v RS=, -F: -v most="$QUIET_SPREAD" -v least="$QUIET_CPU" '{ gsub(/"/, ""); figure[$1] = $2 + 0 } END {
        spread = figure["rate"] ? (figure["high"] - figure["low"]) / figure["rate"] : 9
        cpu = figure["server_cpu"]
        printf "{\"is_quiet\":%s,", (spread <= most && cpu >= least) ? "true" : "false"
        printf "\"spread\":%.3f,\"most_spread\":%s,\"cpu\":%.3f,\"least_cpu\":%s}", spread, most, cpu, least }' "$raw")
    say "quiet        $quiet_facts"
    [[ $write == no || $quiet_facts == *true* ]] || {
        say "the machine is too busy for --write: end what else runs on it"
        exit 1
    }
}

# The same after all else: a machine that was quiet need not stay so.
measure_end() {
    local seconds=$QUIET_SECONDS
    measure_frames quiet "macswap after" testpmd_forward macswap
}
