#!/usr/bin/env bash
# Boots Debian's kernel for arm64 in a machine that QEMU emulates. There pmdns takes a virtio-net port behind an SMMU, answers a
# question of this machine over it, and ends with every packet accounted for.
# usage: scripts/lab-arm64.sh BINARY      the BINARY is one for arm64; scripts/install.sh --arm64 has what it needs
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -eq 1 ]] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }

LIBRARIES=/usr/lib/aarch64-linux-gnu
PORT=53530
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,usr/bin,usr/lib,var/run}
ln -s usr/lib "$root/lib"
ln -s var/run "$root/run"

# The kernel and its modules. They are not installed: this machine does not boot them.
kernel=$(apt-cache depends linux-image-arm64:arm64 | sed -n 's/.*Depends: \(linux-image-[0-9][^:]*\).*/\1/p' | head -n 1)
(cd "$folder" && apt-get download -qq "$kernel:arm64" busybox-static:arm64 2> log) || { cat "$folder/log" >&2; exit 1; }
for package in "$folder"/*.deb; do dpkg -x "$package" "$folder/packages"; done
cp "$folder"/packages/bin/busybox "$root/bin/"
release=${kernel#linux-image-}
modules=$folder/packages/lib/modules/$release
mkdir -p "$root/usr/lib/modules/$release/kernel/drivers"
cp -r "$modules"/modules.* "$root/usr/lib/modules/$release/"
cp -r "$modules/kernel/drivers/vfio" "$root/usr/lib/modules/$release/kernel/drivers/"
depmod --basedir "$root" "$release"

# The program, the drivers of this port, and what they are linked with. Links stay links: a library by two names would be loaded
# twice.
cp "$1" "$root/usr/bin/pmdns"
drivers=("$LIBRARIES"/dpdk/pmds-*/librte_{bus_pci,bus_vdev,mempool_ring,net_virtio}.so.*)
for object in "$1" "${drivers[@]}"; do qemu-aarch64 /lib/ld-linux-aarch64.so.1 --list "$object"; done |
    grep -o '/lib/[^ ]*' | sort -u | while read -r file; do echo "/usr$file" && realpath "$file"; done | sed 's|^/||' |
    tar --create --directory / --files-from - "${drivers[@]#/}" | tar --extract --directory "$root"

cat > "$root/pmdns.toml" << 'TEXT'
[eal]
args = ["-m", "128"]
[[port]]
name = "edge"
device = "0000:00:02.0"
addresses = ["10.0.2.53/24"]
[acl]
default = "allow"
[cache]
size = "16MiB"
[[upstream]]
address = "127.0.0.1:5300"
[control]
socket = "/run/pmdns/control.sock"
TEXT
cat > "$root/init" << 'TEXT'
#!/bin/busybox sh
export PATH=/bin:/usr/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir /dev/hugepages
mount -t hugetlbfs none /dev/hugepages
modprobe -a vfio-pci vfio_iommu_type1
echo vfio-pci > /sys/bus/pci/devices/0000:00:02.0/driver_override
echo 0000:00:02.0 > /sys/bus/pci/drivers_probe
pmdns run -c /pmdns.toml --json > /report &
program=$!
{ read -r _ && kill -TERM $program; } < /dev/console &
wait $program
echo "pmdns ended with $?"
echo "report: $(tr -d '\n' < /report)"
poweroff -f
TEXT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc) > "$folder/initrd"

mkfifo "$folder/keys"
timeout --kill-after=10 "${PMDNS_VM_SECONDS-600}" qemu-system-aarch64 \
    -machine virt,gic-version=3,iommu=smmuv3 -cpu cortex-a72 -smp 2 -m 1G -display none -monitor none -serial stdio -no-reboot \
    -kernel "$folder/packages/boot/vmlinuz-$release" -initrd "$folder/initrd" \
    -append "console=ttyAMA0 hugepages=128 panic=-1" -netdev "user,id=n,hostfwd=udp:127.0.0.1:$PORT-10.0.2.53:53" \
    -device virtio-net-pci,netdev=n,addr=2,disable-legacy=on,iommu_platform=on,romfile= < "$folder/keys" > "$folder/console" &
machine=$!
exec 3> "$folder/keys"
fail() {
    tail -n 30 "$folder/console" >&2
    kill "$machine" 2> /dev/null || true
    echo "failed: $*" >&2
    exit 1
}
until [[ $(dig -p "$PORT" +short +tries=1 +timeout=3 @127.0.0.1 localhost A) == 127.0.0.1 ]]; do
    kill -0 "$machine" 2> /dev/null || fail "the machine is gone"
    sleep 1
done
echo "ok: pmdns for arm64 answers over a virtio-net port after $SECONDS s"
echo >&3
wait "$machine" || fail "the machine ended with $?"
grep --quiet "^pmdns ended with 0" "$folder/console" || fail "pmdns did not end in good order"
balanced='.totals | .received + .made == .transmitted + .dropped + .slow_path + .exceptions + .held'
sed -n 's/^report: //p' "$folder/console" | jq --exit-status "$balanced" > "$folder/said" || fail "a packet is not accounted for"
echo "ok: it ended in good order, with every packet accounted for"
