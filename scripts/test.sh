#!/usr/bin/env bash
# Runs the tests: all of them, or the steps that are named, in the order they are named.
# usage: scripts/test.sh [--fast] [STEP...]
#
# Installs what is missing. --fast leaves out the labs, the simulator, the model check, the instruction counts and the fuzzing.
# Steps: formatting scripts lints documentation book tests without-dpdk simulator loom instructions fuzzing
# alerting validation labs pci
# Parts of labs, alone: console (the web console), api (the HTTP API), handover (one process takes over from another).
# Only by name:
#   bridge         the second lab on bound NICs
#   first-port     docs/tasks/first-port.md
#   vhost          the kernel behind a bound NIC
#   vm             these and pci
#   handover-long  hand-overs beside ten million queries
#   kills          2,000 processes are killed under load
#   package        the Debian package
#   container      its image in podman
#   browser        a lab with Chromium
#   soak           hours
#   sanitizers     AddressSanitizer and ThreadSanitizer
#   debian13       tests and labs in a root of that release
#   dpdk           the driver and labs of its ports with DPDK 25.11 built from its source; PMDNS_DPDK names another release
#   aarch64        tests under user emulation, and a port in an emulated machine, in a root of its own
#   empty-root     every step in empty roots of Debian 12 and 13, so that no install step is missing; PMDNS_STEPS names fewer
set -euo pipefail
cd "$(dirname "$0")/.."

FAST=(formatting scripts lints documentation book tests without-dpdk)
SLOW=(simulator loom instructions fuzzing alerting validation labs pci)
PARTS=(console api handover)
NAMED=(bridge first-port vhost handover-long kills package container browser soak sanitizers debian13 dpdk aarch64 empty-root)

formatting() {
    cargo fmt --all --check
    cargo fmt --manifest-path bench/fuzz/Cargo.toml --check
}

scripts() {
    if command -v shellcheck > /dev/null; then
        shellcheck -x scripts/*.sh scripts/compare/*.sh scripts/package/{post*,vfio-group,*.sh} \
            pipeline/tests/vm/*.sh bench/fuzz/*.sh .ci/run
    else
        echo "shellcheck is not installed"
    fi
}

lints() { cargo clippy --workspace --all-targets --features pmdns-bench/rte-ring -- -D warnings; }

documentation() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items; }

# docs/ as pages with a search, in target/book. config/tests/tree/book.rs checks what mdBook does not.
book() {
    scripts/install.sh --book
    PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin" mdbook build docs --dest-dir "$(realpath "${CARGO_TARGET_DIR:-target}")/book"
}

# What is built here serves the simulator, validation and the labs too: the same packages, features and profile.
tests() { cargo test --workspace; }

# Everything but dpdk-sys has to build without DPDK. The whole workspace, so that dependencies are those of `lints`.
without-dpdk() { cargo clippy --workspace --all-targets --no-default-features -- -D warnings; }

# A minute of histories; PMDNS_SEED=n replays one (docs/simulator.md).
simulator() { scripts/simulate.sh --seconds 60 --from 0; }

# The model check of what cores share.
loom() {
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
        cargo test -p pmdns-stages --no-default-features --test cache_loom --test client_table_loom
}

# Beside the emulated machine: it has a clock, and instructions have none.
instructions() {
    if [[ " ${steps[*]} " == *" pci "* ]]; then
        PMDNS_VM_SECONDS=${PMDNS_VM_SECONDS-1500} lab_in_a_machine pci > "${CARGO_TARGET_DIR:-target}/pci.log" 2>&1 &
        machine=$!
    fi
    nice -n 10 scripts/instructions.sh
}

# Half a minute for each target; longer by scripts/fuzz.sh SECONDS.
fuzzing() { PMDNS_FUZZ_SEED=1 scripts/fuzz.sh 30; }

# The alert rules and their tests. The lab `alerting` checks the metrics themselves.
alerting() {
    promtool check rules docs/alerting/pmdns.rules.yml
    promtool test rules docs/alerting/pmdns.test.yml
}

# Validation beside Unbound.
validation() { cargo test --workspace --test mutation -- --ignored; }

# All labs and the programs they run. With --release their figures mean something.
# `zones` holds zone files to named-checkzone.
LABS=(cargo test --workspace --test lab --test zones)

labs() {
    scripts/install.sh --browser
    scripts/install.sh --api
    # A lab looks at its tables.
    book
    "${LABS[@]}" --no-run
    # Side by side, but for those that take the machine for themselves (pipeline/tests/lab/harness.rs).
    as_root "${LABS[@]}" -- --include-ignored --test-threads=3 --nocapture --skip browser:: --skip soak::
}

# Memory that stands still. PMDNS_SOAK_SECONDS=900 makes it shorter, and leaves out heavy hitters, which take an hour to fill.
soak() { as_root "${LABS[@]}" -- --include-ignored --test-threads=1 --nocapture soak::; }

# A browser as a client over HTTPS.
browser() {
    scripts/install.sh --browser
    as_root "${LABS[@]}" -- --include-ignored --test-threads=1 --nocapture browser::
}

# The web console in Chromium. PMDNS_DRAW=FOLDER makes the pictures of docs/images there.
console() {
    scripts/install.sh --browser
    book
    "${LABS[@]}" --no-run
    as_root "${LABS[@]}" -- --include-ignored --test-threads=1 --nocapture console::
}

# The HTTP API under requests made of its description; more of them with PMDNS_API_EXAMPLES=200.
api() {
    scripts/install.sh --api
    as_root "${LABS[@]}" -- --include-ignored --test-threads=1 --nocapture api_schema::
}

# Hand-overs, crashes, and pairs of nodes.
handover() { as_root "${LABS[@]}" -- --include-ignored --test-threads=1 --nocapture handover keeper:: kills:: standby::; }

# 50 hand-overs on a TAP port with one queue, with two, on one over AF_XDP, and with streams. One over memif, one over virtio-user.
handover-long() {
    PMDNS_HANDOVER_RATE=50000 PMDNS_HANDOVER_SECONDS=200 \
        as_root cargo test --release -p pmdns --test lab -- --include-ignored --test-threads=1 --nocapture \
        follow_each_other connections_of_every_transport handover_reopened::a_process_over
}

# 1,000 processes on a TAP port and 1,000 on one over AF_XDP.
kills() {
    PMDNS_LAB_KILLS=1000 as_root cargo test --release -p pmdns --test lab -- --include-ignored --test-threads=1 --nocapture kills::
}

# Only the labs need root: the built test is run by sudo, not cargo. So is a script, which finds Rust by the PATH of this user.
as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    elif [[ $1 != cargo ]]; then
        sudo -E env "PATH=$PATH" "$@"
    else
        # sudo has a PATH of its own, and takes libraries from nowhere but the system.
        local sudo="sudo -E${LD_LIBRARY_PATH:+ env PATH=$PATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH}"
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$sudo CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$sudo "$@"
    fi
}

# A lab on bound NICs, in an emulated machine, which is an x86-64 one.
lab_in_a_machine() {
    if [[ $(uname -m) != x86_64 ]]; then
        echo "not on $(uname -m)"
        return
    fi
    "${LABS[@]}" --no-run
    local binary=${CARGO_TARGET_DIR:-target}/debug/pmdns
    if [[ $(id -u) -eq 0 ]]; then scripts/lab-vm.sh "$1" "$binary"; else sudo -E scripts/lab-vm.sh "$1" "$binary"; fi
}
pci() {
    if [[ $machine ]]; then
        local status=0
        wait "$machine" || status=$?
        cat "${CARGO_TARGET_DIR:-target}/pci.log"
        return "$status"
    fi
    lab_in_a_machine pci
}
bridge() { lab_in_a_machine bridge; }
first-port() { lab_in_a_machine first-port; }
vhost() { lab_in_a_machine vhost; }

# The Debian package, twice: the second one is an upgrade.
package() {
    local newer first=${CARGO_TARGET_DIR:-target}/first.deb
    # cargo-deb removes older packages where it writes the next one.
    cp "$(scripts/package.sh | tail -n 1)" "$first"
    newer=$(cargo deb --no-build --package pmdns --deb-revision 2 | tail -n 1)
    lintian --fail-on error "$newer"
    as_root scripts/lab-package.sh "$first" "$newer"
}

# The image of the Debian package in podman, and what Kubernetes is told.
container() {
    scripts/install.sh --container
    /opt/pmdns-lab-container/bin/kubernetes-validate --strict --quiet scripts/package/kubernetes/*.yaml
    as_root scripts/lab-container.sh "$(scripts/package.sh | tail -n 1)"
}

# An hour and a half for each release, from nothing but Rust.
empty-root() {
    local release steps=()
    read -ra steps <<< "${PMDNS_STEPS-}"
    scripts/install.sh --root
    for release in bookworm trixie; do as_root scripts/empty-root.sh "$release" scripts/test.sh "${steps[@]}"; done
}

# Tests and labs on Debian 13, which has DPDK 24.11.
debian13() {
    scripts/install.sh --root
    as_root scripts/empty-root.sh trixie scripts/test.sh tests labs
}

# A release of DPDK that Debian does not have. It is built where PMDNS_DPDK_FOLDER says.
dpdk() {
    local release=${PMDNS_DPDK-25.11} folder exports
    folder=$(realpath -m "${PMDNS_DPDK_FOLDER-${CARGO_TARGET_DIR:-target}/dpdk-$release}")
    exports=$(scripts/dpdk.sh "$release" "$folder")
    (
        eval "$exports"
        export CARGO_TARGET_DIR=$folder/target
        cargo test -p dpdk-sys -p pmdns-nics
        cargo test -p pmdns --test all command_line::conditions
        "${LABS[@]}" --no-run
        as_root "${LABS[@]}" -- --include-ignored --test-threads=1 --nocapture \
            tap:: af_xdp:: virtio:: over_port:: handover_xdp:: handover_reopened::
    )
}

# What user emulation cannot do: start a program that a test starts, load eBPF, and keep up with a clock.
NOT_EMULATED=(crash:: tap_steering:: files_of_the_other_process_go the_lock_of_a_process_falls_with_it two_processes_with_one_prefix
    free_frames_wait_in_the_lock_free_stack whenever_a_process_is_killed xdp:: a_filter_names_a_socket_by_its_place
    quic_steering:: a_stream_that_is_reset_costs_its_query_alone who_sends_a_long_file_that_is_refused
    a_quic_client_shows_its_address)

# The tests for arm64 under user emulation, with Debian's libraries for it. Those of the program start it, so they are left out.
# Then it serves in an emulated machine.
aarch64() {
    scripts/install.sh --root
    rustup target add aarch64-unknown-linux-gnu
    as_root scripts/empty-root.sh bookworm bash -c "scripts/install.sh --arm64 && . scripts/package/arm64.sh &&
        cargo test --workspace --exclude pmdns -- ${NOT_EMULATED[*]/#/--skip } &&
        cargo test -p pmdns --lib --bins -- ${NOT_EMULATED[*]/#/--skip } && cargo build -p pmdns &&
        exec scripts/lab-arm64.sh target/aarch64-unknown-linux-gnu/debug/pmdns"
}

sanitizers() {
    scripts/sanitize.sh address
    scripts/sanitize.sh lab
    scripts/sanitize.sh thread
}

steps=()
for argument in "$@"; do
    case "$argument" in
        --fast) steps+=("${FAST[@]}") ;;
        vm) steps+=(pci bridge first-port vhost) ;;
        *)
            if [[ " ${FAST[*]} ${SLOW[*]} ${PARTS[*]} ${NAMED[*]} " != *" $argument "* ]]; then
                sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
                exit 2
            fi
            steps+=("$argument")
            ;;
    esac
done
[[ ${#steps[@]} -gt 0 ]] || steps=("${FAST[@]}" "${SLOW[@]}")

packages=()
WITH_LAB=("${SLOW[@]}" "${PARTS[@]}" bridge first-port vhost handover-long kills browser soak dpdk)
for step in "${steps[@]}"; do
    if [[ $step != simulator && " ${WITH_LAB[*]} " == *" $step "* ]]; then
        packages=(--lab)
        [[ $(uname -m) != x86_64 ]] || packages=(--vm)
    fi
done
scripts/install.sh "${packages[@]}"

# The emulated machine that runs beside another step, for `pci` to wait for.
machine=""
took="packages $SECONDS"
state=failed
trap 'wait; printf "\n== %s (%d s): %s\n" "$state" "$SECONDS" "$took"' EXIT
for step in "${steps[@]}"; do
    printf '\n== %s (%d s)\n' "$step" "$SECONDS"
    began=$SECONDS
    "$step"
    took+=", $step $((SECONDS - began))"
    printf '== %s took %d s\n' "$step" "$((SECONDS - began))"
done
state=finished
