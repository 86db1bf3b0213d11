#!/usr/bin/env bash
# Makes what a release publishes, for each release of Debian: packages, their debug symbols, and a bill of materials. They are
# built twice, in two folders, and compared byte by byte. Then the image, the notes out of CHANGELOG.md, checksums and a signature.
# usage: scripts/release.sh [--arm64] FOLDER [RELEASE...]   RELEASE: bookworm, trixie; both, if none is named. Needs root
#        scripts/release.sh --here FOLDER         only packages, of the release of this machine
#        scripts/release.sh --here-arm64 FOLDER   the same for arm64, with the profile that --here has left there
#        scripts/release.sh --image FOLDER        only the image, of a package that is there
#        scripts/release.sh --finish FOLDER       only notes, checksums and signature, beside packages that are there
# --arm64 adds packages for arm64, each built in another root of the release. PMDNS_SIGNING_KEY names the key of gpg that signs;
# without it nothing is signed. Without rustup's llvm-tools packages have no profile (scripts/profile.sh), and without podman there
# is no image.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '4,8s/^# //p' "$0" >&2; exit 2; }
fail() { echo "failed: $*" >&2; exit 1; }
part=all
arm64=
case ${1-} in
    --arm64)
        arm64=true
        shift
        ;;
    --here | --here-arm64 | --image | --finish)
        [[ $# -eq 2 ]] || usage
        part=$1
        shift
        ;;
esac
[[ $# -ge 1 && $1 != -* ]] || usage
folder=$(realpath --canonicalize-missing "$1")
shift
releases=("$@")
[[ $# -gt 0 ]] || releases=(bookworm trixie)
for release in "${releases[@]}"; do [[ $release =~ ^(bookworm|trixie)$ ]] || usage; done

# What is missing is said before anything is built, all at once.
is_ready=true
lacks() {
    echo "failed: $*" >&2
    is_ready=
}
needs() { command -v "$1" > /dev/null || lacks "$1 is missing: $2"; }
has_llvm_tools() { compgen -G "$(rustc --print sysroot)/lib/rustlib/*/bin/llvm-profdata" > /dev/null; }
check() {
    needs git "run apt-get install git"
    case $part in all | --here*)
        needs cargo "install Rust (https://rustup.rs)"
        ! command -v cargo > /dev/null || has_llvm_tools ||
            echo "without llvm-tools the packages have no profile: for one, run rustup component add llvm-tools" >&2
        ;;
    esac
    if [[ $part == all ]]; then
        [[ $(id -u) -eq 0 ]] ||
            lacks "it makes root file systems: run with sudo, as in sudo -E env PATH=\"\$PATH\" scripts/release.sh FOLDER"
        needs debootstrap "run scripts/install.sh --root"
        [[ ! $arm64 ]] || needs rustup "install Rust by https://rustup.rs"
        command -v podman > /dev/null ||
            echo "without podman the image is left out: for one, run scripts/install.sh --container" >&2
    fi
    [[ $part != --image ]] || needs podman "run scripts/install.sh --container"
    if [[ ($part == all || $part == --finish) && ${PMDNS_SIGNING_KEY-} ]]; then
        needs gpg "run apt-get install gnupg"
        ! command -v gpg > /dev/null || gpg --batch --list-secret-keys "$PMDNS_SIGNING_KEY" > /dev/null 2>&1 ||
            lacks "gpg has no secret key $PMDNS_SIGNING_KEY: run gpg --import, or unset PMDNS_SIGNING_KEY"
    fi
    [[ $is_ready ]] || exit 1
}
check
mkdir -p "$folder"
[[ $part != all || -z $(ls "$folder") ]] || fail "$folder is not empty"
changes=$(git status --porcelain --untracked-files=no)
[[ -z $changes ]] || fail "there are changes that are not committed"
commit=$(git rev-parse HEAD)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# What changed since the last release, or in this one if the commit has its tag.
section=Unreleased
! git tag --points-at HEAD | grep --quiet --line-regexp --fixed-strings "v$version" || section=$version
notes() { awk -v section="$section" '/^## / { here = $2 == section; next } here' CHANGELOG.md; }
[[ $(notes) ]] || fail "CHANGELOG.md has no section \"## $section\""
repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# build NAME: packages of this commit out of a clone of that name, into a folder of that name.
build() {
    git clone --quiet . "$work/$1/pmdns"
    (
        cd "$work/$1/pmdns"
        [[ $(git rev-parse HEAD) == "$commit" ]] || fail "the clone is of another commit"
        # Each has a target folder and crates of its own, so nothing of the first one is in the second.
        mkdir "$work/$1/cargo"
        cp "$crates"/config*.toml "$work/$1/cargo/" 2> /dev/null || true
        env -u CARGO_TARGET_DIR CARGO_HOME="$work/$1/cargo" PATH="$crates/bin:$PATH" \
            scripts/package.sh "${packing[@]}" > "$work/log" || fail "no package: $(tail -n 5 "$work/log")"
    )
    mkdir "$work/packages-$1"
    cp "$work/$1"/pmdns/target/debian/*.*deb "$work/packages-$1/"
    cp "$work/$1/pmdns/target/manual/sbom.cdx.json" "$work/packages-$1/pmdns_$version$suffix.cdx.json"
    rm -rf "${work:?}/$1"
}

# Packages of the release that this runs on.
here() {
    work=$(mktemp -d -p "${PMDNS_ROOT_FOLDER:-/var/tmp}")
    trap 'rm -rf "$work"' EXIT
    local name profile packing=() suffix='' triple=''
    # shellcheck source=/dev/null # it has the name of the release
    name=$(. /etc/os-release && echo "$ID$VERSION_ID")
    profile=$folder/$name-pmdns_$version.profdata
    if [[ $part == --here-arm64 ]]; then
        # Which ways are taken is the same on each processor.
        [[ -e $profile ]] || ! has_llvm_tools || fail "no $profile: first --here"
        packing=(--arch arm64)
        suffix=_arm64
        triple=aarch64-linux-gnu-
        scripts/install.sh --arm64
    else
        scripts/install.sh --package
        rm -f "$profile"
        ! has_llvm_tools || scripts/profile.sh "$profile"
    fi
    export PMDNS_PROFILE=
    [[ ! -e $profile ]] || PMDNS_PROFILE=$profile
    crates=${CARGO_HOME:-$HOME/.cargo}
    build first
    build second-in-another-folder
    diff --recursive "$work"/packages-* || fail "two builds of one commit differ"
    for file in "$work"/packages-first/*; do cp "$file" "$folder/$name-$(basename "$file")"; done
    echo "$(rustc -V), $("${triple}gcc" --version | sed -n 1p), DPDK $("${triple}pkg-config" --modversion libdpdk)," \
        "$([[ $PMDNS_PROFILE ]] && echo "with $(basename "$profile")" || echo "without a profile")" \
        > "$folder/$name-pmdns_$version$suffix.built-with.txt"
}

# The image of the package for the newest Debian that is there, in Docker's format: OCI's has no place for its health check.
image() {
    local release package file=$folder/pmdns-$version-image.tar
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # The newest one: its DPDK has what older ones lack.
    for release in trixie:debian13 bookworm:debian12; do
        package=$(compgen -G "$folder/${release#*:}-pmdns_$version-*_$(dpkg --print-architecture).deb") && break
    done
    [[ $package ]] || fail "there is no package for Debian in $folder: first --here"
    cp "$package" "$work/"
    podman build --format docker --build-arg BASE="docker.io/library/debian:${release%:*}-slim" --tag "pmdns:$version" --tag pmdns \
        --file scripts/package/Containerfile "$work"
    rm -f "$file"
    podman save --format docker-archive --output "$file" "pmdns:$version" pmdns
}

# Links of CHANGELOG.md begin in its folder, which the notes leave.
absolute_links() {
    local at=v$version
    [[ $section == "$version" ]] || at=$commit
    sed -E "s,\\]\\(([^):#]+(#[^)]*)?)\\),](${repository%/}/blob/$at/\\1),g"
}

finish() {
    local file
    # Those of an earlier run.
    rm -f "$folder"/{SHA256SUMS,SHA256SUMS.asc,signing-key.asc}
    compgen -G "$folder/*.deb" > /dev/null || fail "there is no package in $folder: first --here"
    shopt -s nullglob
    {
        if [[ $repository ]]; then
            notes | absolute_links
        else
            echo "links of NOTES.md stay relative: Cargo.toml names no repository" >&2
            notes
        fi
        printf '\n### Built with\n\nCommit %s.\n\n' "$commit"
        for file in "$folder"/*.built-with.txt; do echo "* $(basename "$file" .built-with.txt): $(cat "$file")"; done
    } > "$folder/NOTES.md"
    cd "$folder"
    # What is published, and nothing else that lies there.
    sha256sum -- *.deb *.ddeb *.cdx.json *.profdata *.built-with.txt pmdns-*-image.* NOTES.md > SHA256SUMS
    if [[ ${PMDNS_SIGNING_KEY-} ]]; then
        gpg --batch --local-user "$PMDNS_SIGNING_KEY" --armor --detach-sign SHA256SUMS
        gpg --batch --armor --export "$PMDNS_SIGNING_KEY" > signing-key.asc
    else
        echo "not signed: PMDNS_SIGNING_KEY names no key" >&2
    fi
    ls -l
}

case $part in
    --here | --here-arm64) here ;;
    --image) image ;;
    --finish) finish ;;
    all)
        [[ ! $arm64 ]] || rustup target add aarch64-unknown-linux-gnu
        for release in "${releases[@]}"; do
            PMDNS_ROOT_RESULT=$folder scripts/empty-root.sh "$release" \
                bash -c 'scripts/install.sh --package && exec scripts/release.sh --here /result'
            [[ ! $arm64 ]] || PMDNS_ROOT_RESULT=$folder scripts/empty-root.sh "$release" \
                bash -c 'scripts/install.sh --arm64 && exec scripts/release.sh --here-arm64 /result'
        done
        ! command -v podman > /dev/null || image
        finish
        ;;
esac
