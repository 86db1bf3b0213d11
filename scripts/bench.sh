#!/usr/bin/env bash
# Measures cached answers per second over virtio-user beside testpmd on the same link, in alternating rounds.
# usage: scripts/bench.sh [ROUNDS] [NAMES]     as root, on an idle machine with 2 CPUs or more
#
# CPU 0: testpmd plays a capture of queries, for ever, into a vhost port. CPU 1: the program under test.
# Both sides' drops are shown: what testpmd could not deliver it counts as TX-dropped of port 1.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${PMDNS_BENCH_ISOLATED-} != yes ]]; then
    scripts/install.sh --lab
    cargo build --release
    # The upstream listens on a loopback of its own.
    PMDNS_BENCH_ISOLATED=yes exec unshare --net --mount --pid --fork --mount-proc --kill-child "$0" "$@"
fi

rounds=${1:-3}
names=${2:-10000}
seconds=8
target=${CARGO_TARGET_DIR:-target}/release
lab=$(mktemp -d)
pages_before=$(< /proc/sys/vm/nr_hugepages)
clean_up() {
    umount "$lab/huge" 2> /dev/null || true
    rm -rf "$lab"
    echo "$pages_before" > /proc/sys/vm/nr_hugepages
}
trap clean_up EXIT
echo 1024 > /proc/sys/vm/nr_hugepages
mkdir "$lab/huge" && mount -t hugetlbfs nodev "$lab/huge"
ip link set lo up

"$target/queries" "$names" "$lab"
cat > "$lab/nsd.conf" << END
server:
  ip-address: 127.0.0.1@5300
  rrl-ratelimit: 0
  zonesdir: "$lab"
  database: ""
  pidfile: "$lab/nsd.pid"
  xfrdfile: "$lab/xfrd"
  zonelistfile: "$lab/zonelist"
  logfile: "$lab/nsd.log"
  username: ""
remote-control:
  control-enable: no
zone:
  name: example
  zonefile: zone
END
nsd -c "$lab/nsd.conf"
cat > "$lab/pmdns.toml" << END
[eal]
args = ["--no-pci", "--in-memory", "--single-file-segments", "-m", "256", "--huge-dir", "$lab/huge", "--file-prefix=pmdns"]
[[port]]
name = "virtio"
device = "net_virtio_user0,path=$lab/v.sock,queues=1,queue_size=1024,mac=02:00:00:00:00:01"
addresses = ["10.77.0.2/24"]
[[placement]]
cores = [1]
idle = "spin"
[[upstream]]
address = "127.0.0.1:5300"
[slowpath]
cores = [0]
[control]
socket = "$lab/control"
END

# Runs "$@" against the generator and prints the replies per second the generator saw: median, min, max.
measure() {
    rm -f "$lab/v.sock"
    dpdk-testpmd --lcores '0@0,1@0' -n 2 --in-memory --huge-dir "$lab/huge" --file-prefix=gen --no-pci -m 512 \
        --vdev="net_pcap0,rx_pcap=$lab/queries.pcap,infinite_rx=1" \
        --vdev="net_vhost1,iface=$lab/v.sock,queues=1" -- --forward-mode=io --total-num-mbufs=32768 \
        --no-flush-rx --auto-start --stats-period 1 > "$lab/generator.log" 2>&1 < /dev/null &
    local generator=$!
    until [[ -S $lab/v.sock ]]; do sleep 0.1; done
    timeout --signal=TERM "$((seconds + 2))" "$@" > "$lab/out" 2> "$lab/err" < /dev/null || true
    kill "$generator"
    wait "$generator" 2> /dev/null || true
    # Every second line is port 1's. Seconds in which a side was still starting do not count.
    grep -a Rx-pps "$lab/generator.log" | awk 'NR % 2 == 0 && $2 > 1000 { print $2 }' | sed 1d | sort -n |
        awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)], all[1], all[NR] }'
}

forward() {
    measure dpdk-testpmd --lcores '0@1,1@1' -n 2 --in-memory --huge-dir "$lab/huge" --single-file-segments \
        --file-prefix=fwd --no-pci -m 512 --vdev="net_virtio_user0,path=$lab/v.sock,queues=1,queue_size=1024" \
        -- --forward-mode="$1" --auto-start --stats-period 60 --total-num-mbufs=16384
}

printf '%-8s %-10s %12s %12s %12s\n' round program median min max
for ((round = 1; round <= rounds; round++)); do
    for program in macswap 5tswap pmdns; do
        case $program in
            pmdns) figures=$(measure "$target/pmdns" run -c "$lab/pmdns.toml" --json) ;;
            *) figures=$(forward "$program") ;;
        esac
        read -r median least most <<< "$figures"
        printf '%-8s %-10s %12s %12s %12s\n' "$round" "$program" "$median" "$least" "$most"
        echo "$program $median" >> "$lab/medians"
    done
done
median_of() {
    awk -v program="$1" '$1 == program { print $2 }' "$lab/medians" | sort -n |
        awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}
pmdns=$(median_of pmdns)
for program in macswap 5tswap; do
    awk -v a="$pmdns" -v b="$(median_of "$program")" -v p="$program" \
        'BEGIN { printf "pmdns / %s: %.2f\n", p, a / b }'
done
echo "the last round of pmdns, by its own counters:"
python3 - "$lab/out" << 'END' || cat "$lab/out" "$lab/err"
import json, sys
report = json.load(open(sys.argv[1]))
print("  totals", report["totals"])
for link in report["workers"][0]["links"]:
    print("  link  ", link)
for stage, meter in report["workers"][0]["stages"].items():
    ticks, packets = meter["ticks"] / meter["packets"], meter["packets"] / meter["batches"]
    print(f"  {stage:<10} {ticks:7.1f} ticks/packet  {packets:5.1f} packets/batch")
END
