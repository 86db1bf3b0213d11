# virtio-net with several queues on a bridge of the host, which is the client and a querier. Sourced by scripts/lab-vm.sh.
# shellcheck shell=bash disable=SC2016,SC2054,SC2100,SC2154

# A bridge that snoops, asks every 4 s, and forgets a listener that does not report within 10 s.
# Times are in hundredths of a second.
ip link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_mld_version 2 mcast_query_interval 400 \
    mcast_query_response_interval 100 mcast_membership_interval 1000 mcast_startup_query_interval 400
for nic in a b; do
    ip tuntap add dev "tap$nic" mode tap multi_queue
    ip link set "tap$nic" master br0 up
done
ip address add 10.9.0.1/24 dev br0
ip address add fd9::1/64 dev br0 nodad
for client in $(seq 100 107); do ip address add "10.9.0.$client/24" dev br0; done
ip link set lo up
ip link set br0 up

virtio=virtio-net-pci,mq=on,vectors=12,disable-legacy=on,iommu_platform=on,ats=on
for nic in a b; do
    nic "$nic" "tap,ifname=tap$nic,script=no,downscript=no,queues=4,vhost=off" \
        "$virtio$([[ $nic == b ]] || echo ,rss=on,hash=on)" "02:00:00:00:00:0$nic"
done

asks() { [[ $(dig +tries=1 +timeout=8 +short ${3:+-b "$3"} "@$1" "$2.test") == 192.0.2.1 ]]; }
stats() { guest ". ./guest.sh; stats '$1'"; }
# says VALUE EXPRESSION: whether the report says so.
says() {
    local said
    said=$(stats "$2")
    echo "$2 is $said"
    [[ $said == "$1" ]]
}
wrong_sums='sum(w["stages"].get("parse", {"exits": {}})["exits"].get("drop.udp_checksum", 0) for w in r["workers"])'
announced='sum(w["announced"] for w in r["workers"])'
# queries: that each core has looked up.
queries() { stats 'json.dumps([w["stages"].get("lookup", {"packets": 0})["packets"] for w in r["workers"]])'; }

boot 400
guest '. ./guest.sh; prepare
a=$(device_of 02:00:00:00:00:0a) b=$(device_of 02:00:00:00:00:0b)
take $a; take $b
port() { printf "[[port]]\nname = \"%s\"\ndevice = \"%s\"\naddresses = [\"10.9.0.%s/24\", \"fd9::%s/64\"]\n" $1 $2 $3 $3; }
cores() { printf "[[placement]]\nstages = \"all\"\ncores = [%s]\n" "$1"; common_config; }
limits() { printf "[ratelimit]\nqueries_per_second = 1000000\n%s\n" "$1"; }
{ port a $a 53; cores "1, 2"; limits; } > /run/rss.toml
{ port b $b 54; cores "1, 2"; limits; } > /run/limits.toml
{ port b $b 54; cores "1, 2"; limits "per_core = true"; } > /run/accepted.toml
{ port a $a 53; port b $b 54; cores 2; } > /run/both.toml'

ok "bound_b4: RSS keeps clients on their cores, so limits are allowed" guest '. ./guest.sh; serve /run/rss.toml rss'
ok "audit_12: no thread has privileges, so all that follows needs none" guest '. ./guest.sh; restricted'
cat "$folder/said"
for address in 10.9.0.53 fd9::53; do
    ok "bound_b1: a peer with default offloads is answered at $address" asks $address a
done
ok "bound_b1: no query of it has a wrong checksum" eventually 20 says 0 "$wrong_sums"
ok "bound_b2: the bridge knows that we listen" eventually 15 bash -c 'bridge mdb show | grep -q "tapa grp ff02::1:ff00:53"'
sleep 12
ip neigh flush dev br0
ok "bound_b2: IPv6 works when only answers to queries keep us known" asks fd9::53 b
ok "bound_b2: addresses were announced" eventually 20 says True "$announced >= 9"

second=0
for client in $(seq 100 107); do
    before=$(queries)
    for _ in 1 2 3; do asks 10.9.0.53 a "10.9.0.$client" || true; done
    core=$(python3 -c "
grown = [after - before for before, after in zip($before, $(queries))]
print(grown.index(max(grown)) if max(grown) > 0 and min(grown) == 0 else f'both: {grown}')")
    ok "RSS: client 10.9.0.$client stays on one core" grep -qx '[01]' <<< "$core"
    [[ $core != 1 ]] || second=$((second + 1))
done
ok "RSS: clients are on both cores ($second of 8 on the second)" test $((second % 8)) != 0

qemu "set_link da off" > /dev/null
ok "a link that goes down is reported" eventually 20 says False 'r["ports"][0]["link_up"]'
before=$(stats "$announced")
qemu "set_link da on" > /dev/null
ok "a link that comes up is reported" eventually 20 says True 'r["ports"][0]["link_up"]'
ok "bound_b2: a link that comes up is told our addresses" eventually 20 says True "$announced > $before"
ok "two changes of the link are counted" eventually 20 says 2 'r["ports"][0]["link_changes"]'
ok "both are in the log" guest 'grep -q "the link is down" rss.log && grep -q "the link is up" rss.log'
ok "queries are answered as before" eventually 20 asks 10.9.0.53 a
ok "pmdns ends in good order" guest '. ./guest.sh; kill $(cat /run/pmdns.pid); gone && balanced rss.json'

ok "bound_b4: limits on queues without RSS are refused" guest \
    './pmdns run -c /run/limits.toml > limits.log 2>&1; [ $? = 2 ] && grep -q "ratelimit.per_core = true" limits.log'
ok "bound_b4: unless they are accepted" guest '. ./guest.sh; serve /run/accepted.toml accepted'
ok "bound_b4: then queries are answered" asks 10.9.0.54 a
guest '. ./guest.sh; kill $(cat /run/pmdns.pid); gone'

ok "pmdns serves on two ports" guest '. ./guest.sh; serve /run/both.toml both'
ok "the one to be removed answers" eventually 10 asks 10.9.0.53 a
qemu "device_del da" > /dev/null
is_gone() { ! qemu "info network" | grep -q "^da:"; }
ok "a device that is removed is released" eventually 60 guest 'grep -q "the device was released" both.log'
ok "the machine lets it go" eventually 60 is_gone
ok "the other port answers" asks 10.9.0.54 b
ok "the removal is reported" eventually 20 says True 'r["ports"][0]["removed"]'
ok "pmdns ends in good order" guest '. ./guest.sh; kill $(cat /run/pmdns.pid); gone && balanced both.json'
end
