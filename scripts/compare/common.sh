# shellcheck shell=bash disable=SC2034,SC2154
# What every group needs: the lab, the upstream, the cable, CPU time, and lines of results.

lab=/run/lab
huge=/run/huge
# The client and the upstream run on one CPU, the server on another.
client_cpu=0
server_cpu=1
# What a second server core gets: a CPU of its own where there is one.
if [[ $(nproc) -ge 3 ]]; then second_cpu=2; else second_cpu=$client_cpu; fi
# MiB of huge pages: two DPDK programs side by side.
HUGE_MIB=2048
NAMES=10000
COLD_NAMES=1000000
# Where queries for new names go, and the folder of the NSD that serves there.
upstream=127.0.0.1 upstream_port=5300 upstream_folder=$lab/nsd
if [[ $quick == yes ]]; then seconds=4; else seconds=8; fi

say() { printf '%s\n' "$*" >&2; }

# File systems and devices that only this lab sees; they end with it.
set_up_lab() {
    mount -t tmpfs lab /run
    mount -t sysfs lab /sys
    mount -t bpf lab /sys/fs/bpf
    mkdir -p "$lab" "$huge" /run/netns
    ip link set lo up
    # Sockets are what servers are short of first when many questions are under way.
    ulimit -n "$(ulimit -Hn)"
    reserve_huge_pages
    mount -t hugetlbfs lab "$huge"
    "$target/queries" "$NAMES" "$lab"
    seq -f 'host%07.0f.example. A' 0 $((NAMES - 1)) | shuf --random-source=<(yes) > "$lab/names"
    seq -f 'c%07.0f.cold.example. A' 1 "$COLD_NAMES" > "$lab/cold"
    # Any name below cold exists, so that each can be asked for once.
    echo '*.cold A 192.0.2.1' >> "$lab/zone"
    seeds_zone >> "$lab/zone"
    nsd_config "$upstream_folder" 127.0.0.1@5300
    taskset -c "$client_cpu" nsd -d -c "$upstream_folder/nsd.conf" 2> /dev/null &
    ip netns add client
    ip -n client link set lo up
}

reserve_huge_pages() {
    local total free
    total=$(awk '/^HugePages_Total/ { print $2 }' /proc/meminfo)
    free=$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)
    [[ $free -ge $((HUGE_MIB / 2)) ]] || echo $((total + HUGE_MIB / 2 - free)) > /proc/sys/vm/nr_hugepages
    free=$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)
    [[ $free -ge $((HUGE_MIB / 2)) ]] || { say "the machine can spare only $free huge pages of 2 MB"; exit 1; }
}

# nsd_config FOLDER ADDRESS@PORT...: NSD with the lab's zone. It is run with -d: a daemon has a session of its own, and with it
# a share of the CPU of its own (sched_autogroup).
nsd_config() {
    local folder=$1
    shift
    mkdir -p "$folder"
    cat > "$folder/nsd.conf" <<- END
	server:
	$(printf '  ip-address: %s\n' "$@")
	  ip-transparent: yes
	  server-count: 1
	  rrl-ratelimit: 0
	  zonesdir: "$lab"
	  database: ""
	  pidfile: "$folder/nsd.pid"
	  xfrdfile: "$folder/xfrd"
	  zonelistfile: "$folder/zonelist"
	  logfile: "$folder/nsd.log"
	  username: ""
	remote-control:
	  control-enable: yes
	  control-interface: "$folder/control"
	zone:
	  name: example
	  zonefile: zone
	zone:
	  name: .
	  zonefile: mixed-zone
	END
}

# Queries that the upstream has had so far, and datagrams that its socket had no room for.
upstream_queries() { nsd-control -c "$upstream_folder/nsd.conf" stats_noreset | awk -F= '$1 == "num.queries" { print $2 }'; }
upstream_drops() {
    { cat /proc/net/udp; in_client cat /proc/net/udp; } |
        awk -v port="$(printf ':%04X$' "$upstream_port")" '$2 ~ port { drops += $NF } END { print drops + 0 }'
}

# vB is the server's end, vA the client's, in a namespace of its own. A new pair for each server: some leave their XDP program.
lay_cable() {
    ip link delete vB 2> /dev/null || true
    ip link add vB type veth peer name vA netns client
    # XDP sees packets before any checksum offload would.
    ethtool -K vB tx off > /dev/null
    ip netns exec client ethtool -K vA tx off > /dev/null
    ip link set vB up
    ip -n client link set vA up
    local host
    for host in 1 9 11 12 13 14 15 16 17 18; do ip -n client address add "10.98.0.$host/24" dev vA; done
}

in_client() { ip netns exec client taskset -c "$client_cpu" "$@"; }

# Seconds of CPU that a process and its threads have used; 0 if it is gone.
cpu_seconds() {
    awk -v hertz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / hertz }' "/proc/$1/stat" 2> /dev/null || echo 0
}

# Busy seconds of one CPU, whoever used it: softirqs are no process's.
cpu_busy() {
    awk -v cpu="cpu$1" -v hertz="$(getconf CLK_TCK)" '$1 == cpu { print ($2 + $3 + $4 + $7 + $8) / hertz }' /proc/stat
}

resident_kib() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status" 2> /dev/null || echo 0; }

now() { date +%s.%N; }

# The share of a wall-clock second: share_of BEFORE AFTER SECONDS.
share_of() { awk -v a="$1" -v b="$2" -v s="$3" 'BEGIN { printf "%.3f", (s > 0) ? (b - a) / s : 0 }'; }

# Remembers where the CPU counters stand; `usage_since_mark` then prints them as fields of a result.
mark_usage() { mark=("$(now)" "$(cpu_seconds "$server_pid")" "$(cpu_busy "$server_cpu")" "$(cpu_busy "$client_cpu")"); }

usage_since_mark() {
    local wall
    wall=$(awk -v a="${mark[0]}" -v b="$(now)" 'BEGIN { print b - a }')
    printf 'server_cpu=%s server_side_busy=%s client_side_busy=%s' \
        "$(share_of "${mark[1]}" "$(cpu_seconds "$server_pid")" "$wall")" \
        "$(share_of "${mark[2]}" "$(cpu_busy "$server_cpu")" "$wall")" \
        "$(share_of "${mark[3]}" "$(cpu_busy "$client_cpu")" "$wall")"
}

# record GROUP PROGRAM FIELD=NUMBER... [counters=FILE]: one line of results. A field without a number is left out.
record() {
    local group=$1 program=$2 line shown="" field
    shift 2
    line="{\"group\":\"$group\",\"program\":\"$program\",\"round\":${round:-1}"
    for field in "$@"; do
        case $field in
            counters=*) [[ ! -s ${field#*=} ]] || line+=",\"counters\":$(tr -d '\n' < "${field#*=}")" ;;
            note=*) line+=",\"note\":\"${field#*=}\""; shown+=" not run: ${field#*=}" ;;
            *=) ;;
            *) line+=",\"${field%%=*}\":${field#*=}"; shown+=" $field" ;;
        esac
    done
    printf '%s}\n' "$line" >> "$raw"
    say "$(printf '%-12s %-22s' "$group" "$program")$shown"
}

not_run() { record "$1" "$2" "note=$3"; }

# In quick runs only the programs that a ratio needs.
unless_quick() { [[ $quick == yes ]] || printf '%s\n' "$@"; }

describe_machine() {
    local commit cpu
    commit=$(git describe --always --dirty 2> /dev/null || echo unknown)
    cpu=$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
    printf '{"machine":"%s, %s CPUs, %s GiB; kernel %s; DPDK %s","commit":"%s",' \
        "$cpu" "$(nproc)" "$(awk '/^MemTotal/ { print int($2 / 1048576 + 0.5) }' /proc/meminfo)" "$(uname -r | sed 's/-.*//')" \
        "$(pkg-config --modversion libdpdk)" "$commit" >> "$raw"
    printf '"rounds":%s,"seconds":%s,"quick":%s,"quiet":%s}\n' "$rounds" "$seconds" \
        "$([[ $quick == yes ]] && echo true || echo false)" "$quiet_facts" >> "$raw"
}
