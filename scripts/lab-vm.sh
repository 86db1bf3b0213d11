#!/usr/bin/env bash
# Labs on bound PCI NICs in a machine that QEMU emulates, with an IOMMU and without KVM. Usage: scripts/lab-vm.sh LAB [BINARY].
#   LAB pci     e1000e, vmxnet3, virtio-net: ping, queries, VLANs, SIGKILL, counters, checksums.
#   LAB first-port  docs/tasks/first-port.md to the letter, and what scripts/bind-nic.sh refuses.
#   LAB vhost   the kernel behind a port over vhost-net and by a plain TAP, and what passes.
#   LAB bridge  virtio-net on a bridge: a peer's default offloads, MLD snooping, RSS, limits, link flaps, removal.
# Needs root. scripts/install.sh --vm installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

lab=${1-}
binary=${2-${CARGO_TARGET_DIR:-target}/release/pmdns}
case $lab in
    pci | bridge | first-port | vhost) ;;
    *)
        sed -n '2,7p' "$0" >&2
        exit 2
        ;;
esac
export PATH=/opt/pmdns-lab/bin:$PATH:/usr/sbin:/sbin
# Emulation shares the CPUs with everything else: an idle machine needs some three minutes.
LIMIT=${PMDNS_VM_SECONDS:-900}

stop() {
    echo "$*" >&2
    exit 1
}

if [[ ${PMDNS_VM_FOLDER-} == "" ]]; then
    [[ $(id -u) -eq 0 ]] || stop "run as root: the machine boots this one's root file system"
    [[ -x $binary ]] || stop "no $binary: cargo build --release -p pmdns, or name another binary"
    for needed in vng qemu-system-x86_64 busybox script nsd dig dnsperf iperf3 tcpdump tshark bird; do
        command -v "$needed" > /dev/null || stop "no $needed: scripts/install.sh --vm"
    done
    PMDNS_VM_FOLDER=$(mktemp -d /tmp/pmdns-vm.XXXXXX)
    export PMDNS_VM_FOLDER
    trap 'rm -rf "$PMDNS_VM_FOLDER"' EXIT
    # Everything that the lab starts or lays ends with these namespaces.
    timeout --kill-after=10 "$LIMIT" \
        unshare --net --mount --pid --fork --kill-child --mount-proc -- "$0" "$lab" "$binary"
    exit
fi

folder=$PMDNS_VM_FOLDER
kernels=(/boot/vmlinuz-*-amd64)
kernel=${kernels[-1]}
[[ -e $kernel ]] || stop "no kernel in /boot: scripts/install.sh --vm"
cp "$binary" "$folder/pmdns"
cp pipeline/tests/vm/agent.sh pipeline/tests/vm/guest.sh "$folder/"
# shellcheck source=pipeline/tests/vm/machine.sh
source pipeline/tests/vm/machine.sh
# shellcheck source=/dev/null
source "pipeline/tests/vm/$lab.sh"
