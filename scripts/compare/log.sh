# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# The cost of the query log: kxdpgun asks pmdns on AF_XDP for cached names. It does so without a
# log, with each sink, and with a sample of one in 1,000. The log's threads and the dnstap reader run on the
# client's CPU, so the client is slower too. So compare CPU shares of the server and its instructions
# (`turn_logged`) as well. M10 of the group `seeds` is here because it needs a log.

LOG_READER_PID=

# start_reader: takes dnstap frames and throws them away.
start_reader() {
    rm -f "$lab/dnstap.sock"
    taskset -c "$client_cpu" fstrm_capture -t protobuf:dnstap.Dnstap -u "$lab/dnstap.sock" -w /dev/null > /dev/null 2>&1 &
    LOG_READER_PID=$!
    until [[ -S $lab/dnstap.sock ]]; do sleep 0.1; done
}

stop_reader() {
    [[ -n $LOG_READER_PID ]] || return 0
    kill "$LOG_READER_PID"
    wait "$LOG_READER_PID" || true
    LOG_READER_PID=
}

# log_settings NAME: the table of a program of this group.
log_settings() {
    case "$1" in
        off) return 0 ;;
        dnstap) echo "dnstap = \"$lab/dnstap.sock\"" ;;
        dnstap-sample) printf 'dnstap = "%s"\nsample = 1000\n' "$lab/dnstap.sock" ;;
        json) echo "json = \"$lab/log.json\"" ;;
        sqlite) echo "sqlite = \"$lab/log.db\"" ;;
    esac
}

# start_logging NAME: pmdns with that log.
start_logging() {
    local settings
    settings=$(log_settings "$1")
    pmdns_extra="${pmdns_more-}"
    [[ -z $settings ]] || pmdns_extra+="
[query_log]
ring = 1048576
$settings"
    [[ $1 != dnstap* ]] || start_reader
    start pmdns
}

stop_logging() {
    stop
    stop_reader
    rm -f "$lab"/log.json* "$lab"/log.db*
}

group_log() {
    local name pmdns_extra pmdns_more=
    for name in off dnstap dnstap-sample $(unless_quick json sqlite); do
        start_logging "$name" || { not_run log "$name" "it does not start here"; stop_reader; continue; }
        warm names
        sweep log "$name"
        stop_logging
    done
}

# M10: 410,000 names by Zipf's law (0.9), a quarter of the queries for blocked names.
# It runs without rules, with a million, and with the log.
M10_NAMES=410000
M10_RULES=1000000

m10_lists() {
    [[ ! -e $lab/m10 ]] || return 0
    seq -f 'r%.0f.blocked.example' 1 "$M10_RULES" > "$lab/m10-rules"
    awk -v names="$M10_NAMES" -v rules="$M10_RULES" 'BEGIN {
        srand(10); power = 1 - 0.9; most = names ^ power
        for (i = 0; i < 2 * names; i++) {
            if (rand() < 0.25) printf "r%d.blocked.example. A\n", 1 + int(rand() * rules)
            else printf "m%d.cold.example. A\n", int((rand() * (most - 1) + 1) ^ (1 / power))
        } }' > "$lab/m10"
}

method_m10() {
    local name rules="[[blocklist]]
file = \"$lab/m10-rules\"" cache_size=512MiB pmdns_extra pmdns_more
    m10_lists
    for name in A B C; do
        pmdns_more=
        [[ $name == A ]] || pmdns_more=$rules
        if [[ $name == C ]]; then start_logging sqlite; else start_logging off; fi || {
            not_run seeds "M10 $name" "it does not start here"
            continue
        }
        seed "M10 $name" pmdns "$lab/m10" -c 10 -T 2 -q 1000
        stop_logging
    done
}
