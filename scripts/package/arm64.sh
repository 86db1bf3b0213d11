# How the program is built for arm64 on another machine, and run there. `scripts/install.sh --arm64` has what it needs. Sourced.
# shellcheck shell=bash
export CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
export PKG_CONFIG=aarch64-linux-gnu-pkg-config
