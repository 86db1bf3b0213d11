#!/usr/bin/env bash
# Hands a PCI NIC to pmdns, and back to the kernel.
# usage: scripts/bind-nic.sh bind|unbind|show [DEVICE] [--force]
#   bind DEVICE     binds it to vfio-pci. Refuses an interface that this machine is reached or reaches others by, without --force.
#   unbind DEVICE   gives it back to the kernel's own driver.
#   show [DEVICE]   prints network devices: address, driver, IOMMU group, interfaces, model.
# DEVICE is a PCI address (0000:01:00.0, 01:00.0) or an interface (eth1). A restart of the machine undoes all of it.
set -euo pipefail

PCI=/sys/bus/pci
NET=/sys/class/net
VFIO=vfio-pci

stop() {
    printf '%s: %s\n' "$device" "$*" >&2
    exit 1
}

usage() {
    sed -n '3,7s/^# \{0,1\}//p' "$0" | sed "s,scripts/bind-nic.sh,$0," >&2
    exit 2
}

# find TEXT: sets `device` to the PCI address that TEXT names.
find_device() {
    device=$1
    [[ $1 != */* ]] || stop "this is a path; write a PCI address or an interface"
    local parent
    if [[ -e $NET/$1/device ]]; then
        # virtio has a device of its own between the interface and the PCI function.
        for parent in "$NET/$1/device" "$NET/$1/device/.."; do
            parent=$(basename "$(realpath "$parent")")
            [[ ! -e $PCI/devices/$parent ]] || { device=$parent; return; }
        done
        stop "this interface is no PCI device; name it in \`port.device\` as AF_XDP does: net_af_xdp0,iface=$1"
    fi
    local address=${1,,}
    [[ $address == *:*:* ]] || address=0000:$address
    [[ -e $PCI/devices/$address ]] || stop "there is no such PCI device or interface; \`$0 show\` lists them"
    device=$address
    [[ $(cat "$PCI/devices/$device/class") == 0x02* ]] || stop "this is no network device; \`$0 show\` lists them"
}

# interfaces DEVICE: the kernel's interfaces on it.
interfaces() {
    local folder
    for folder in "$PCI/devices/$1"/net/* "$PCI/devices/$1"/virtio*/net/*; do
        [[ ! -e $folder ]] || basename "$folder"
    done
}

driver_of() {
    [[ ! -e $PCI/devices/$1/driver ]] || basename "$(realpath "$PCI/devices/$1/driver")"
}

group_of() {
    [[ ! -e $PCI/devices/$1/iommu_group ]] || basename "$(realpath "$PCI/devices/$1/iommu_group")"
}

# in_use INTERFACE: why it should stay the kernel's; nothing if there is no reason.
in_use() {
    local interface=$1 master above address server=${SSH_CONNECTION-}
    if [[ -n $(ip route show default dev "$interface"; ip -6 route show default dev "$interface") ]]; then
        echo "$interface has the default route"
    fi
    if [[ -e $NET/$interface/master ]]; then
        master=$(basename "$(realpath "$NET/$interface/master")")
        echo "$interface is a member of $master"
    fi
    for above in "$NET/$interface"/upper_*; do
        [[ ! -e $above || -e $NET/$interface/master ]] || echo "$interface carries ${above##*/upper_}"
    done
    # The third word is the address that this ssh session came to. Others are found by their sockets.
    server=$(awk '{ print $3 }' <<< "$server")
    while read -r address; do
        address=${address%%/*}
        if [[ $address == "$server" ]] || ssh_comes_to "$address"; then
            echo "$interface has $address, which an ssh session uses"
        fi
    done < <(ip -brief address show dev "$interface" | awk '{ for (i = 3; i <= NF; i++) print $i }')
}

ssh_comes_to() {
    command -v ss > /dev/null || return 1
    [[ -n $(ss -Htn state established "( sport = :22 and src $1 )" 2> /dev/null) ]]
}

check_root() {
    [[ $(id -u) -eq 0 ]] || stop "run this as root"
}

check_free() {
    local interface reasons
    reasons=$(for interface in $(interfaces "$device"); do in_use "$interface"; done)
    [[ -n $reasons ]] || return 0
    $force && { echo "$device: taken in spite of this: ${reasons//$'\n'/; }" >&2; return; }
    stop "not taken, because the machine may be lost by it: ${reasons//$'\n'/; }. Move that to another interface, or add --force"
}

check_module() {
    [[ -e $PCI/drivers/$VFIO ]] || modprobe $VFIO 2> /dev/null ||
        stop "the kernel $(uname -r) has no module $VFIO: install its modules (Debian: linux-image-amd64), then restart"
    [[ -e $PCI/drivers/$VFIO ]] || stop "$VFIO does not show in $PCI/drivers: look at \`dmesg | tail\`"
}

check_iommu() {
    [[ -z $(group_of "$device") ]] || return 0
    local unsafe=/sys/module/vfio/parameters/enable_unsafe_noiommu_mode
    if [[ -e $unsafe && $(cat $unsafe) == Y ]]; then
        echo "$device: without an IOMMU it can read and write all memory" >&2
        return
    fi
    stop "the machine has no IOMMU in use. Turn on VT-d or AMD-Vi in the firmware, start the kernel with" \
        "\`intel_iommu=on iommu=pt\` (AMD: \`iommu=pt\`), and try again. Where there is none, as in some virtual machines:" \
        "\`modprobe vfio enable_unsafe_noiommu_mode=1\`; then a device can read and write all memory"
}

# All devices of a group are handed over together, or none of them can be opened. Bridges do not count.
check_group() {
    local other driver others=""
    [[ -n $(group_of "$device") ]] || return 0
    for other in "$PCI/devices/$device"/iommu_group/devices/*; do
        other=$(basename "$other")
        driver=$(driver_of "$other")
        [[ $other == "$device" || -z $driver || $driver == "$VFIO" || $(cat "$PCI/devices/$other/class") == 0x0604* ]] ||
            others+=" $other ($driver)"
    done
    [[ -z $others ]] ||
        stop "is bound, but group $(group_of "$device") also has$others: it opens only when these are bound or unbound as well," \
            "or when the NIC is in another slot"
}

# rebind DRIVER: leaves the driver of now, and takes DRIVER, or the kernel's own if that is empty.
rebind() {
    local folder=$PCI/devices/$device
    if [[ -z $1 ]]; then
        # What writes nothing but a newline takes the override away.
        echo > "$folder/driver_override"
    else
        echo "$1" > "$folder/driver_override"
    fi
    [[ ! -e $folder/driver ]] || echo "$device" > "$folder/driver/unbind"
    echo "$device" > "$PCI/drivers_probe" || true
}

bind_nic() {
    check_root
    if [[ $(driver_of "$device") != "$VFIO" ]]; then
        check_free
        check_module
        check_iommu
        rebind $VFIO
        [[ $(driver_of "$device") == "$VFIO" ]] || stop "$VFIO did not take it: \`dmesg | tail\` says why"
    fi
    check_group
    show "$device"
}

unbind_nic() {
    check_root
    case $(driver_of "$device") in
        "$VFIO" | uio_pci_generic | igb_uio | "") ;;
        *) stop "is the kernel's already: $(driver_of "$device")" ;;
    esac
    # Taken from a process that has it open, it would wait for that process for ever.
    local group holder
    group=/dev/vfio/$(group_of "$device")
    if [[ -c $group ]] && command -v fuser > /dev/null && holder=$(fuser "$group" 2> /dev/null); then
        stop "process$holder has it open: stop that first"
    fi
    rebind ""
    [[ -n $(driver_of "$device") ]] || stop "no driver took it: load the kernel's module for it (\`lspci -ks $device\` names it)"
    show "$device"
}

show() {
    local names model
    names=$(interfaces "$1" | paste -sd,)
    if command -v lspci > /dev/null; then
        model=$(lspci -s "$1" | cut -d' ' -f2-)
    else
        model=$(paste -d: "$PCI/devices/$1/vendor" "$PCI/devices/$1/device")
    fi
    printf '%-13s %-16s %-9s %-12s %s\n' "$1" "$(driver_of "$1")" "group $(group_of "$1")" "${names:--}" "$model"
}

show_all() {
    local folder
    for folder in "$PCI"/devices/*; do
        [[ ! -e $folder/class || $(cat "$folder/class") != 0x02* ]] || show "$(basename "$folder")"
    done
}

force=false device=""
words=()
for word in "$@"; do
    case $word in
        --force) force=true ;;
        -*) usage ;;
        *) words+=("$word") ;;
    esac
done
case ${words[0]-}/${#words[@]} in
    bind/2) find_device "${words[1]}" && bind_nic ;;
    unbind/2) find_device "${words[1]}" && unbind_nic ;;
    show/2) find_device "${words[1]}" && show "$device" ;;
    show/1) show_all ;;
    *) usage ;;
esac
