#!/usr/bin/env bash
# Builds a release of DPDK from its source, with the drivers that the tests and the labs need, and installs it in a folder.
#
# usage: eval "$(scripts/dpdk.sh VERSION PREFIX)"
#
# VERSION is that of an archive of fast.dpdk.org, as 25.11. Each version needs a PREFIX of its own. The script prints what a
# shell has to export: with that, cargo builds against this DPDK, and programs and testpmd find it. Cargo needs a target
# folder of its own for it. A release that is installed there is left alone; so is an archive that is in PREFIX/src.
set -euo pipefail

# Buses, the memory of frames, devices without a NIC, and the NICs of emulated machines.
DRIVERS=bus/auxiliary,bus/pci,bus/vdev,mempool/ring,mempool/stack,net/af_packet,net/af_xdp,net/memif,net/null,net/pcap,net/ring
DRIVERS+=,net/tap,net/vhost,net/virtio,net/e1000,net/ixgbe
# What these drivers need beyond the libraries that every DPDK has.
LIBRARIES=cryptodev,dmadev,gso,security,vhost

if [[ $# -ne 2 || ! $1 =~ ^[0-9]{2}\.[0-9]{2}(\.[0-9]+)?$ ]]; then
    sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
version=$1
prefix=$(realpath -m "$2")
cd "$(dirname "$0")/.."

folder=$prefix
while [[ $folder != / ]]; do
    if [[ $(find "$folder" -maxdepth 0 -perm -o+w 2> /dev/null) ]]; then
        echo "$folder is writable for everyone, so DPDK would load no drivers from $prefix: choose another folder" >&2
        exit 1
    fi
    folder=$(dirname "$folder")
done

# Makes the folder "$prefix/src/dpdk", and installs what is built of it.
build() {
    local archive=$prefix/src/dpdk-$version.tar.xz source=$prefix/src/dpdk
    scripts/install.sh --dpdk
    mkdir -p "$prefix/src"
    if [[ ! -e $archive ]]; then
        curl --fail --silent --show-error --location --output "$archive.part" \
            "https://fast.dpdk.org/rel/dpdk-$version.tar.xz"
        mv "$archive.part" "$archive"
    fi
    rm -rf "$source"
    mkdir "$source"
    tar -xf "$archive" -C "$source" --strip-components=1
    # As Debian builds it, for any processor of this architecture. The system's Python has the module that the build needs.
    PATH=/usr/bin:$PATH meson setup "$source/build" "$source" --prefix="$prefix" --libdir=lib -Dplatform=generic \
        -Denable_drivers="$DRIVERS" -Denable_libs="$LIBRARIES" -Denable_apps=test-pmd -Dtests=false
    ninja -C "$source/build" --quiet
    meson install -C "$source/build" --quiet
    rm -rf "$source"
}

installed=$(sed -n 's/^Version: //p' "$prefix/lib/pkgconfig/libdpdk.pc" 2> /dev/null || true)
[[ $installed == "$version" || $installed == "$version.0" ]] || build >&2
cat << TEXT
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export LD_LIBRARY_PATH=$prefix/lib
export PATH=$prefix/bin:\$PATH
TEXT
