# shellcheck shell=bash disable=SC2034,SC2154
# Whether the machine is quiet: how much the seconds of testpmd macswap differ from each other. Nothing of pmdns takes part.

QUIET_SECONDS=10
# Between the slowest second and the fastest one, as a share of the median. Above it nothing is written into the book.
QUIET_SPREAD=0.25

# Sets spread, and refuses to go on if results shall be written and the machine is too busy for it.
measure_quiet() {
    local seconds=$QUIET_SECONDS
    measure_frames quiet macswap testpmd_forward macswap
    spread=$(awk -v RS=, -F: '{ figure[$1] = $2 + 0 } END {
        rate = figure["\"rate\""]; if (rate) printf "%.3f", (figure["\"high\""] - figure["\"low\""]) / rate }' "$raw")
    say "the seconds of macswap differ by ${spread:-nobody knows how much} of their median; at most $QUIET_SPREAD may be written"
    [[ $write == no ]] || awk -v spread="${spread:-9}" -v most="$QUIET_SPREAD" 'BEGIN { exit !(spread <= most) }' || {
        say "the machine is too busy for --write: end what else runs on it"
        exit 1
    }
}
