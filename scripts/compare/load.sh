# shellcheck shell=bash disable=SC2034,SC2154
# Latency against load and goodput past saturation: pmdns-load asks pmdns over virtio-user, an open loop that checks every answer.

# What latency is measured at, and what lies past the ceiling.
LOAD_SHARES=(10 20 30 40 50 60 70 80 90 95) LOAD_MORE_SHARES=()
if [[ $quick == yes ]]; then
    LOAD_SECONDS=3 LOAD_STEP_SECONDS=1
else
    LOAD_SECONDS=${PMDNS_LOAD_SECONDS:-20} LOAD_STEP_SECONDS=3 LOAD_MORE_SHARES=(100 125 200)
fi

# load_run NAME SERVER ARGUMENTS...: the generator is the vhost side and starts first, the server follows. The report goes to
# $output/load-NAME-ROUND.json.
load_run() {
    local file=$output/load-$1-$round.json generator server=$2
    shift 2
    rm -f "$lab/v.sock"
    "$target/pmdns-load" "$@" --core "$client_cpu" --device "net_vhost0,iface=$lab/v.sock,queues=1" \
        --eal "--no-pci --in-memory --huge-dir $huge --file-prefix=load -m 512" --server 10.77.0.2 \
        --queries "$lab/names" --zone "$lab/zone" --json "$file" > "$lab/load.log" 2>&1 < /dev/null &
    generator=$!
    until [[ -S $lab/v.sock ]]; do
        kill -0 "$generator" 2> /dev/null || break
        sleep 0.1
    done
    "$server" > "$lab/out" 2> "$lab/err" < /dev/null &
    server_pid=$!
    # Its exit code says whether the run is valid; so does its report.
    wait "$generator" || true
    stop
    [[ -s $file ]] || tail -n 5 "$lab/load.log" "$lab/err" >&2
}

reflect() { our_forward reflect; }

# The ceiling that a report tells of; nothing if it has none.
ceiling_of() { grep -A 3 '"ceiling": *{' "$1" | grep -o '"rate": *[0-9]*' | grep -o '[0-9]*$' || true; }

# Phases first, in the first round: the ceiling that they find is what the shares are of. At each share our plain loop
# answers as well.
group_load() {
    local share
    if [[ $round -eq 1 ]]; then
        load_run phases one_core phases --seconds "$LOAD_SECONDS" --step-seconds "$LOAD_STEP_SECONDS"
        ceiling=$(ceiling_of "$output/load-phases-1.json")
    fi
    [[ ${ceiling:-0} -gt 0 ]] || { not_run load pmdns-load "it found no ceiling"; return 0; }
    say "load         ceiling $ceiling queries/s"
    for share in "${LOAD_SHARES[@]}" "${LOAD_MORE_SHARES[@]}"; do
        load_run "$share" one_core run --rate $((ceiling * share / 100)) --seconds "$LOAD_STEP_SECONDS"
        [[ $share -ge 100 ]] ||
            load_run "forward-$share" reflect run --reflector --rate $((ceiling * share / 100)) --seconds "$LOAD_STEP_SECONDS"
    done
}
