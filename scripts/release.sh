#!/usr/bin/env bash
# Makes what a release publishes, for each release of Debian: packages, their debug symbols, and a bill of materials. They are
# built twice, in two folders, and compared byte by byte. The notes come out of CHANGELOG.md, then checksums and a signature.
# usage: scripts/release.sh [--arm64] FOLDER [RELEASE...]   RELEASE: bookworm, trixie; both, if none is named. Needs root
#        scripts/release.sh --here FOLDER         only packages, of the release of this machine
#        scripts/release.sh --here-arm64 FOLDER   the same for arm64, with the profile that --here has left there
#        scripts/release.sh --finish FOLDER       only notes, checksums and signature, beside packages that are there
# --arm64 adds packages for arm64, each built in another root of the release.
# PMDNS_SIGNING_KEY names the key of gpg that signs; without it nothing is signed. Needs rustup's llvm-tools (scripts/profile.sh).
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
    --here | --here-arm64 | --finish)
        [[ $# -eq 2 ]] || usage
        part=$1
        shift
        ;;
esac
[[ $# -ge 1 && $1 != -* ]] || usage
mkdir -p "$1"
folder=$(realpath "$1")
shift
releases=("$@")
[[ $# -gt 0 ]] || releases=(bookworm trixie)
for release in "${releases[@]}"; do [[ $release =~ ^(bookworm|trixie)$ ]] || usage; done
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
    local name profile packing=() suffix=
    # shellcheck source=/dev/null # it has the name of the release
    name=$(. /etc/os-release && echo "$ID$VERSION_ID")
    profile=$folder/$name-pmdns_$version.profdata
    if [[ $part == --here-arm64 ]]; then
        # Which ways are taken is the same on each processor.
        [[ -e $profile ]] || fail "no $profile: first --here"
        packing=(--arch arm64)
        suffix=_arm64
    else
        scripts/profile.sh "$profile"
    fi
    export PMDNS_PROFILE=$profile
    crates=${CARGO_HOME:-$HOME/.cargo}
    build first
    build second-in-another-folder
    diff --recursive "$work"/packages-* || fail "two builds of one commit differ"
    for file in "$work"/packages-first/*; do cp "$file" "$folder/$name-$(basename "$file")"; done
}

finish() {
    notes > "$folder/NOTES.md"
    (cd "$folder" && sha256sum -- * > SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
    [[ -z ${PMDNS_SIGNING_KEY-} ]] ||
        gpg --batch --yes --local-user "$PMDNS_SIGNING_KEY" --armor --detach-sign "$folder/SHA256SUMS"
    ls -l "$folder"
}

case $part in
    --here | --here-arm64) here ;;
    --finish) finish ;;
    all)
        [[ ! $arm64 ]] || rustup target add aarch64-unknown-linux-gnu
        for release in "${releases[@]}"; do
            PMDNS_ROOT_RESULT=$folder scripts/empty-root.sh "$release" \
                bash -c 'scripts/install.sh --package && exec scripts/release.sh --here /result'
            [[ ! $arm64 ]] || PMDNS_ROOT_RESULT=$folder scripts/empty-root.sh "$release" \
                bash -c 'scripts/install.sh --arm64 && exec scripts/release.sh --here-arm64 /result'
        done
        finish
        ;;
esac
