# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# New names, and one new name beside nine that are cached. All of the server is on one CPU, client and upstream on the other.
# One NSD for all, in the client's namespace. pmdns by port asks it over the clients' cable, everybody else over a second one.

UPSTREAM_ON_LINK=10.98.0.9
UPSTREAM_BEHIND=10.99.0.9
# Up to more than anybody answers.
if [[ $quick == yes ]]; then MISS_RATES=(100000 250000) MIXED_RATES=(400000 1000000); else
    MISS_RATES=(50000 100000 150000 250000) MIXED_RATES=(100000 200000 400000 700000 1000000)
fi
# Quick runs have them too: Knot Resolver is the best of those that verify replies.
MISS_PEERS=(unbound pdns-recursor dnsdist bind knot-resolver)

# Once for both groups.
set_up_misses() {
    [[ ! -e $lab/mixed ]] || return 0
    ip link add uB type veth peer name uA netns client
    ip address add 10.99.0.1/24 dev uB
    ip -n client address add "$UPSTREAM_BEHIND/24" dev uA
    ip link set uB up
    ip -n client link set uA up
    nsd_config "$lab/nsd-behind" "$UPSTREAM_ON_LINK@$upstream_port" "$UPSTREAM_BEHIND@$upstream_port"
    in_client nsd -d -c "$lab/nsd-behind/nsd.conf" 2> /dev/null &
    ln "$lab/cold" "$lab/miss"
    beside_hits < "$lab/cold" > "$lab/mixed"
    local rate
    for rate in "${MISS_RATES[@]}"; do new_names "r$rate-" $((rate * KXDPGUN_SECONDS)) > "$lab/miss-$rate"; done
    for rate in "${MIXED_RATES[@]}"; do
        new_names "r$rate-" $((rate * KXDPGUN_SECONDS / 10 + 1)) | beside_hits > "$lab/mixed-$rate"
    done
}

# new_names PREFIX COUNT: names that exist, because any below cold does.
new_names() { seq -f "$1%07.0f.cold.example. A" 1 "$2"; }

# Each line behind nine of the names that all have been asked before.
beside_hits() {
    awk -v names="$lab/names" '
        function hit() { if ((getline line < names) < 1) { close(names); getline line < names } return line }
        { for (i = 0; i < 9; i++) print hit(); print }'
}

group_miss() { ask_new_names miss "${MISS_RATES[@]}"; }

group_mixed() { ask_new_names mixed "${MIXED_RATES[@]}"; }

# ask_new_names GROUP RATE...: each server by dnsperf, and by kxdpgun at these rates.
ask_new_names() {
    local group=$1 program cache_size=256MiB KXDPGUN_RATES=("${@:2}") list=$1
    # kxdpgun takes whatever comes to ports above 2000.
    local upstream=$UPSTREAM_BEHIND upstream_port=1053 upstream_folder=$lab/nsd-behind
    set_up_misses
    most_of_client_and_upstream
    for program in pmdns-by-port pmdns-by-sockets "${MISS_PEERS[@]}"; do
        start "$program" || { not_run "$group" "$program" "it does not start here"; continue; }
        [[ $group == miss ]] || warm names
        ask_once "$group" "$program"
        sweep "${group}_kxdpgun" "$program"
        stop
    done
}

# What client and upstream do together without a server between them, on the one CPU that they share.
most_of_client_and_upstream() {
    local SERVER=$UPSTREAM_BEHIND server_pid=$$ server_name=nsd
    ask_once "${group}_limit" "dnsperf at NSD" -p "$upstream_port"
}

# ask_once GROUP PROGRAM ARGUMENTS...: dnsperf asks for the names of the list once.
ask_once() {
    ask "$@" -d "$lab/$list" -n 1 -l "$seconds" -c "$DNSPERF_CLIENTS" -q "$DNSPERF_OUTSTANDING"
}
