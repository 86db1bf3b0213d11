# shellcheck shell=bash disable=SC2154
# XDP on both ends of a veth pair. kxdpgun asks pmdns on AF_XDP and Knot DNS in XDP mode at rising rates.

if [[ $quick == yes ]]; then
    KXDPGUN_RATES=(400000 1200000)
    KXDPGUN_SECONDS=2
else
    KXDPGUN_RATES=(100000 200000 400000 800000 1600000)
    KXDPGUN_SECONDS=3
fi

# One run of kxdpgun at a rate; sets sent, replies (the right ones) and client_time (its CPU seconds). It asks for the lab's
# names, or for those of a list that is made for this rate.
kxdpgun_once() {
    local TIMEFORMAT='%U %S' asked=$lab/names
    [[ -z ${list-} ]] || asked=$lab/$list-$1
    { time in_client kxdpgun -t "$KXDPGUN_SECONDS" -Q "$1" -b 32 -F "$client_cpu" -i "$asked" "$SERVER" \
        > "$lab/kxdpgun" 2>&1; } 2> "$lab/time" || true
    sent=$(awk '/^total queries:/ { print $3 }' "$lab/kxdpgun")
    replies=$(awk '/^responded (NOERROR|NXDOMAIN):/ { right += $3 } END { print right + 0 }' "$lab/kxdpgun")
    client_time=$(awk '{ print $1 + $2 }' "$lab/time")
    [[ -n $sent ]] || { cat "$lab/kxdpgun" >&2; return 1; }
}

# sweep PREFIX PROGRAM: every rate into the group PREFIX_load, the best into PREFIX.
sweep() {
    local group=$1 program=$2 rate best=0 best_fields="" reply_rate fields drops
    for rate in "${KXDPGUN_RATES[@]}"; do
        mark_usage
        drops=$(socket_drops)
        kxdpgun_once "$rate" || continue
        still_runs || { not_run "$group" "$program" "it ended while it was measured"; return 0; }
        reply_rate=$((replies / KXDPGUN_SECONDS))
        # CPU shares are of the whole run, start and end included.
        fields="$(usage_since_mark) client_cpu=$(share_of 0 "$client_time" "$KXDPGUN_SECONDS")"
        fields+=" client_drops=$((sent - replies)) offered=$((sent / KXDPGUN_SECONDS)) $(drops_since "$drops")"
        # shellcheck disable=SC2086 # fields, each a word
        record "${group}_load" "$program" "rate=$reply_rate" $fields
        if [[ $reply_rate -gt $best ]]; then best=$reply_rate best_fields=$fields; fi
    done
    # shellcheck disable=SC2086,SC2046 # fields, each a word
    [[ $best -eq 0 ]] || record "$group" "$program" "rate=$best" $best_fields $(counters_now)
}

# warm LIST: everybody has answered every name once, so pmdns and the resolvers have them in their caches.
warm() {
    local _
    for _ in 1 2; do in_client dnsperf -s "$SERVER" -d "$lab/$1" -n 1 -q 200 -t 2 > /dev/null 2>&1; done
}

group_veth() {
    local program
    for program in pmdns knot-xdp; do
        start "$program" || { not_run veth "$program" "it does not start here"; continue; }
        warm names
        sweep veth "$program"
        stop
    done
}
