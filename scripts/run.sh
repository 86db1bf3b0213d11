#!/usr/bin/env bash
# Serves DNS on a TAP interface of this machine: no NIC, no huge pages. Installs and builds what is missing.
# The config is config/examples/tap.toml with this machine's resolvers as upstreams; Ctrl-C stops.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat >&2 <<- 'TEXT'
	usage: scripts/run.sh [--upstream ADDRESS:PORT]... [--console [--traffic] | -c FILE] [--selftest | --print-config]
	  --upstream      ask this resolver instead of those in /etc/resolv.conf; [ADDRESS]:PORT for IPv6
	  -c              run this config as it is
	  --console       the same with the web console, the query log, the client table and counts of what comes most
	  --traffic       with --console: ask some questions each second, so that there is something to see
	  --selftest      ask a few questions, show the answers and stop; exit 0 if all are right
	  --print-config  print the config that would run, and stop
	TEXT
    exit 2
}

upstreams=()
given_config=
console=no
traffic=no
selftest=no
print_config=no
while [[ $# -gt 0 ]]; do
    case "$1" in
        --upstream) [[ $# -ge 2 ]] || usage; upstreams+=("$2"); shift 2 ;;
        -c) [[ $# -ge 2 ]] || usage; given_config=$2; shift 2 ;;
        --console) console=yes; shift ;;
        --traffic) traffic=yes; shift ;;
        --selftest) selftest=yes; shift ;;
        --print-config) print_config=yes; shift ;;
        *) usage ;;
    esac
done

[[ $traffic == no || $console == yes ]] || usage
[[ $console == no || -z $given_config && $print_config == no ]] || usage

as_root=()
[[ $(id -u) -eq 0 ]] || as_root=(sudo)
interface=pm0
host_v4=10.97.0.1/24
host_v6=2001:db8:97::1/64
server=10.97.0.53
api=127.0.0.1:8053
folder=
pid=
asker=

# The first nameservers of the system, with their port.
system_resolvers() {
    local address
    while read -r address; do
        [[ $address == *%* ]] && continue # A link-local address needs its interface.
        if [[ $address == *:* ]]; then echo "[$address]:53"; else echo "$address:53"; fi
    done < <(awk '$1 == "nameserver" { print $2 }' /etc/resolv.conf 2> /dev/null) | head -n 2
}

# The example without its upstreams and its CPU numbers, which are another machine's. The control socket stays where
# `pmdns top` looks for it; who runs this script may ask there too.
make_config() {
    awk '/^\[/ { keep = !/^\[\[(upstream|placement)\]\]|^\[(slowpath|control)\]/ } keep' \
        config/examples/tap.toml
    [[ $(id -g) -eq 0 ]] || printf '\n[control]\ngroup = "%s"\n' "$(id -g)"
    local address
    for address in "${upstreams[@]}"; do
        printf '\n[[upstream]]\naddress = "%s"\n' "$address"
    done
    [[ $console == no ]] || cat <<- TOML

	[api]
	listen = "$api"

	[[token]]
	name = "console"
	role = "operate"
	secret_file = "$folder/token"

	[query_log]
	sqlite = "$folder/queries.db"

	[clients]
	max_entries = 1000

	[hitters]
	enabled = true
	TOML
}

# Random, and for this run only.
make_token() {
    "${as_root[@]}" install -m 600 /dev/null "$folder/token"
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n' | "${as_root[@]}" tee "$folder/token"
}

# Hits, names that are blocked, and misses.
ask_each_second() {
    local number=0
    while sleep 1; do
        number=$((number + 1))
        dig "@$server" +tries=1 +time=1 gateway.example A gateway.example AAAA "x$number.ads.example" A \
            debian.org A example.org AAAA "x$number.example.org" A > /dev/null 2>&1 || true
    done
}

stop() {
    trap - EXIT INT TERM
    local status=${1-0}
    [[ -z $asker ]] || kill "$asker" 2> /dev/null || true
    if [[ -n $pid ]]; then
        "${as_root[@]}" kill -TERM "$pid" 2> /dev/null || true
        wait "$pid" || status=$?
    fi
    [[ -z $folder ]] || "${as_root[@]}" rm -rf "$folder"
    exit "$status"
}

# The kernel's own answer: /sys may be that of another network namespace.
has_interface() { ip link show dev "$interface" > /dev/null 2>&1; }

# Waits until it answers on its control socket, or has ended.
wait_until_ready() {
    local _
    for _ in $(seq 150); do
        kill -0 "$pid" 2> /dev/null || "${as_root[@]}" kill -0 "$pid" 2> /dev/null || return 1
        [[ -n $given_config ]] && has_interface && return 0
        "${as_root[@]}" "$binary" stats > /dev/null 2>&1 && return 0
        sleep 0.2
    done
    return 1
}

set_up_host_side() {
    "${as_root[@]}" ip address replace "$host_v4" dev "$interface"
    # A machine may have no IPv6 at all.
    "${as_root[@]}" ip address replace "$host_v6" dev "$interface" nodad 2> /dev/null || true
    "${as_root[@]}" ip link set "$interface" up
}

# Asks, shows the answer and says whether it contains what it should.
ask() {
    local expected=$1 answer
    shift
    answer=$(dig "@$server" +tries=3 +time=2 +noall +comments +answer "$@" || true)
    printf '\n$ dig @%s %s\n%s\n' "$server" "$*" "$(grep -v '^$' <<< "$answer")"
    [[ $answer == *$expected* ]] || { echo "expected: $expected"; failed=1; }
}

ask_all() {
    failed=0
    printf '\n$ ping -c 2 %s\n' "$server"
    ping -n -c 2 -W 3 "$server" || failed=1
    ask 10.97.0.1 gateway.example A
    ask 2001:db8:97::1 gateway.example AAAA
    ask NXDOMAIN x.ads.example A
    if [[ $failed -eq 0 ]]; then printf '\nselftest passed\n'; else printf '\nselftest FAILED\n'; fi
    return "$failed"
}

[[ ${#upstreams[@]} -gt 0 ]] || mapfile -t upstreams < <(system_resolvers)
[[ ${#upstreams[@]} -gt 0 ]] || upstreams=(127.0.0.1:53)
if [[ $print_config == yes ]]; then
    make_config
    exit
fi

# Better now than after the build.
if [[ $(id -u) -ne 0 ]] && ! command -v sudo > /dev/null; then
    echo "run this as root, or install sudo: it makes a network interface" >&2
    exit 1
fi
if ! "${as_root[@]}" true; then
    echo "sudo does not let you: run this as root, which makes a network interface" >&2
    exit 1
fi
scripts/install.sh
# Not the release: that takes twice as long to build, and is for figures and packages.
binary=${CARGO_TARGET_DIR:-target}/quick/pmdns
[[ -x $binary ]] || echo "building; the first time that takes some minutes (three on two cores)"
cargo build --profile quick --package pmdns --bin pmdns

trap 'stop 1' EXIT
trap 'stop 0' INT TERM
# Root's, as the process is: without capabilities it could not read another user's at a reload.
folder=$("${as_root[@]}" mktemp -d)
config=$given_config
if [[ -z $config ]]; then
    config=$folder/pmdns.toml
    [[ $console == no ]] || token=$(make_token)
    make_config | "${as_root[@]}" tee "$config" > /dev/null
fi

"${as_root[@]}" "$binary" run -c "$config" &
pid=$!
if ! wait_until_ready; then
    echo "pmdns does not serve; it says why above" >&2
    stop 1
fi
if has_interface; then
    set_up_host_side
elif [[ -z $given_config ]]; then
    echo "there is no interface $interface here, so nothing reaches $server; is this another network namespace?" >&2
    stop 1
fi

if [[ $selftest == yes ]]; then
    if ask_all; then stop 0; else stop 1; fi
fi
asked=${upstreams[*]}
socket_note=" (its control socket is /run/pmdns/control.sock)"
if [[ -n $given_config ]]; then
    asked="the upstreams of $given_config"
    socket_note=" (--socket if the config sets control.socket)"
fi
if ! has_interface; then
    printf '\npmdns runs with %s. Ctrl-C stops it.\n' "$given_config"
    wait "$pid" || stop "$?"
    pid=
    stop 0
fi
if [[ $console == yes ]]; then
    printf '\nconsole: http://%s/console/\ntoken:   %s\n' "$api" "$token"
fi
if [[ $traffic == yes ]]; then
    ask_each_second &
    asker=$!
fi
cat << TEXT

pmdns serves at $server on $interface. In another terminal:
  dig @$server gateway.example        answered from its own file, offline
  dig @$server ads.example            blocked
  dig @$server debian.org             asked of $asked
  $binary top             what it does, second by second$socket_note
Ctrl-C stops it.
TEXT
wait "$pid" || stop "$?"
pid=
stop 0
