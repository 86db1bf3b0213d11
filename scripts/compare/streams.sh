# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# Clients over TCP, TLS and HTTPS. It measures answers a second over connections that are reused and
# over fresh ones. It measures the memory of an idle connection, and UDP hits beside many idle
# connections. All of each server is on one CPU. Streams have a cable of their own,
# because pmdns takes every frame of the other one.

STREAM_SERVER=10.100.0.2
STREAM_PEERS=(dnsdist unbound)
STREAM_CONNECTIONS=8
# Queries under way, over all connections.
STREAM_OUTSTANDING=200
# Connections for the memory of one over TLS: handshakes take time.
TLS_HELD=1000
if [[ $quick == yes ]]; then STREAM_SECONDS=3 HELD=5000; else STREAM_SECONDS=$seconds HELD=20000; fi
# UDP queries a second beside connections that are held: few enough that the client's CPU is no limit.
HELD_RATE=20000

# Once: the cable, a certificate, and a query for HTTPS.
set_up_streams() {
    [[ ! -e $lab/stream-key.pem ]] || return 0
    # Each connection is a file at both ends, and Unbound takes one for each place at each address.
    ulimit -n 131072 2> /dev/null || say "streams      the limit of files cannot be raised: $(ulimit -n)"
    STREAM_PLACES=$(($(ulimit -n) / 5))
    ip link add sB type veth peer name sA netns client
    ip address add "$STREAM_SERVER/24" dev sB
    ip -n client address add 10.100.0.1/24 dev sA
    ip link set sB up
    ip -n client link set sA up
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=dns.example \
        -addext "subjectAltName=DNS:dns.example,IP:$STREAM_SERVER" \
        -keyout "$lab/stream-key.pem" -out "$lab/stream-certificate.pem" 2> /dev/null
    # host0000001.example, type A.
    printf '\0\0\1\0\0\1\0\0\0\0\0\0\13host0000001\7example\0\0\1\0\1' > "$lab/stream-query"
}

start_pmdns_streams() {
    local cache_size=64MiB
    run_pmdns "$VETH_PORT
$(on_one_cpu)
[streams]
tcp = [\"$STREAM_SERVER:53\"]
tls = [\"$STREAM_SERVER:853\"]
https = [\"$STREAM_SERVER:443\"]
certificate = \"$lab/stream-certificate.pem\"
key = \"$lab/stream-key.pem\"
cores = [$server_cpu]
max_connections = 50000
max_connections_per_prefix = 50000
idle_timeout_ms = 60000"
}

start_dnsdist_streams() {
    local pair="'$lab/stream-certificate.pem', '$lab/stream-key.pem'" most='maxConcurrentTCPConnections=50000'
    cat > "$1/dnsdist.conf" <<- END
	setLocal('$SERVER:53', {$most})
	addLocal('$STREAM_SERVER:53', {$most})
	addTLSLocal('$STREAM_SERVER:853', $pair, {$most})
	addDOHLocal('$STREAM_SERVER:443', $pair, '/dns-query', {$most, idleTimeout=60})
	setACL('10.0.0.0/8')
	setSecurityPollSuffix('')
	setMaxTCPClientThreads(1)
	setMaxTCPConnectionsPerClient(0)
	setMaxTCPQueriesPerConnection(0)
	setTCPRecvTimeout(60)
	newServer({address='$upstream:$upstream_port', checkName='ns.example.'})
	getPool(''):setCache(newPacketCache(2000000, {maxTTL=86400}))
	END
    on_server_cpu dnsdist --supervised --disable-syslog -C "$1/dnsdist.conf"
}

start_unbound_streams() {
    cat > "$1/unbound.conf" <<- END
	server:
	  interface: $SERVER
	  interface: $STREAM_SERVER
	  interface: $STREAM_SERVER@853
	  interface: $STREAM_SERVER@443
	  tls-service-key: "$lab/stream-key.pem"
	  tls-service-pem: "$lab/stream-certificate.pem"
	  incoming-num-tcp: $STREAM_PLACES
	  tcp-idle-timeout: 60000
	  access-control: 0.0.0.0/0 allow
	  num-threads: 1
	  module-config: "iterator"
	  msg-cache-size: 512m
	  rrset-cache-size: 1g
	  outgoing-range: 512
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

group_streams() {
    local name program
    set_up_streams
    for name in pmdns "${STREAM_PEERS[@]}"; do
        program=$name
        start "$name-streams" || { not_run streams_tcp "$program" "it does not start here"; continue; }
        warm names
        # dnsdist keeps what it answered over streams apart from what it answered over UDP.
        in_client dnsperf -m tcp -s "$STREAM_SERVER" -d "$lab/names" -n 1 > /dev/null 2>&1 || true
        rates_over_streams
        stop
        # From a fresh process each time: what it was given back before it would use again.
        ! start "$name-streams" || { memory_over_tcp; stop; }
        ! start "$name-streams" || { hold streams_memory_tls "$TLS_HELD" tls 853 || true; let_go; stop; }
    done
}

# The same clients for all servers. One question is asked again and again by h2load, because dnsperf loses answers over
# HTTPS where two come in one record (its issue 240). Fresh connections are those of our own client, because dnsperf
# opens a hundred a second.
rates_over_streams() {
    ask_over streams_tcp -m tcp
    ask_over streams_tls -m dot
    h2load_over streams_https
    ask_fresh streams_tcp_fresh tcp 53
    ask_fresh streams_tls_fresh tls 853
    ask_fresh streams_https_fresh https 443
}

ask_over() {
    local group=$1 SERVER=$STREAM_SERVER
    shift
    ask "$group" "$program" -d "$lab/names" -l "$STREAM_SECONDS" -c "$STREAM_CONNECTIONS" -q "$STREAM_OUTSTANDING" "$@"
}

# ask_fresh GROUP OVER PORT
ask_fresh() {
    local answered
    mark_usage
    answered=$(in_client "$target/streams" --over "$2" --server "$STREAM_SERVER:$3" fresh "$STREAM_CONNECTIONS" "$STREAM_SECONDS")
    record_rate "$1" $((answered / STREAM_SECONDS))
}

# record_rate GROUP RATE: with what the server has used since the mark.
record_rate() {
    local usage
    usage=$(usage_since_mark)
    still_runs || { not_run "$1" "$program" "it ended while it was measured"; return 0; }
    # shellcheck disable=SC2086,SC2046 # fields, each a word
    record "$1" "$program" "rate=$2" $usage $(counters_now)
}

h2load_over() {
    local good
    mark_usage
    in_client h2load -D "$STREAM_SECONDS" -c "$STREAM_CONNECTIONS" -m $((STREAM_OUTSTANDING / STREAM_CONNECTIONS)) \
        -d "$lab/stream-query" -H 'content-type: application/dns-message' "https://$STREAM_SERVER/dns-query" \
        > "$lab/h2load" 2>&1 || true
    good=$(awk '/^status codes:/ { print $3 }' "$lab/h2load")
    record_rate "$1" $((${good:-0} / STREAM_SECONDS))
}

# What the process grows by for each idle connection, and what UDP clients lose beside them.
memory_over_tcp() {
    local most=$(($(ulimit -n) - 500))
    [[ $program != unbound ]] || most=$((STREAM_PLACES - 100))
    warm names
    if hold streams_memory $((HELD < most ? HELD : most)) tcp 53; then
        ask streams_held "$program" -d "$lab/names" -l "$STREAM_SECONDS" -c "$DNSPERF_CLIENTS" -q "$DNSPERF_OUTSTANDING" \
            -Q "$HELD_RATE"
    fi
    let_go
    record streams_open "$program" "rate=${still_open:-0}"
}

# hold GROUP CONNECTIONS OVER PORT: opens them and leaves them open. Each has asked one question.
hold() {
    local group=$1 connections=$2 before held kib
    before=$(resident_kib "$server_pid")
    mkfifo "$lab/held" "$lab/release"
    in_client "$target/streams" --over "$3" --server "$STREAM_SERVER:$4" hold "$connections" \
        < "$lab/release" > "$lab/held" 2> "$lab/hold.err" &
    holder=$!
    exec 8> "$lab/release" 9< "$lab/held"
    rm "$lab/held" "$lab/release"
    read -r -u 9 held || true
    kib=$(($(resident_kib "$server_pid") - before))
    if [[ ${held:-0} -lt $connections ]]; then
        not_run "$group" "$program" "it holds ${held:-0} of $connections connections"
        tail -n 3 "$lab/hold.err" >&2
        return 1
    fi
    record "$group" "$program" "rate=$((kib * 1024 / connections))" "completed=$connections"
}

# Lets the connections go, and sets still_open: how many of them the server had not closed.
let_go() {
    still_open=''
    exec 8>&-
    read -r -u 9 still_open || true
    exec 9<&-
    wait "$holder" || true
}
