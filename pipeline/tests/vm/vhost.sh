# The kernel behind a bound port, over vhost-net and by a plain TAP: TCP, DNS over TCP, carrier, privileges, an interface that
# somebody deletes. The last lines compare the two. Sourced by scripts/lab-vm.sh.
# shellcheck shell=bash disable=SC2016,SC2154

for side in a b; do
    nic "$side" hubport,hubid=0 virtio-net-pci,disable-legacy=on,iommu_platform=on,ats=on "02:00:00:00:00:0$side"
done
boot 400

cat >> "$folder/guest.sh" <<'G'
# start NAME: starts pmdns, and waits until the client reaches the kernel behind its port.
start() {
    { cat port.toml; common_config; } > "$T/$1.toml"
    serve "$T/$1.toml" "$1" && at_client ping -c 3 -i 0.3 192.0.2.53 || return
    for ours in 192.0.2.53 2001:db8::53; do
        at_client dig +tcp +tries=3 +short @$ours n1.test | grep -q 192.0.2.1 || return
    done
}

# stop NAME: ends pmdns, which has to account for every packet.
stop() {
    kill "$(cat /run/pmdns.pid)" && gone && balanced "$1.json" && [ ! -e /sys/class/net/pm-edge ]
}

at_client() { ip netns exec client "$@"; }

# carrier STATE: waits until the interface has it, or not.
carrier() {
    local tries=0
    until [ "$(cat /sys/class/net/pm-edge/carrier)" = "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || return 1
        sleep 0.2
    done
}

# mbits DIRECTION: of a TCP connection with iperf3; -R is from the kernel behind the port to the client.
mbits() {
    at_client iperf3 -c 192.0.2.53 -t 5 --json $1 | python3 -c 'import json, sys
print(round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e6))'
}

# answers: DNS over TCP, in answers a second; none may be lost.
answers() {
    at_client dnsperf -m tcp -s 192.0.2.53 -d queries -c 20 -q 100 -l 5 > dnsperf.log 2>&1
    awk '/Queries lost/ { lost = $3 } /Queries per second/ { print int($4) } END { exit lost > 0 }' dnsperf.log
}
G
for number in $(seq 10000); do echo "n$((number % 100)).test A"; done > "$folder/queries"

guest '. ./guest.sh; prepare; modprobe -a tun vhost_net
ours=$(device_of 02:00:00:00:00:0a) theirs=$(device_of 02:00:00:00:00:0b)
name=$(basename /sys/bus/pci/devices/$theirs/virtio*/net/*)
take $ours; ip netns add client && ip link set $name netns client
ip -n client link set $name name p0 up; ip -n client address add 192.0.2.1/24 dev p0
ip -n client address add 2001:db8::1/64 dev p0 nodad
printf "[[port]]\nname = \"edge\"\ndevice = \"%s\"\ntap = \"pm-edge\"\n" $ours > port.toml
printf "addresses = [\"192.0.2.53/24\", \"2001:db8::53/64\"]\n" >> port.toml
printf "[streams]\ntcp = [\"192.0.2.53:53\", \"[2001:db8::53]:53\"]\n" >> port.toml
setsid iperf3 -s > /run/iperf3.log 2>&1 < /dev/null &'

# measure NAME: what passes, into the file of that name.
measure() {
    guest ". ./guest.sh
        in=\$(mbits '') && out=\$(mbits -R) && answers=\$(answers) && [ \"\$in\" -gt 0 ] && [ \"\$out\" -gt 0 ] &&
        echo \"$1: \$in Mbit/s in, \$out Mbit/s out, \$answers answers a second over TCP\" > \"$1\""
}

ok "the kernel is reached over vhost-net" guest '. ./guest.sh; start first && grep "pm-edge is over vhost-net" first.log'
ok "the interface has the MAC address of the port" guest \
    '. ./guest.sh; ip address show pm-edge; [ "$(cat /sys/class/net/pm-edge/address)" = 02:00:00:00:00:0a ] && carrier 1'
qemu "set_link da off" > /dev/null
ok "without a link it has no carrier" guest '. ./guest.sh; carrier 0'
qemu "set_link da on" > /dev/null
ok "with a link it has carrier again" guest '. ./guest.sh; carrier 1 && at_client ping -c 3 -i 0.3 192.0.2.53'
ok "no capability is left, and system calls are filtered" guest '. ./guest.sh; restricted'
ok "TCP passes in both directions, and DNS over it" measure "over vhost-net"
ok "nothing was refused" guest '. ./guest.sh; stats "r[\"taps\"]"; [ "$(stats "r[\"taps\"][0][\"refused\"]")" = 0 ]'
ok "it ends with pmdns, and every packet is accounted for" guest '. ./guest.sh; stop first'

ok "an interface that somebody deletes is told of, and queries go on" guest '. ./guest.sh
start second && ip link delete pm-edge && sleep 2 && stats "r[\"taps\"]" && [ "$(stats "r[\"taps\"][0][\"gone\"]")" = 1 ] &&
at_client dig +short @192.0.2.53 n2.test | grep -q 192.0.2.1 && stop second'

ok "without vhost-net the TAP is a plain one" guest '. ./guest.sh; rmmod vhost_net && [ ! -e /dev/vhost-net ]
start third && grep "pm-edge is a plain TAP, without vhost-net" third.log'
ok "TCP passes as well" measure "by a plain TAP"
ok "it ends as well" guest '. ./guest.sh; stop third'
cat "$folder/over vhost-net" "$folder/by a plain TAP"
end
