# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# The methods that other projects published, M1 to M15, as far as one machine can run them. The shapes of load are the same, with
# a local upstream instead of the Internet's. docs/reports/2026-11-benchmarks.md names the sources. Others are listed with
# the reason.

if [[ $quick == yes ]]; then SEEDS_SECONDS=2; else SEEDS_SECONDS=3; fi

# Records of the types that the lists ask for, under names of their own: s0 to s199.
seeds_zone() {
    seq 0 199 | awk '{
        printf "s%d A 192.0.2.%d\ns%d AAAA 2001:db8::%d\ns%d MX 10 ns\ns%d TXT \"v=%d\"\n", $1, $1, $1, $1, $1, $1, $1
        printf "z%d NS ns\n", $1 }'
    local name
    for name in ns1 ns2 ca ntp siem bastion; do echo "$name.internal A 10.0.0.1"; done
}

# types COUNT TYPE...: lines of a list.
typed() { seq 0 $(($1 - 1)) | awk -v letter="$2" -v type="$3" '{ printf "%s%d.example. %s\n", letter, $1, type }'; }

seeds_lists() {
    { typed 70 s A; typed 5 nx A; typed 10 s AAAA; typed 5 s MX; typed 5 s TXT; typed 5 s NS; } > "$lab/m1"
    { typed 154 s A; typed 11 s AAAA; typed 8 s MX; typed 7 s NS; typed 7 s TXT; } > "$lab/m9"
    printf '%s.internal.example. A\n' ns1 ns2 ca ntp siem bastion > "$lab/m3"
    typed 40 s A > "$lab/m5"
    typed 50 same A | sed 's/^same[0-9]*/same.cold/' > "$lab/m13"
}

# seed METHOD SERVER LIST ARGUMENTS...: one run of dnsperf over a list that has been asked before.
seed() {
    local method=$1 program=$2 list=$3
    shift 3
    in_client dnsperf -s "$SERVER" -d "$list" -n 2 -q 10 > /dev/null 2>&1 || true
    ask seeds "$method $program" -d "$list" -l "$SEEDS_SECONDS" "$@"
}

# with SERVER FUNCTION: runs the function while the server serves.
with() {
    start "$1" || { not_run seeds "$1" "it does not start here"; return 0; }
    "$2" "$1"
    stop
}

# M3, M4: the records stand in the server's own file.
local_records() {
    printf '[[local]]\nname = "%s.internal.example"\ntype = "A"\ndata = "10.0.0.1"\n' ns1 ns2 ca ntp siem bastion
}

# What is asked of every server that the sources compare; the same client for all.
methods_of_all() {
    local clients
    for clients in $(unless_quick 50 100 200) 10 250; do
        seed "M1 c=$clients" "$1" "$lab/m1" -c "$clients" -Q 500000
    done
    seed "M2 c=1" "$1" "$lab/m1" -c 1 -Q 500000
    seed M9 "$1" "$lab/m9" -c 10 -T 10 -q 1000
    one_in_flight "$1"
}

# M7: round trips one after another.
one_in_flight() {
    record seeds_latency "M7 $1" "rate=$(in_client "$target/round_trips" "$SERVER" s0.example. "$SEEDS_SECONDS")"
}

# Only pmdns: local records, several sources, and coalescing.
methods_of_pmdns() {
    methods_of_all "$1"
    seed M3 "$1" "$lab/m3" -c 20 -Q 100000
    eight_sources "$1"
    coalescing "$1"
}

# M4: eight clients with an address each, at once; the sum, and how evenly they were served.
eight_sources() {
    local host pids=() drops
    drops=$(socket_drops)
    mark_usage
    for host in 11 12 13 14 15 16 17 18; do
        in_client dnsperf -s "$SERVER" -a "10.98.0.$host" -d "$lab/m3" -l "$SEEDS_SECONDS" -c 20 -Q 20000 > "$lab/m4.$host" 2>&1 &
        pids+=($!)
    done
    wait "${pids[@]}" || true
    # shellcheck disable=SC2046 # fields, each a word
    record seeds "M4 $1" $(awk '/Queries per second/ { sum += $4; if (!n++ || $4 < low) low = $4; if ($4 > high) high = $4 }
        END { print "rate=" sum + 0, "low=" low + 0, "high=" high + 0 }' "$lab"/m4.*) $(usage_since_mark) \
        $(drops_since "$drops")
}

# M13: fifty clients ask the same new name at once; how often upstream was asked.
coalescing() {
    local before
    before=$(upstream_queries)
    in_client dnsperf -s "$SERVER" -d "$lab/m13" -n 1 -c 50 -q 50 > "$lab/dnsperf" 2>&1 || true
    record seeds_upstream "M13 $1" "rate=$(($(upstream_queries) - before))" \
        "completed=$(awk '/Queries completed/ { print $3 }' "$lab/dnsperf")"
}

# M6: what the log level costs.
log_levels() {
    local level
    for level in error info debug; do
        export PMDNS_LOG=$level
        start pmdns || continue
        seed "M6 $level" pmdns "$lab/m5" -c 4 -q 200
        stop
    done
    unset PMDNS_LOG
}

group_seeds() {
    local server
    local pmdns_extra
    pmdns_extra=$(local_records)
    seeds_lists
    with pmdns methods_of_pmdns
    for server in unbound $(unless_quick bind pdns-recursor); do with "$server" methods_of_all; done
    [[ $quick == yes ]] || { log_levels; method_m10; }
    seeds_not_run
}

seeds_not_run() {
    not_run seeds M5 "pmdns-load phases: four phases with percentiles and an open loop, which dnsperf has not"
    not_run seeds M8 "cargo bench -p pmdns-bench --bench wire"
    not_run seeds M11 "in the group cold: cold_memory"
    not_run seeds M12 "REST: lab api_speed; lists by URL and failover: labs api_calls and day; random misses: group cold"
    not_run seeds M14 "cargo run --release -p pmdns-bench --example eviction"
    not_run seeds M15 "cargo bench -p pmdns-bench --bench cache"
    not_run seeds "Blocky, AdGuard Home, Pi-hole, Runbound, ferrous-dns, rDNS" "no package in Debian"
    not_run seeds "real NICs, several hosts, 64 cores" "one machine with virtual links"
}
