#!/usr/bin/env bash
# Builds the Debian package of pmdns, with manual pages and completions, and prints its path.
# It fits the release of Debian or Ubuntu that it is built on: the program is linked with the DPDK of that release.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# -eq 0 ]] || { echo "usage: scripts/package.sh" >&2; exit 2; }
scripts/install.sh
# Without optimization it is built in half of the time, and a package is packed rarely.
command -v cargo-deb > /dev/null ||
    env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked cargo-deb@3.8.0 >&2
target=${CARGO_TARGET_DIR:-target}
rm -rf "$target/manual"
cargo run --release --package pmdns --example manual -- "$target/manual" >&2
cargo deb --package pmdns
