# shellcheck shell=bash disable=SC2154
# The servers that are compared over the cable: how each is configured, started and stopped. All of them serve 10.98.0.2.

SERVER=10.98.0.2
PATIENCE_SECONDS=20

# start NAME: configures it, starts it on the server's CPU and waits until it answers. Fails if it does not.
start() {
    local address
    server_name=$1
    lay_cable
    # pmdns answers ARP itself; everybody else has the kernel's address.
    [[ $1 == pmdns* ]] || ip address add "$SERVER/24" dev vB
    address=$lab/$1
    mkdir -p "$address"
    "start_${1//-/_}" "$address" > "$lab/out" 2> "$lab/err" < /dev/null &
    server_pid=$!
    wait_for_answer
}

# Everything here runs as `exec`, so that the job is the server.
on_server_cpu() { exec taskset -c "$server_cpu" "$@"; }

wait_for_answer() {
    local deadline=$((SECONDS + PATIENCE_SECONDS))
    until in_client kdig "@$SERVER" +retry=0 +timeout=1 +short ns.example A 2> /dev/null | grep -q 127.0.0.1; do
        if ! kill -0 "$server_pid" 2> /dev/null || [[ $SECONDS -ge $deadline ]]; then
            say "$server_name does not answer:"
            tail -n 5 "$lab/out" "$lab/err" >&2
            stop
            return 1
        fi
        sleep 0.2
    done
}

# Whether the server still runs; if not, says what it said last.
still_runs() {
    kill -0 "$server_pid" 2> /dev/null && return
    say "$server_name ended while it was measured:"
    tail -n 5 "$lab/out" "$lab/err" >&2
    return 1
}

# Ends the server; what it printed stays in $lab/out.
stop() {
    local _
    kill -TERM "$server_pid" 2> /dev/null || true
    for _ in $(seq 50); do
        kill -0 "$server_pid" 2> /dev/null || break
        sleep 0.1
    done
    kill -KILL "$server_pid" 2> /dev/null || true
    wait "$server_pid" 2> /dev/null || true
}

# Datagrams that the sockets on port 53 had no room for.
socket_drops() { awk '$2 ~ /:0035$/ { drops += $NF } END { print drops + 0 }' /proc/net/udp; }

# drops_since NUMBER: how many more there are now; a server on XDP has no such socket.
drops_since() { case $server_name in pmdns* | knot-xdp) ;; *) echo "server_drops=$(($(socket_drops) - $1))" ;; esac; }

# What pmdns has counted since it started, its own drops among it.
counters_now() {
    [[ $server_name == pmdns* ]] || return 0
    "$target/pmdns" stats --socket "$lab/control" --json > "$lab/stats" || return 0
    echo "counters=$lab/stats"
}

# pmdns_config PORT-AND-PLACEMENT: the rest of the file is the same everywhere.
pmdns_config() {
    cat <<- END
	[eal]
	args = ["--no-pci", "--in-memory", "--single-file-segments", "-m", "256", "--huge-dir", "$huge"]
	[cache]
	size = "${cache_size:-64MiB}"
	pages = "normal"
	[[upstream]]
	address = "$upstream:$upstream_port"
	${by_port-}
	[acl]
	allow = ["10.0.0.0/8"]
	[control]
	socket = "$lab/control"
	$1
	END
}

VETH_PORT='[[port]]
name = "veth"
device = "net_af_xdp0,iface=vB,start_queue=0,queue_count=1"
addresses = ["10.98.0.2/24"]'
# Another address of ours on that port, for nothing but questions to an upstream on the link.
VETH_QUERY_SOURCE=10.98.0.60

run_pmdns() {
    pmdns_config "$1" > "$lab/pmdns.toml"
    exec "$target/pmdns" run -c "$lab/pmdns.toml" --json
}

# The slow path takes turns with the client and the upstream, as every forwarder's kernel work does.
start_pmdns() {
    run_pmdns "$VETH_PORT
[[placement]]
cores = [$server_cpu]
idle = \"spin\"
[slowpath]
cores = [$client_cpu]
max_waiting_per_client = 65536
${pmdns_extra-}"
}

# Everything on the one server CPU, in one thread. PMDNS_RESOLVER=thread: the slow path has a thread of its own there, and the
# data core naps when nothing comes, or the slow path would starve.
on_one_cpu() {
    local of_placement='resolver = true' of_slow_path=
    [[ ${PMDNS_RESOLVER-core} == core ]] || of_placement='' of_slow_path="cores = [$server_cpu]"
    cat <<- END
	[[placement]]
	cores = [$server_cpu]
	idle = "adaptive"
	$of_placement
	[slowpath]
	$of_slow_path
	max_waiting_per_client = 65536
	END
}

start_pmdns_one_cpu() {
    run_pmdns "$VETH_PORT
$(on_one_cpu)
${pmdns_extra-}"
}

# The same, as the group `miss` has it beside pmdns-by-port.
start_pmdns_by_sockets() { start_pmdns_one_cpu; }

# Upstreams are asked over the port that clients come in by.
start_pmdns_by_port() {
    local by_port='port = "veth"' upstream=$UPSTREAM_ON_LINK VETH_PORT="$VETH_PORT
query_sources = [\"$VETH_QUERY_SOURCE\"]"
    start_pmdns_one_cpu
}

start_knot_xdp() {
    cat > "$1/knot.conf" <<- END
	server:
	    rundir: "$1"
	    listen: 127.0.0.1@5399
	    udp-workers: 1
	    tcp-workers: 1
	    background-workers: 1
	xdp:
	    listen: vB@53
	database:
	    storage: "$1"
	zone:
	  - domain: example
	    storage: "$lab"
	    file: zone
	    zonefile-sync: -1
	    journal-content: none
	END
    on_server_cpu knotd -c "$1/knot.conf"
}

start_unbound() {
    cat > "$1/unbound.conf" <<- END
	server:
	  interface: $SERVER
	  access-control: 0.0.0.0/0 allow
	  num-threads: 1
	  module-config: "iterator"
	  msg-cache-size: 512m
	  rrset-cache-size: 1g
	  outgoing-range: 8192
	  num-queries-per-thread: 4096
	  so-rcvbuf: 4m
	  so-sndbuf: 4m
	  do-not-query-localhost: no
	  do-daemonize: no
	  chroot: ""
	  username: ""
	  directory: "$1"
	  pidfile: ""
	  use-syslog: no
	forward-zone:
	  name: "."
	  forward-addr: $upstream@$upstream_port
	remote-control:
	  control-enable: no
	END
    on_server_cpu unbound -d -c "$1/unbound.conf"
}

start_pdns_recursor() {
    cat > "$1/recursor.conf" <<- END
	local-address=$SERVER
	allow-from=10.98.0.0/24
	threads=1
	pdns-distributes-queries=no
	forward-zones-recurse=.=$upstream:$upstream_port
	dont-query=
	dnssec=off
	max-mthreads=8192
	max-cache-entries=2000000
	max-packetcache-entries=2000000
	packetcache-ttl=86400
	socket-dir=$1
	write-pid=no
	daemon=no
	disable-syslog=yes
	loglevel=3
	security-poll-suffix=
	END
    on_server_cpu pdns_recursor --config-dir="$1"
}

start_dnsdist() {
    cat > "$1/dnsdist.conf" <<- END
	setLocal('$SERVER:53')
	setACL('10.98.0.0/24')
	setSecurityPollSuffix('')
	setMaxUDPOutstanding(65535)
	newServer({address='$upstream:$upstream_port', checkName='ns.example.'})
	getPool(''):setCache(newPacketCache(2000000, {maxTTL=86400}))
	END
    on_server_cpu dnsdist --supervised --disable-syslog -C "$1/dnsdist.conf"
}

start_bind() {
    cat > "$1/named.conf" <<- END
	options {
	  directory "$1";
	  listen-on port 53 { $SERVER; };
	  listen-on-v6 { none; };
	  allow-query { any; };
	  allow-recursion { any; };
	  forward only;
	  forwarders { $upstream port $upstream_port; };
	  dnssec-validation no;
	  empty-zones-enable no;
	  minimal-responses yes;
	  max-cache-size 1g;
	  recursive-clients 20000;
	  fetches-per-server 0;
	  pid-file none;
	  session-keyfile "$1/session.key";
	};
	controls { };
	END
    on_server_cpu named -g -n 1 -c "$1/named.conf"
}

start_knot_resolver() {
    cat > "$1/kresd.conf" <<- END
	net.listen('$SERVER', 53, { kind = 'dns' })
	net.ipv6 = false
	trust_anchors.remove('.')
	cache.open(1 * GB, 'lmdb://$1/cache')
	policy.add(policy.all(policy.STUB({'$upstream@$upstream_port'})))
	END
    on_server_cpu kresd -n -q -c "$1/kresd.conf" "$1"
}
