# Three bound NICs, each on a hub with a NIC of the kernel, whose namespace is the client. The first hub has one more.
# Sourced by scripts/lab-vm.sh.
# shellcheck shell=bash disable=SC2016,SC2054,SC2100,SC2154

models=(e1000e vmxnet3 virtio-net-pci,disable-legacy=on,iommu_platform=on,ats=on)
for n in 0 1 2; do
    nic "a$n" "hubport,hubid=$n" "${models[n]}" "02:00:00:00:0$n:0a"
    nic "b$n" "hubport,hubid=$n" virtio-net-pci "02:00:00:00:0$n:0b"
done
nic a3 hubport,hubid=0 e1000e 02:00:00:00:03:0a
boot 400

for number in $(seq 10000); do echo "n$((number % 100)).test A"; done > "$folder/queries"
cat > "$folder/nic.sh" <<'G'
# nic N: binds NIC N, gives the kernel's beside it a namespace, and prints the port's config.
nic() {
    local ours theirs name
    ours=$(device_of "02:00:00:00:0$1:0a") && theirs=$(device_of "02:00:00:00:0$1:0b") || return
    name=$(basename /sys/bus/pci/devices/"$theirs"/virtio*/net/*)
    take "$ours" >&2
    ip netns add "n$1" && ip link set "$name" netns "n$1"
    ip -n "n$1" link set "$name" name p0 up
    ip -n "n$1" address add "10.9$1.0.1/24" dev p0
    ip -n "n$1" address add "fd9$1::1/64" dev p0 nodad
    # Without the domain, and in capitals: an operator may write an address as lspci does.
    printf '[[port]]\nname = "p%s"\ndevice = "%s"\n' "$1" "$(echo "${ours#0000:}" | tr a-f A-F)"
    printf 'addresses = ["10.9%s.0.53/24", "fd9%s::53/64"]\nvlans = ["untagged", 100, [200, 300]]\n' "$1" "$1"
}

# tagged N WHAT COMMAND...: runs it in namespace N with our IPv4 address behind a VLAN: an id, or outer.inner.
tagged() {
    local n=$1 what=$2 x="ip -n n$1" status
    shift 2
    case $what in
        *.*)
            $x link add link p0 name outer type vlan proto 802.1ad id "${what%.*}"
            $x link add link outer name v type vlan id "${what#*.}"
            $x link set outer up
            ;;
        *) $x link add link p0 name v type vlan id "$what" ;;
    esac
    $x link set v up
    $x route add "10.9$n.0.53/32" dev v src "10.9$n.0.1"
    status=0
    ip netns exec "n$n" bash -c ". $T/guest.sh; $*" || status=$?
    $x link del v
    [ "${what#*.}" = "$what" ] || $x link del outer
    return $status
}

# over_port N: starts an upstream beside NIC N, and prints it as two that are asked over the port.
over_port() {
    sed -e "s/127.0.0.1@5300/10.9$1.0.1@5300\n ip-address: fd9$1::1@5300/" -e "s#/run/nsd\.[a-z]*#&$1#" \
        /run/nsd.conf > "/run/nsd$1.conf"
    ip -n "n$1" link set lo up
    ip netns exec "n$1" setsid nsd -d -c "/run/nsd$1.conf" > "/run/nsd$1.log" 2>&1 &
    printf '[[upstream]]\naddress = "%s"\nport = "p%s"\n' "10.9$1.0.1:5300" "$1" "[fd9$1::1]:5300" "$1"
}
G
echo '. ./nic.sh' >> "$folder/guest.sh"

guest '. ./guest.sh; prepare
for n in 0 1 2; do nic $n; done > /run/c.toml
printf "[[placement]]\nstages = \"all\"\ncores = [2]\n" >> /run/c.toml
common_config >> /run/c.toml
cat /run/c.toml'
ok "a config with PCI addresses in any form is right" guest './pmdns check -c /run/c.toml'
ok "pmdns serves on three bound NICs" guest '. ./guest.sh; serve /run/c.toml first'
ok "audit_12: none of its threads has privileges" guest '. ./guest.sh; restricted'
cat "$folder/said"
ok "audit_12: reload reads the configuration again" guest './pmdns reload --socket /run/pmdns/control.sock'

# Commands in the namespace of NIC N.
in_nic() { guest ". ./guest.sh; ip netns exec n$1 bash -c '. ./guest.sh; $2'"; }

for n in 0 1 2; do
    name=${models[n]%%,*}
    guest "ip netns exec n$n tcpdump -Z root -B 16384 -nn -i p0 -w /run/p$n.pcap > /run/tcpdump.log 2>&1 &
        echo \$! > /run/tcpdump; sleep 2"
    for address in "10.9$n.0.53" "fd9$n::53"; do
        ok "$name: ping $address" in_nic "$n" "ping -c 1 -W 10 $address"
        for query in "miss$RANDOM" a a; do
            ok "$name: $query of $address" in_nic "$n" "asks $address $query"
        done
        ok "$name: 10,000 queries of $address, none lost" in_nic "$n" \
            "timeout 120 dnsperf -s $address -d ./queries -n 1 -q 50 -t 20 | tee /dev/stderr | grep -q \"lost: *0 \""
    done
    ok "bound_b3 $name: VLAN 100" guest ". ./guest.sh; tagged $n 100 asks 10.9$n.0.53 a 2"
    ok "bound_b3 $name: VLAN 300 in VLAN 200" guest ". ./guest.sh; tagged $n 200.300 asks 10.9$n.0.53 a 2"
    ok "bound_b3 $name: no answer in VLAN 7" guest ". ./guest.sh; ! tagged $n 7 asks 10.9$n.0.53 a"
    guest "kill \$(cat /run/tcpdump); sleep 2; cp /run/p$n.pcap .; cat /run/tcpdump.log"
done
ok "frames of other VLANs are counted" guest \
    '. ./guest.sh; [ "$(stats "r[\"workers\"][0][\"stages\"][\"parse\"][\"exits\"].get(\"drop.vlan\", 0)")" -gt 0 ]'

# A process follows another one while queries come, 100 a second over each NIC. Each lost one is some 10 ms without a port.
followed() {
    guest ". ./guest.sh
        for n in 0 1 2; do
            ip netns exec n\$n dnsperf -s 10.9\$n.0.53 -d ./queries -l 120 -Q 100 -q 1000 -t 2 > /run/f\$n & all=\"\$all \$!\"
        done
        sleep 3; $1; status=\$?; sleep 4; kill -INT \$all; wait \$all
        for n in 0 1 2; do echo \"NIC \$n: \$(grep -E 'lost|completed:' /run/f\$n | tr -s ' \n' ' ')\"; done; exit \$status"
}
ok "the next process takes over, and opens what this one has closed" followed "take_over /run/c.toml next"
cat "$folder/said"
for n in 0 1 2; do ok "${models[n]%%,*}: it answers" in_nic "$n" "asks 10.9$n.0.53 a 3"; done
ok "none of its threads has privileges" guest '. ./guest.sh; restricted'
# A release build stops at no step.
if grep -q PMDNS_HANDOVER_HOLD "$folder/pmdns"; then
    ok "the next process is killed before it has opened them, and this one opens them again" \
        followed "is_killed /run/c.toml killed"
    cat "$folder/said"
    for n in 0 1 2; do ok "${models[n]%%,*}: it answers again" in_nic "$n" "asks 10.9$n.0.53 a 3"; done
fi

# Two NICs on one link: the next process has the other one, announces the addresses there, and this one answers meanwhile.
guest '. ./guest.sh; other=$(device_of 02:00:00:00:03:0a) && take "$other"
sed "0,/^device = .*/s//device = \"$other\"/" /run/c.toml > /run/two.toml'
ok "the next process serves by another NIC" followed "take_over /run/two.toml two"
cp "$folder/said" "$folder/lost" && cat "$folder/lost"
ok "and nothing is lost on its link" grep -q "NIC 0: .*lost: 0 " "$folder/lost"

guest 'kill -9 $(cat /run/pmdns.pid); sleep 1'
# The same ports, and upstreams beside them in place of the one on loopback.
guest '. ./guest.sh
sed -e "s/^addresses = .\"10\.9\(.\).*/&\nquery_sources = [\"10.9\1.0.60\", \"fd9\1::60\"]/" \
    -e "/^\[\[upstream\]\]/d" -e "/^address = \"127/d" /run/c.toml > /run/edge.toml
printf "[[group]]\nname = \"default\"\nstrategy = \"round_robin\"\n" >> /run/edge.toml
for n in 0 1 2; do over_port $n; done >> /run/edge.toml
cat /run/edge.toml'
answer() {
    for n in 0 1 2; do in_nic "$n" "dig +tries=1 +timeout=2 +short -p 5300 @10.9$n.0.1 a.test | grep -q 192" || return; done
}
ok "the upstreams beside the ports answer" eventually 60 answer
ok "pmdns starts again after SIGKILL" guest '. ./guest.sh; serve /run/edge.toml second'
cat "$folder/said"
found() {
    guest '. ./guest.sh; stats "all(hop[\"state\"] == \"reachable\" for hop in r[\"next_hops\"]) or sys.exit(1)"' > "$folder/found"
}
ok "all next hops are found" eventually 60 found
for n in 0 1 2; do
    for number in $(seq 600); do echo "p$n-$number.test A"; done > "$folder/queries$n"
    ok "${models[n]%%,*}: 600 new names by upstreams over all ports, all answered" in_nic "$n" \
        "timeout 120 dnsperf -s 10.9$n.0.53 -d ./queries$n -n 1 -q 20 -t 20 | tee /dev/stderr | grep -q \"NOERROR 600 \""
done
ok "each upstream was asked over its port" guest \
    '. ./guest.sh; queries=$(stats "[u[\"queries\"] for u in r[\"upstreams\"]]")
    echo "$queries"; python3 -c "import sys; sys.exit(min($queries) < 100)"'
ok "pmdns ends in good order" guest '. ./guest.sh; kill $(cat /run/pmdns.pid); gone && balanced second.json'
ok "nothing of DPDK's is logged as it stops" guest '! grep -q EAL: second.log'

for n in 0 1 2; do
    sent="eth.src==02:00:00:00:0$n:0a"
    bad="ip.checksum.status==0||(udp&&udp.checksum.status!=1)||icmpv6.checksum.status==0||icmp.checksum.status==0||_ws.malformed"
    count() { tshark -r "$folder/p$n.pcap" -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -Y "$1" 2> /dev/null | wc -l; }
    # The capture may miss some of 20,000 answers on a busy machine.
    ok "${models[n]%%,*}: answers were captured" test "$(count "$sent")" -gt 1000
    ok "${models[n]%%,*}: none has a wrong checksum" test "$(count "$sent&&($bad)")" = 0
done
end
