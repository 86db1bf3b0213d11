# docs/tasks/first-port.md to the letter: its commands on an e1000e, and those of a client and router on a NIC
# beside it. Then what scripts/bind-nic.sh refuses. Sourced by scripts/lab-vm.sh.
# shellcheck shell=bash disable=SC2016,SC2054,SC2100,SC2154

nic a hubport,hubid=0 e1000e 02:00:00:00:00:0a
nic b hubport,hubid=0 virtio-net-pci 02:00:00:00:00:0b
# Two functions of one device, which share their IOMMU group.
slot c
for function in 0 1; do
    options+=" -netdev hubport,hubid=1,id=c$function"
    options+=" -device e1000e,netdev=c$function,bus=rc,addr=0.$function,multifunction=on,mac=02:00:00:00:00:c$function"
done

mkdir "$folder/scripts"
cp scripts/bind-nic.sh "$folder/scripts/"
# Each block is a file: step.NUMBER.LANGUAGE.MACHINE, as in step.01.sh.node; or step.NUMBER.toml.
awk -v folder="$folder" '
    /^```$/ { file = ""; next }
    /^```((sh|bird),(node|client|router)|toml)$/ {
        kind = substr($0, 4); sub(",", ".", kind)
        file = sprintf("%s/step.%02d.%s", folder, ++count, kind); next
    }
    file { print > file }' docs/tasks/first-port.md
cat >> "$folder/guest.sh" <<'G'
export PATH=$T:$PATH

# systemctl: what the units do; there is no systemd in this machine.
systemctl() {
    case $* in
        "start pmdns") serve /etc/pmdns/pmdns.toml service ;;
        "stop pmdns") kill "$(cat /run/pmdns.pid)" && gone ;;
        "restart pmdns") systemctl stop pmdns && systemctl start pmdns ;;
        "start pmdns-health")
            setsid pmdns health --watch -c /etc/pmdns/pmdns.toml > "$T/watch.log" 2>&1 < /dev/null &
            echo $! > /run/watch.pid
            ;;
        "stop pmdns-health") kill "$(cat /run/watch.pid)" ;;
        "restart bird") mkdir -p /run/bird && bird ;;
        *) return 1 ;;
    esac
}

# shows WHAT: whether /run/answer, what `birdc show WHAT` printed, is as the page says.
shows() {
    case $1 in
        protocols) [ "$(grep -c " BGP .* Established" /run/answer)" = 2 ] ;;
        route) grep -q "^198.51.100.53/32 .*unicast" /run/answer && grep -q "^2001:db8:53::53/128 .*unicast" /run/answer ;;
    esac
}

# settles COMMAND...: runs it until it succeeds and shows what it has to.
settles() {
    local tries=0
    until "$@" > /run/answer 2>&1 && shows "${@: -1}"; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || { cat /run/answer; return 1; }
        sleep 1
    done
    cat /run/answer
}

# node FILE: runs the page's commands one by one, with the machine's own device for that of the page.
node() {
    local line status
    while read -r line; do
        echo "# ${line//0000:01:00.0/$device}"
        status=0
        case $line in
            "pmdns health" | birdc*) line="settles $line" ;;
        esac
        eval "${line//0000:01:00.0/$device}" < /dev/null || status=$?
        # A doctor who warns is content.
        [ $status = 0 ] || [ "$status ${line%% -*}" = "6 pmdns doctor" ] || return $status
    done < "$1"
}

# client FILE: the same in the client's namespace; each dig has to be answered.
client() {
    local line
    while read -r line; do
        echo "# $line"
        ip netns exec client ${line/#dig/dig +tries=3 +timeout=5} > /run/answer && cat /run/answer || return
        [ "${line%% *}" != dig ] || grep -q "status: NOERROR.*" /run/answer && grep -q 192.0.2 /run/answer || return
    done < "$1"
}

# router FILE: the same of BIRD's commands, for the router's BIRD, which is in that namespace as well.
router() {
    local line
    while read -r line; do
        echo "# $line"
        settles ${line/#birdc/birdc -s /run/router.ctl} || return
    done < "$1"
}
G

boot 0
guest '. ./guest.sh
# An /etc and a /dev/hugepages of its own.
mkdir /run/etc && cp -a /etc/. /run/etc && mount --bind /run/etc /etc && mkdir -p /etc/pmdns
modprobe -a virtio_net e1000e tun vhost_net dummy
theirs=$(device_of 02:00:00:00:00:0b)
name=$(basename /sys/bus/pci/devices/$theirs/virtio*/net/*)
ip netns add client && ip link set $name netns client
ip -n client link set lo up; ip -n client link set $name name p0 up
ip -n client address add 192.0.2.1/24 dev p0; ip -n client address add 2001:db8::1/64 dev p0 nodad
ip link set lo up; ip address add 198.51.100.1/32 dev lo
cat > /run/example.zone <<Z
\$ORIGIN example.com.
@ 3600 SOA ns x 1 3600 600 86400 300
@ 3600 NS ns
* 3600 A 192.0.2.1
Z
cat > /run/nsd.conf <<N
server:
 ip-address: 198.51.100.1@53
 username: ""
 zonesdir: "/run"
 pidfile: "/run/nsd.pid"
 database: ""
 xfrdfile: "/run/nsd.xfrd"
 zonelistfile: "/run/nsd.zones"
 xfrdir: "/run"
 server-count: 1
zone:
 name: example.com
 zonefile: example.zone
N
setsid nsd -c /run/nsd.conf
echo "device=$(device_of 02:00:00:00:00:0a)" >> guest.sh
echo "first=$(device_of 02:00:00:00:00:c0) second=$(device_of 02:00:00:00:00:c1)" >> guest.sh
tail -2 guest.sh'

# What would cost the machine is refused first.
guest '. ./guest.sh; name=$(basename /sys/bus/pci/devices/$device/net/*); echo "name=$name" >> guest.sh
ip link set $name up; ip address add 203.0.113.2/24 dev $name; ip route add default via 203.0.113.1 dev $name'
# refused DEVICE WHY: the device is not bound, and stays with its driver.
refused() {
    guest ". ./guest.sh
        SSH_CONNECTION='203.0.113.9 5000 203.0.113.2 22' scripts/bind-nic.sh bind $1 > refused 2>&1; status=\$?; cat refused
        [ \$status = 1 ] && grep -q '$2' refused && [ \$(basename \$(readlink /sys/bus/pci/devices/\$device/driver)) = e1000e ]"
}
ok "the interface with the default route is refused" refused '$device' "has the default route"
ok "so is the address of an ssh session" refused '$name' "203.0.113.2, which an ssh session uses"
guest '. ./guest.sh; ip address flush dev $name; ip link add br0 type bridge; ip link set $name master br0'
ok "so is a member of a bridge" refused '$device' "is a member of br0"
guest '. ./guest.sh; ip link del br0; ip link set $name down'
ok "so is a device that is no NIC" refused 0000:00:00.0 "no network device"
ok "so is what does not exist" refused 0000:99:00.0 "no such PCI device"

for file in "$folder"/step.*; do
    file=$(basename "$file")
    what="the page's block ${file#step.}: $(head -n 1 "$folder/$file")"
    case $file in
        # A check of the health may take longer in an emulated machine.
        *.toml) ok "$what" guest ". ./guest.sh
            sed 's/0000:01:00.0/'\$device'/; s/^interface = .*/&\ntimeout_ms = 2000/' ./$file > /etc/pmdns/pmdns.toml" ;;
        *.bird.node) ok "$what" guest "cp ./$file /etc/bird/bird.conf" ;;
        *.bird.router) ok "$what" guest "ip netns exec client bird -c ./$file -s /run/router.ctl -P /run/router.pid" ;;
        *.sh.*) ok "$what" guest ". ./guest.sh; ${file##*.sh.} ./$file" ;;
    esac
    ! grep -q "doctor\|birdc" "$folder/$file" || cat "$folder/said"
done
ok "the kernel behind the port was reached over vhost-net" guest \
    '. ./guest.sh; grep "pm-edge is" service.log; grep -q "over vhost-net" service.log'
ok "pmdns ended in good order, with every packet accounted for" guest '. ./guest.sh; balanced service.json'
ok "the kernel has its interface again" guest '. ./guest.sh; [ -e /sys/bus/pci/devices/$device/net/$name ]'

ok "of a group with a second device it is said which" guest '. ./guest.sh
scripts/bind-nic.sh bind $first > group 2>&1; status=$?; cat group; [ $status = 1 ] && grep -q "also has $second (e1000e)" group'
ok "with that one bound as well, all is well" guest \
    '. ./guest.sh; scripts/bind-nic.sh bind $second && scripts/bind-nic.sh bind $first'
ok "both go back" guest '. ./guest.sh; scripts/bind-nic.sh unbind $first && scripts/bind-nic.sh unbind $second'
ok "what is the kernel's already is not unbound" guest \
    '. ./guest.sh; scripts/bind-nic.sh unbind $first 2>&1 | grep -q "already: e1000e"'
ok "--force takes the interface with the default route" guest '. ./guest.sh; ip link set $name up
ip address add 203.0.113.2/24 dev $name && ip route add default via 203.0.113.1 dev $name || exit
scripts/bind-nic.sh bind $device --force > forced 2>&1; cat forced
grep -q "in spite of this: $name has the default route" forced && grep -q vfio-pci forced'
end
