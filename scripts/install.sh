#!/usr/bin/env bash
# Installs the packages that building pmdns needs, and with --lab those that its end-to-end labs need.
# Debian and Ubuntu, as root or by sudo. What is there already is left alone.
set -euo pipefail

BUILD=(dpdk dpdk-dev libdpdk-dev libclang-dev clang pkg-config libpcap-dev libnuma-dev build-essential)
RUN=(iproute2 iputils-ping bind9-dnsutils)
LAB=(nsd knot-dnsutils dnsperf ethtool tshark util-linux gzip shellcheck)
# Daemons that Debian starts as soon as they are installed.
DAEMONS=(nsd)

usage() {
    echo "usage: scripts/install.sh [--lab]" >&2
    exit 2
}

wanted=("${BUILD[@]}" "${RUN[@]}")
case "${1-}" in
    "") ;;
    --lab) wanted+=("${LAB[@]}") ;;
    *) usage ;;
esac

if ! command -v cargo > /dev/null; then
    echo "cargo is missing: install Rust (https://rustup.rs), then run this again" >&2
    exit 1
fi
if ! command -v apt-get > /dev/null; then
    echo "no apt-get here; install these by the names your system has for them: ${wanted[*]}" >&2
    exit 1
fi

missing=()
for package in "${wanted[@]}"; do
    state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2> /dev/null || true)
    [[ $state == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
    command -v sudo > /dev/null || { echo "run as root: apt-get install ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
echo "installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null

# A name server that came only because the labs need its program must not take port 53.
for daemon in "${DAEMONS[@]}"; do
    [[ " ${missing[*]} " == *" $daemon "* ]] || continue
    if [[ -d /run/systemd/system ]]; then
        "${as_root[@]}" systemctl disable --now --quiet "$daemon" || true
    elif [[ -x /etc/init.d/$daemon ]]; then
        "${as_root[@]}" "/etc/init.d/$daemon" stop > /dev/null || true
    fi
done
