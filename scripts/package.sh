#!/usr/bin/env bash
# Builds the Debian package of pmdns, and prints its path. Beside the program it has manual pages, completions, the notices of
# what is linked, and a bill of materials. Debug symbols go into a package of their own, beside it.
# It fits the release of Debian or Ubuntu that it is built on: the program is linked with the DPDK of that release. Its revision
# names that release, as in 0.2.0-1+deb12, so that the package of the next release replaces it, and it replaces 0.2.0-1.
# One commit makes the same bytes in any folder, with the same compilers. PMDNS_PROFILE names what scripts/profile.sh has made.
# usage: scripts/package.sh [--arch arm64]   for arm64, on another machine: in a root that scripts/empty-root.sh makes
set -euo pipefail
cd "$(dirname "$0")/.."

case "$*" in
    "") scripts/install.sh --package ;;
    "--arch arm64") scripts/install.sh --arm64 ;;
    *)
        sed -n '7s/^# //p' "$0" >&2
        exit 2
        ;;
esac
target=${CARGO_TARGET_DIR:-target}
papers=$target/manual

# No folder of this machine and no time of this build is in it.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
cargo fetch --locked >&2
flags=("--remap-path-prefix=$PWD=/usr/src/pmdns" "--remap-path-prefix=$(realpath -m "$target")=/usr/src/pmdns/target")
for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do flags+=("--remap-path-prefix=${folder%/}=/usr/src/crates"); done
compiler_flags=("${flags[@]/#--remap-path-prefix=/-ffile-prefix-map=}")
[[ -z ${PMDNS_PROFILE-} ]] || flags+=("-Cprofile-use=$(realpath "$PMDNS_PROFILE")")
export RUSTFLAGS=${flags[*]} CFLAGS=${compiler_flags[*]}

# need PROGRAM VERSION: without optimization they are built in half of the time, and a package is packed rarely.
need() {
    command -v "$1" > /dev/null || env -u CARGO_TARGET_DIR -u RUSTFLAGS -u CFLAGS CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --debug --locked "$1@$2" >&2
}
need cargo-deb 3.8.0
need cargo-cyclonedx 0.5.9
# From here on cargo builds for that processor.
[[ $# -eq 0 ]] || source scripts/package/arm64.sh

rm -rf "$papers"
# Its features are not those of the package: with its profile too, all of the command line would be optimized twice.
cargo run --profile quick --package pmdns-cli --example manual -- "$papers" >&2

# What the licences of the linked crates ask for: their notices and texts.
scripts/package/notices.sh > "$papers/NOTICES"
# The bill of materials (CycloneDX). It is written beside each Cargo.toml.
cargo cyclonedx --quiet ${CARGO_BUILD_TARGET:+--target "$CARGO_BUILD_TARGET"} --format json \
    --manifest-path pipeline/Cargo.toml --override-filename pmdns-sbom >&2
sed "s|$PWD/|/usr/src/pmdns/|g" pipeline/pmdns-sbom.json > "$papers/sbom.cdx.json"
find . -name pmdns-sbom.json -not -path './target/*' -delete
gzip --best --no-name --stdout CHANGELOG.md > "$papers/changelog.gz"

# Debian's own changelog has a version and a date; what changed is in ours.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# shellcheck source=/dev/null # it has the name of the release
revision=$(. /etc/os-release && echo "1+${ID/debian/deb}${VERSION_ID:-$VERSION_CODENAME}")
cat > "$papers/changelog" << TEXT
pmdns ($version-$revision) unstable; urgency=medium

  * What changed is in /usr/share/doc/pmdns/changelog.gz.

 -- The pmdns developers <pmdns@example.org>  $(git log -1 --format=%cD)
TEXT
PMDNS_COMMIT=$(git rev-parse --short=12 HEAD) cargo deb --package pmdns --deb-revision "$revision"
