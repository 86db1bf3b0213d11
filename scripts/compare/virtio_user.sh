# shellcheck shell=bash disable=SC2034,SC2154
# Frames per second over virtio-user. A testpmd generator plays queries into a vhost port, for ever. The program under test
# sends each frame back, or its answer. Both figures are testpmd's own counters.

VIRTIO="net_virtio_user0,path=$lab/v.sock,queues=1,queue_size=1024"
DPDK=(-n 2 --in-memory --huge-dir "$huge" --no-pci)
# Seconds in which EAL starts and the cache learns its names.
SETTLE_SECONDS=2

virtio_config() {
    pmdns_config "[[port]]
name = \"virtio\"
device = \"$VIRTIO,mac=02:00:00:00:00:01\"
addresses = [\"10.77.0.2/24\"]
$1" > "$lab/pmdns.toml"
}

start_generator() {
    rm -f "$lab/v.sock"
    dpdk-testpmd --lcores "0@$client_cpu,1@$client_cpu" "${DPDK[@]}" --file-prefix=gen -m 512 \
        --vdev="net_pcap0,rx_pcap=$lab/${capture-queries}.pcap,infinite_rx=1" \
        --vdev="net_vhost1,iface=$lab/v.sock,queues=1" -- --forward-mode=io --total-num-mbufs=32768 \
        --no-flush-rx --auto-start --stats-period 1 > "$lab/generator.log" 2>&1 < /dev/null &
    generator=$!
    until [[ -S $lab/v.sock ]]; do
        kill -0 "$generator" 2> /dev/null || { tail -n 5 "$lab/generator.log" >&2; return 1; }
        sleep 0.1
    done
}

# Frames per second that came back, one number a second. Every second Rx-pps line is port 1's.
returned_rates() { grep -a Rx-pps "$lab/generator.log" | awk 'NR % 2 == 0 { print $2 }'; }

# The generator's frames that the vhost port had no room for: the last TX-dropped of its report.
generator_drops() {
    grep -a 'TX-dropped' "$lab/generator.log" |
        awk '{ for (i = 1; i < NF; i++) if ($i == "TX-dropped:") last = $(i + 1) } END { print last + 0 }'
}

# measure_frames GROUP PROGRAM COMMAND...: the median of the seconds is the round's rate.
measure_frames() {
    local group=$1 program=$2 first usage rates
    shift 2
    start_generator || return 0
    "$@" > "$lab/out" 2> "$lab/err" < /dev/null &
    server_pid=$!
    sleep "$SETTLE_SECONDS"
    first=$(returned_rates | wc -l)
    mark_usage
    sleep "$seconds"
    usage=$(usage_since_mark)
    rates=$(returned_rates | tail -n "+$((first + 2))" | sort -n |
        awk '{ all[NR] = $1 } END { if (NR) print "rate=" all[int((NR + 1) / 2)], "low=" all[1], "high=" all[NR] }')
    stop
    kill "$generator" 2> /dev/null || true
    wait "$generator" 2> /dev/null || true
    if [[ -z $rates ]]; then
        tail -n 5 "$lab/out" "$lab/err" >&2
        not_run "$group" "$program" "it did not run; see the output"
        return 0
    fi
    # shellcheck disable=SC2086 # fields, each a word
    record "$group" "$program" $rates $usage "client_drops=$(generator_drops)" "server_drops=$(forward_drops)" "$(counters_of)"
}

# What a testpmd under test could neither take nor send; pmdns's own drops are in its counters.
forward_drops() {
    grep -a 'RX-dropped\|TX-dropped' "$lab/out" | tail -n 2 |
        awk '{ for (i = 1; i < NF; i++) if ($i ~ /^[RT]X-dropped:$/) sum += $(i + 1) } END { if (NR) print sum }'
}

# The final counters of pmdns, if that is what ran.
counters_of() {
    if [[ $(head -c 1 "$lab/out") == '{' ]]; then echo "counters=$lab/out"; else echo "counters="; fi
}

testpmd_forward() {
    exec dpdk-testpmd --lcores "0@$server_cpu,1@$server_cpu" "${DPDK[@]}" --single-file-segments \
        --file-prefix=fwd -m 512 --vdev="$VIRTIO" \
        -- --forward-mode="$1" --auto-start --stats-period 60 --total-num-mbufs=16384
}

virtio_pmdns() {
    virtio_config "$1"
    exec "$target/pmdns" run -c "$lab/pmdns.toml" --json
}

fused() {
    virtio_pmdns "[[placement]]
cores = [$server_cpu]
idle = \"spin\"
[slowpath]
cores = [$client_cpu]"
}

# All of pmdns on the server's CPU: a slow path thread on the generator's would take its time in the middle of a measured latency.
one_core() {
    virtio_pmdns "[[placement]]
cores = [$server_cpu]
idle = \"spin\"
resolver = true"
}

split() {
    virtio_pmdns "[[placement]]
stages = \"parse..ratelimit\"
cores = [$server_cpu]
idle = \"spin\"
[[placement]]
stages = \"lookup..encode\"
cores = [$second_cpu]
idle = \"spin\"
[slowpath]
cores = [$client_cpu]"
}

group_virtio_user() {
    local mode capture=queries
    for mode in macswap 5tswap; do measure_frames virtio_user "$mode" testpmd_forward "$mode"; done
    measure_frames virtio_user pmdns-fused fused
    measure_frames virtio_user pmdns-one-core one_core
    if [[ $second_cpu != "$client_cpu" ]]; then
        measure_frames virtio_user pmdns-split split
    else
        # Two poll loops on the generator's CPU take turns of milliseconds: no figure to compare, but it must work.
        measure_frames virtio_user pmdns-split-shared split
    fi
    # What clients send: names of many lengths, three types, CNAME chains, OPT records with and without options.
    capture=mixed
    measure_frames virtio_user_mixed macswap testpmd_forward macswap
    measure_frames virtio_user_mixed pmdns-fused fused
}
