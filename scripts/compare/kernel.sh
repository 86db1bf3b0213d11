# shellcheck shell=bash disable=SC2034,SC2154
# Forwarding caches on kernel sockets, one CPU each, asked by dnsperf: cached and cold. pmdns on AF_XDP beside them, same client.

mapfile -t CACHES < <(printf 'pmdns\nunbound\npdns-recursor\ndnsdist\n'; unless_quick bind knot-resolver)
DNSPERF_CLIENTS=10
# What fits the default receive buffer of a socket, so that the first burst loses nothing.
DNSPERF_OUTSTANDING=250
# How long dnsperf waits before it counts a query as lost.
DNSPERF_TIMEOUT=2

# dnsperf_run ARGUMENTS...: prints what it saw as fields of a result. Right answers are what counts.
dnsperf_run() {
    local TIMEFORMAT='%U %S %R'
    { time in_client dnsperf -s "$SERVER" -t "$DNSPERF_TIMEOUT" "$@" > "$lab/dnsperf" 2> "$lab/dnsperf.err"; } \
        2> "$lab/time" || true
    awk -v client="$(awk 'NF == 3 && $3 > 0 { printf "%.3f", ($1 + $2) / $3 }' "$lab/time")" '
        /Queries per second/ { rate = $4 }
        # NXDOMAIN is a right answer where a list asks for names that do not exist; SERVFAIL never is.
        /Response codes/ { for (i = 3; i < NF; i++) if ($i == "NOERROR" || $i == "NXDOMAIN") good += $(i + 1) }
        /Average Latency/ { latency = $4 * 1e6; least = $6 * 1e6; most = $8 * 1e6 }
        /Latency StdDev/ { deviation = $4 * 1e6 }
        /Queries lost/ { lost = $3 }
        /Queries completed/ { completed = $3 }
        END {
            printf "rate=%.0f", completed ? rate * good / completed : 0
            printf " latency_us=%.1f latency_max_us=%.1f deviation_us=%.1f", latency, most, deviation
            printf " client_cpu=%s client_drops=%d completed=%d", client + 0, lost, completed
        }' "$lab/dnsperf"
}

# ask GROUP PROGRAM ARGUMENTS...: one run of dnsperf, recorded with what the server used, dropped and asked upstream.
ask() {
    local group=$1 program=$2 drops asked upstream_full seen usage
    shift 2
    drops=$(socket_drops)
    asked=$(upstream_queries)
    upstream_full=$(upstream_drops)
    mark_usage
    seen=$(dnsperf_run "$@")
    usage=$(usage_since_mark)
    still_runs || { not_run "$group" "$program" "it ended while it was measured"; return 0; }
    # shellcheck disable=SC2086,SC2046 # fields, each a word
    record "$group" "$program" $seen $usage $(drops_since "$drops") $(counters_now) \
        "upstream_queries=$(($(upstream_queries) - asked))" \
        "upstream_drops=$(($(upstream_drops) - upstream_full))" ${more-}
}

group_cached() {
    local program
    for program in "${CACHES[@]}"; do
        start "$program" || { not_run cached "$program" "it does not start here"; continue; }
        warm names
        ask cached "$program" -d "$lab/names" -l "$seconds" -c "$DNSPERF_CLIENTS" -q "$DNSPERF_OUTSTANDING"
        # The same server under a client that costs less.
        sweep_cached "$program"
        [[ $round -gt 1 ]] || latency_curve "$program"
        ask_mixed "$program"
        stop
    done
}

# The same server under what clients send. dnsperf gives all its queries an OPT record, or none of them.
ask_mixed() {
    warm mixed
    ask cached_mixed "$1" -e -d "$lab/mixed" -l "$seconds" -c "$DNSPERF_CLIENTS" -q "$DNSPERF_OUTSTANDING"
}

# kxdpgun reaches a kernel socket as well as an XDP one.
sweep_cached() {
    local KXDPGUN_RATES=(200000 800000)
    [[ $quick == no ]] || KXDPGUN_RATES=(400000)
    [[ $1 == pmdns ]] || sweep cached_kxdpgun "$1"
}

# Mean latency as dnsperf sees it, at shares of what the server did: a first curve; percentiles are pmdns-load's.
latency_curve() {
    local rate share
    [[ $quick == no ]] || return 0
    rate=$(awk '/Queries per second/ { print int($4) }' "$lab/dnsperf")
    for share in 10 25 50 75 90; do
        more="offered=$((rate * share / 100))" ask cached_latency "$1" -d "$lab/names" -l 2 \
            -c "$DNSPERF_CLIENTS" -q "$DNSPERF_OUTSTANDING" -Q "$((rate * share / 100))"
    done
}

# Each name once, cache empty at start.
group_cold() {
    local program before kib
    # Room for all that is learnt, and no more: the index is a share of it.
    local cache_size=256MiB
    for program in "${CACHES[@]}" pmdns-one-cpu; do
        start "$program" || { not_run cold "$program" "it does not start here"; continue; }
        before=$(resident_kib "$server_pid")
        ask cold "$program" -d "$lab/cold" -n 1 -l "$seconds" -c "$DNSPERF_CLIENTS" -q "$DNSPERF_OUTSTANDING"
        kib=$(($(resident_kib "$server_pid") - before))
        bytes_an_answer "$program" "$kib"
        stop
    done
}

# M11 of the seeds: what the process grew by for each answer it learnt. pmdns takes its cache at start, so it tells itself.
bytes_an_answer() {
    local answers
    answers=$(awk '/Queries completed/ { print $3 }' "$lab/dnsperf")
    [[ ${answers:-0} -gt 1000 ]] || return 0
    case $1 in
        pmdns*)
            counters_now > /dev/null
            record cold_memory "$1" "rate=$(($(counter bytes_used) / $(counter entries)))" "completed=$answers" ;;
        *) record cold_memory "$1" "rate=$(($2 * 1024 / answers))" "completed=$answers" ;;
    esac
}

# A number of the one cache shard, from the counters just taken.
counter() { grep -o "\"$1\": *[0-9]*" "$lab/stats" | head -n 1 | grep -o '[0-9]*$'; }
