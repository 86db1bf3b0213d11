# shellcheck shell=bash disable=SC2034,SC2154
# Latency against load and goodput past saturation: pmdns-load asks pmdns over virtio-user, an open loop that checks every answer.

if [[ $quick == yes ]]; then
    LOAD_SECONDS=3 LOAD_STEP_SECONDS=1 LOAD_SHARES=(50)
else
    LOAD_SECONDS=${PMDNS_LOAD_SECONDS:-20} LOAD_STEP_SECONDS=3 LOAD_SHARES=(10 25 50 75 90 100 125 200)
fi

# The generator is the vhost side and starts first; pmdns follows. load_run FILE COMMAND ARGUMENTS...
load_run() {
    local file=$1 generator
    shift
    rm -f "$lab/v.sock"
    "$target/pmdns-load" "$@" --core "$client_cpu" --device "net_vhost0,iface=$lab/v.sock,queues=1" \
        --eal "--no-pci --in-memory --huge-dir $huge --file-prefix=load -m 512" --server 10.77.0.2 \
        --queries "$lab/names" --zone "$lab/zone" --json "$file" > "$lab/load.log" 2>&1 < /dev/null &
    generator=$!
    until [[ -S $lab/v.sock ]]; do
        kill -0 "$generator" 2> /dev/null || break
        sleep 0.1
    done
    fused > "$lab/out" 2> "$lab/err" < /dev/null &
    server_pid=$!
    server_name=pmdns
    # Its exit code says whether the run is valid; so does its report.
    wait "$generator" || true
    stop
    [[ -s $file ]] || tail -n 5 "$lab/load.log" "$lab/err" >&2
}

# Phases first: the ceiling that they find is what the shares are of.
group_load() {
    local ceiling share
    [[ $round -eq 1 ]] || return 0
    [[ -x $target/pmdns-load ]] || { not_run load pmdns-load "it has not been built"; return 0; }
    load_run "$output/load-phases.json" phases --seconds "$LOAD_SECONDS" --step-seconds "$LOAD_STEP_SECONDS"
    ceiling=$(grep -A 3 '"ceiling": *{' "$output/load-phases.json" | grep -o '"rate": *[0-9]*' | grep -o '[0-9]*$' || true)
    [[ ${ceiling:-0} -gt 0 ]] || { not_run load pmdns-load "it found no ceiling"; return 0; }
    say "load         ceiling $ceiling queries/s"
    for share in "${LOAD_SHARES[@]}"; do
        load_run "$output/load-$share.json" run --rate $((ceiling * share / 100)) --seconds "$LOAD_STEP_SECONDS"
    done
}
