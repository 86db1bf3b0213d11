# What the labs do inside the machine. Sourced by the commands that the host sends.
# shellcheck shell=bash

T=$(dirname "${BASH_SOURCE[0]}")

# prepare: drivers, huge pages, and an upstream resolver.
prepare() {
    modprobe -a vfio-pci virtio_net 8021q
    mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages
    ip link set lo up
    cat > /run/test.zone <<'Z'
$ORIGIN test.
@ 3600 SOA ns x 1 3600 600 86400 300
@ 3600 NS ns
* 3600 A 192.0.2.1
Z
    cat > /run/nsd.conf <<'N'
server:
 ip-address: 127.0.0.1@5300
 username: ""
 zonesdir: "/run"
 pidfile: "/run/nsd.pid"
 database: ""
 xfrdfile: "/run/nsd.xfrd"
 zonelistfile: "/run/nsd.zones"
 xfrdir: "/run"
 rrl-ratelimit: 0
 server-count: 1
zone:
 name: test
 zonefile: test.zone
N
    setsid nsd -c /run/nsd.conf
}

# device_of MAC: the PCI address of the network device with this hardware address.
device_of() {
    local file
    for file in /sys/bus/pci/devices/*/net/*/address /sys/bus/pci/devices/*/virtio*/net/*/address; do
        [ -e "$file" ] || continue
        [ "$(cat "$file")" != "$1" ] || { echo "$file" | cut -d/ -f6; return; }
    done
    echo "no device $1" >&2
    return 1
}

# take DEVICE: binds it to vfio-pci. (dpdk-devbind.py takes 20 s a call here.)
take() {
    echo vfio-pci > "/sys/bus/pci/devices/$1/driver_override"
    echo "$1" > "/sys/bus/pci/devices/$1/driver/unbind"
    echo "$1" > /sys/bus/pci/drivers_probe
}

# common_config: what every config of the labs ends with.
common_config() {
    cat <<'C'
[eal]
args = ["-m", "256"]
[acl]
default = "allow"
[cache]
size = "16MiB"
[[upstream]]
address = "127.0.0.1:5300"
[control]
socket = "/run/pmdns/control.sock"
C
}

# launch CONFIG NAME: starts pmdns; its log and last counters are files of that name.
launch() {
    setsid "$T/pmdns" run -c "$1" --json > "$T/$2.json" 2> "$T/$2.log" < /dev/null &
    echo $! > /run/pmdns.pid
}

# serve CONFIG NAME: launches pmdns and waits until it answers.
serve() {
    launch "$@"
    local tries=0
    until "$T/pmdns" stats --socket /run/pmdns/control.sock > /dev/null 2>&1; do
        kill -0 "$(cat /run/pmdns.pid)" 2> /dev/null || { cat "$T/$2.log"; return 1; }
        tries=$((tries + 1))
        [ $tries -lt 200 ] || return 1
        sleep 0.3
    done
}

# take_over CONFIG NAME: launches the next process, which takes over, and waits until it is the only one.
take_over() {
    local before tries=0
    before=$(cat /run/pmdns.pid)
    launch "$@"
    while kill -0 "$before" 2> /dev/null; do
        kill -0 "$(cat /run/pmdns.pid)" 2> /dev/null || { cat "$T/$2.log"; echo "$before" > /run/pmdns.pid; return 1; }
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        sleep 0.2
    done
}

# is_killed CONFIG NAME: the next process stops as it is about to open the devices, and is killed.
is_killed() {
    local next tries=0
    PMDNS_HANDOVER_HOLD=opening setsid "$T/pmdns" run -c "$1" --json > "$T/$2.json" 2> "$T/$2.log" < /dev/null &
    next=$!
    until grep -q '^State:.*stopped' "/proc/$next/status"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { cat "$T/$2.log"; return 1; }
        sleep 0.2
    done
    kill -9 $next
}

# restricted: whether no thread of pmdns has or can get capabilities, and all have their system calls filtered.
restricted() {
    awk '/^Cap(Inh|Prm|Eff|Bnd|Amb):/ { checked++; if ($2 !~ /^0+$/) wrong = wrong "\n" FILENAME " " $0 }
        /^NoNewPrivs:/ { checked++; if ($2 != 1) wrong = wrong "\n" FILENAME " " $0 }
        /^Seccomp:/ { checked++; if ($2 != 2) wrong = wrong "\n" FILENAME " " $0 }
        END { print checked / 7 " threads" wrong; exit wrong != "" || checked < 14 }' \
        /proc/"$(cat /run/pmdns.pid)"/task/*/status && stats 'r["privileges"]'
}

# gone: waits until pmdns has ended.
gone() {
    local tries=0
    while kill -0 "$(cat /run/pmdns.pid)" 2> /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || return 1
        sleep 0.2
    done
}

# figure EXPRESSION: of a report on standard input, as Python reads it from `r`.
figure() {
    python3 -c "import json, sys; r = json.load(sys.stdin); print($1)"
}

# stats EXPRESSION: the same of the running instance.
stats() {
    "$T/pmdns" stats --json --socket /run/pmdns/control.sock | figure "$1"
}

# balanced FILE: whether every frame of the report is accounted for.
balanced() {
    figure "0 if (lambda t: t['received'] + t['made'] == sum(t[k] for k in \
('transmitted', 'dropped', 'slow_path', 'exceptions', 'held')))(r['totals']) else sys.exit(str(r['totals']))" < "$1"
}

# asks SERVER NAME [TRIES]: whether a query over UDP gets its answer.
asks() {
    [ "$(dig +tries="${3:-1}" +timeout=4 +short "@$1" "$2.test")" = 192.0.2.1 ]
}
