# The host's side of a machine: boots it, has it run commands, ends it. Sourced; needs $folder and $kernel.
# shellcheck shell=bash disable=SC2154

# In a file: subshells ask as well.
echo 0 > "$folder/asked"
failures=0

# QEMU's options: the chipset with an IOMMU, and the monitor.
options="-machine q35,kernel-irqchip=split -device intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"
options+=" -qmp unix:$folder/qmp,server=on,wait=off"
slots=10

# slot NAME: adds the PCIe slot rNAME.
slot() {
    slots=$((slots + 1))
    options+=" -device pcie-root-port,id=r$1,chassis=$slots,slot=$slots"
}

# nic NAME NETDEV MODEL MAC: adds the NIC dNAME in a slot of its own. NETDEV and MODEL may have options of QEMU.
nic() {
    slot "$1"
    options+=" -netdev $2,id=n$1 -device $3,netdev=n$1,bus=r$1,id=d$1,mac=$4"
}

# boot HUGE_PAGES: boots the machine's own root file system, read-only but for $folder.
# An emulated machine may stop for good while it boots, or while it turns itself off. So it gets other tries, and a bound.
# Alone it takes 40 s; a slow host that has other work needs several times as long.
boot() {
    local try
    for try in 1 2 3; do
        power_on "$@"
        eventually 240 is_up_or_off && is_up && { echo "booted after $SECONDS s"; return; }
        echo "the machine did not boot within 240 s, try $try of 3" >&2
        tail -n 20 "$folder/console" >&2
        power_off
    done
    return 1
}

is_up() { [[ -e $folder/up ]]; }
is_up_or_off() { is_up || is_off; }
is_off() { ! kill -0 "$machine" 2> /dev/null; }

power_on() {
    script -qec "vng --run $kernel --disable-kvm --cpus 3 --memory 3G --user root \
        --rwdir=$folder --append 'hugepages=$1 intel_iommu=on iommu=pt' --qemu-opts='$options' \
        --exec 'bash $folder/agent.sh'" /dev/null > "$folder/console" 2>&1 < /dev/null &
    machine=$!
}

power_off() {
    is_off || pkill -KILL qemu-system || true
    wait "$machine" || true
}

# guest COMMANDS: has the machine run them; prints what they print, and returns their exit status.
guest() {
    local number answer
    number=$(cat "$folder/asked")
    echo $((number + 1)) > "$folder/asked"
    answer=$folder/answer.$number
    printf '%s\n' "cd $folder" "$1" > "$folder/next"
    mv "$folder/next" "$folder/ask.$number"
    until [[ -e $answer ]]; do
        kill -0 "$machine" 2> /dev/null || { echo "the machine is gone" >&2; tail -5 "$folder/console" >&2; return 1; }
        sleep 0.2
    done
    head -n -1 "$answer"
    return "$(tail -n 1 "$answer")"
}

# qemu COMMAND: one line for QEMU's monitor.
qemu() {
    python3 - "$folder/qmp" "$1" <<'P'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(sys.argv[1])
lines = s.makefile("rw")
lines.readline()
for command in ({"execute": "qmp_capabilities"},
                {"execute": "human-monitor-command", "arguments": {"command-line": sys.argv[2]}}):
    lines.write(json.dumps(command) + "\n")
    lines.flush()
    while "return" not in (answer := json.loads(lines.readline())):
        if "error" in answer:
            sys.exit(str(answer))
print(answer["return"])
P
}

# ok WHAT COMMAND...: runs a check and says what came of it.
ok() {
    local what=$1
    shift
    if "$@" > "$folder/said" 2>&1; then
        echo "ok   $what"
    else
        echo "FAIL $what"
        sed 's/^/     /' "$folder/said" | tail -n 12
        failures=$((failures + 1))
    fi
}

# eventually SECONDS COMMAND...: runs it again and again until it succeeds.
eventually() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < until)) || return 1
        sleep 1
    done
}

# end: lets the machine end, and says whether everything was right.
end() {
    touch "$folder/end"
    eventually 30 is_off || echo "the machine did not turn itself off"
    power_off
    echo "$failures failure(s), $SECONDS s"
    ((failures == 0))
}
