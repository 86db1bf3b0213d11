#!/usr/bin/env bash
# Installs the packages that building pmdns needs. With --lab also those of its end-to-end labs. With --vm also those of
# the labs in an emulated machine (scripts/lab-vm.sh). With --peers also the other servers that scripts/compare.sh compares it with.
# With --browser also Chromium, what gives it a root certificate, and what drives it, for the labs with a browser.
# With --api also schemathesis, for the lab that makes requests of the description of the HTTP API.
# With --book only mdBook, by cargo: Debian has no package of it. With --package only what packing needs, and with --root only
# what makes an empty root of Debian. With --container what makes an image and runs it, and what knows the schemas of Kubernetes.
# With --dpdk also what builds DPDK from its source (scripts/dpdk.sh).
# With --arm64 what builds, tests and packs for arm64 on another machine, in the place of what builds for that machine.
# Debian and Ubuntu, as root or by sudo. What is there already is left alone.
set -euo pipefail

BUILD=(dpdk dpdk-dev libdpdk-dev libclang-dev clang pkg-config libpcap-dev libnuma-dev libsqlite3-dev build-essential)
RUN=(iproute2 iputils-ping bind9-dnsutils)
LAB=(curl nsd unbound python3-dnspython libldns3 knot knot-module-geoip knot-dnsutils dnsperf fstrm-bin dnstap-ldns sqlite3 jq
    nghttp2-client bind9-utils bind9 dnsdist
    ethtool tshark util-linux mount e2fsprogs gzip shellcheck valgrind bird2 keepalived iperf3 hping3 prometheus)
# `file` is what virtme-ng asks about kernels; it does not say so in what it depends on.
VM=(qemu-system-x86 linux-image-amd64 busybox-static file kmod tcpdump python3-venv python3-pip)
# From PyPI, into a folder of its own: Debian has no package of it.
VIRTME=virtme-ng==1.42
VIRTME_FOLDER=/opt/pmdns-lab
# Its library alone: it downloads no browser.
PLAYWRIGHT=playwright==1.49.1
PLAYWRIGHT_FOLDER=/opt/pmdns-browser
SCHEMATHESIS=schemathesis==4.32.5
SCHEMATHESIS_FOLDER=/opt/pmdns-lab-api
KUBERNETES_VALIDATE=kubernetes-validate==1.37.0
KUBERNETES_VALIDATE_FOLDER=/opt/pmdns-lab-container
# Built without optimization: it takes half the time, and the book is small.
MDBOOK=mdbook@0.5.4
PEERS=(pdns-recursor)
PACKAGE=(lintian binutils jq git ca-certificates)
ROOT=(debootstrap)
DPDK=(meson ninja-build python3-pyelftools libxdp-dev libbpf-dev ca-certificates curl xz-utils)
# Debian's libraries for two processors do not all go side by side.
ARM64=(crossbuild-essential-arm64 qemu-user libdpdk-dev:arm64 libpcap-dev:arm64 libnuma-dev:arm64 libsqlite3-dev:arm64
    pkg-config:arm64 libclang-dev clang build-essential qemu-system-arm cpio kmod)
CONTAINER=(podman buildah crun netavark debootstrap jq util-linux mount python3-venv python3-pip)
BROWSER=(chromium libnss3-tools fonts-dejavu-core python3-venv python3-pip)
# Not in every release; one that lacks it compares without it.
IF_THERE=(knot-resolver)
# Packages whose daemon Debian starts as soon as it is installed, and its service.
declare -A SERVICES=([nsd]=nsd [unbound]=unbound [knot]=knot [pdns-recursor]=pdns-recursor [dnsdist]=dnsdist
    [bind9]=named [bird2]=bird [knot-resolver]=kresd@1 [prometheus]=prometheus)

usage() {
    echo "usage: scripts/install.sh [--lab|--vm|--peers|--browser|--api|--book|--package|--container|--root|--dpdk|--arm64]" >&2
    exit 2
}

wanted=("${BUILD[@]}" "${RUN[@]}")
case "${1-}" in
    "") ;;
    --lab) wanted+=("${LAB[@]}") ;;
    --vm)
        [[ $(uname -m) == x86_64 ]] || { echo "the emulated machine is an x86-64 one, and so must this be" >&2; exit 1; }
        wanted+=("${LAB[@]}" "${VM[@]}")
        ;;
    --peers) wanted+=("${LAB[@]}" "${PEERS[@]}" "${IF_THERE[@]}") ;;
    --browser) wanted+=("${LAB[@]}" "${BROWSER[@]}") ;;
    --api) wanted+=("${LAB[@]}" python3-venv python3-pip) ;;
    --book) wanted=() ;;
    --package) wanted+=("${PACKAGE[@]}") ;;
    --container) wanted+=("${PACKAGE[@]}" "${CONTAINER[@]}") ;;
    --root) wanted=("${ROOT[@]}") ;;
    --dpdk) wanted+=("${DPDK[@]}") ;;
    --arm64) wanted=("${ARM64[@]}" "${RUN[@]}" "${PACKAGE[@]}") ;;
    *) usage ;;
esac

if ! command -v cargo > /dev/null; then
    echo "cargo is missing: install Rust (https://rustup.rs), then run this again" >&2
    exit 1
fi
if [[ ${1-} == --book ]]; then
    command -v mdbook > /dev/null || env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --debug --locked --no-default-features --features search "$MDBOOK"
    exit 0
fi
if ! command -v apt-get > /dev/null; then
    echo "no apt-get here; install these by the names your system has for them: ${wanted[*]}" >&2
    exit 1
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
    command -v sudo > /dev/null && as_root=(sudo)
fi

# The last thing to do, whether packages were missing or not.
install_from_pypi() {
    local package=$1 folder=$2 program=$3
    [[ ! -x $folder/bin/$program ]] || return 0
    echo "installing $package"
    "${as_root[@]}" python3 -m venv "$folder"
    "${as_root[@]}" "$folder/bin/pip" install --quiet "$package"
}
install_the_rest() {
    case "${1-}" in
        --vm) install_from_pypi "$VIRTME" "$VIRTME_FOLDER" vng ;;
        --browser) install_from_pypi "$PLAYWRIGHT" "$PLAYWRIGHT_FOLDER" playwright ;;
        --api) install_from_pypi "$SCHEMATHESIS" "$SCHEMATHESIS_FOLDER" schemathesis ;;
        --container) install_from_pypi "$KUBERNETES_VALIDATE" "$KUBERNETES_VALIDATE_FOLDER" kubernetes-validate ;;
    esac
}

missing=()
for package in "${wanted[@]}"; do
    state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2> /dev/null || true)
    [[ $state == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
    install_the_rest "$@"
    exit 0
fi

if [[ $(id -u) -ne 0 && ${#as_root[@]} -eq 0 ]]; then
    echo "run as root: apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "installing ${missing[*]}; that takes a minute or two"
keep=()
if [[ ${1-} == --arm64 ]]; then
    # On a machine that has what builds for itself, it fails.
    keep=(--no-remove)
    "${as_root[@]}" dpkg --add-architecture arm64
fi
"${as_root[@]}" apt-get update -qq
for index in "${!missing[@]}"; do
    [[ " ${IF_THERE[*]} " != *" ${missing[index]} "* ]] || [[ $(apt-cache policy "${missing[index]}") =~ Candidate:\ [^\(] ]] ||
        unset "missing[$index]"
done
[[ ${#missing[@]} -gt 0 ]] || exit 0
# A name server that came only because the labs need its program must not take port 53: none is started now, nor at boot.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" > /dev/null
    "${as_root[@]}" chmod +x "$policy"
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${keep[@]}" "${missing[@]}" > /dev/null
install_the_rest "$@"
[[ -d /run/systemd/system ]] || exit 0
for package in "${missing[@]}"; do
    [[ -z ${SERVICES[$package]-} ]] || "${as_root[@]}" systemctl disable --now --quiet "${SERVICES[$package]}" || true
done
