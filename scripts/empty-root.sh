#!/usr/bin/env bash
# Makes an empty root of a Debian release with debootstrap, with nothing but Rust in it. Runs a command there, in a clone of this
# commit: with scripts/test.sh an install step that is missing shows. Needs root, and a network for packages.
# usage: scripts/empty-root.sh RELEASE COMMAND...      RELEASE: bookworm, trixie
# The root is below PMDNS_ROOT_FOLDER (/var/tmp), takes some 20 GB, and goes when this ends. PMDNS_ROOT_RESULT names a folder that
# the command has as /result.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# -ge 2 && $1 =~ ^[a-z]+$ ]] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
[[ $(id -u) -eq 0 ]] || { echo "it makes a root file system: run with sudo, as in sudo -E env PATH=\"\$PATH\" $0" >&2; exit 1; }
release=$1
shift

if [[ -z ${PMDNS_ROOT-} ]]; then
    PMDNS_ROOT=$(mktemp -d "${PMDNS_ROOT_FOLDER:-/var/tmp}/pmdns-root.XXXXXX")
    export PMDNS_ROOT
    # Programs of other users find their way from / too.
    chmod 755 "$PMDNS_ROOT"
    trap 'rm -rf --one-file-system "$PMDNS_ROOT"' EXIT
    # What it mounts and starts ends with these namespaces.
    unshare --mount --pid --fork --kill-child --mount-proc -- "$0" "$release" "$@"
    exit
fi
root=$PMDNS_ROOT

# The mirror of Debian that this machine has, and how it is reached. Other sources of packages, security updates and backports
# have other labels.
# shellcheck disable=SC2016 # apt fills it in
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
[[ $mirror ]] || mirror=http://deb.debian.org/debian
debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$mirror" > "$root.log" ||
    { tail -n 20 "$root.log" >&2; exit 1; }
rm "$root.log"
for file in /etc/apt/apt.conf.d /etc/pip.conf /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [[ ! -e $file ]] || cp -aL "$file" "$root/$(dirname "$file")/"
done
# The root of the chroot is a mount point, so that labs can have mounts of their own.
mount --bind "$root" "$root"
# Rust is what a newcomer brings: the toolchain of this machine, without what cargo has installed or fetched.
toolchain=$(rustc --print sysroot)
mkdir -p "$root$toolchain" "$root/root/.cargo"
mount --bind -o ro "$toolchain" "$root$toolchain"
[[ ! -e ${CARGO_HOME:-$HOME/.cargo}/config.toml ]] || cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$root/root/.cargo/"
git clone --quiet . "$root/root/pmdns"

mount -t proc proc "$root/proc"
for place in dev sys; do mount --rbind "/$place" "$root/$place"; done
mount -t tmpfs none "$root/run"
if [[ ${PMDNS_ROOT_RESULT-} ]]; then
    mkdir "$root/result"
    mount --bind "$PMDNS_ROOT_RESULT" "$root/result"
fi
env -u CARGO_HOME -u CARGO_TARGET_DIR -u RUSTUP_HOME -u PMDNS_ROOT -u PMDNS_ROOT_FOLDER HOME=/root \
    PATH="$toolchain/bin:/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    chroot "$root" bash -c 'cd /root/pmdns && exec "$@"' bash "$@"
