#!/usr/bin/env bash
# Makes the image of a Debian package, and lets podman serve with it as the image's user: a TAP port, and a port over AF_XDP.
# Crashes it, reloads it, and stops it. All of it is in namespaces and a storage of its own, which go when this ends. Needs root.
# usage: scripts/lab-container.sh PACKAGE
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -eq 1 ]] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
[[ $(id -u) -eq 0 ]] || { echo "it makes namespaces and mounts: run with sudo" >&2; exit 1; }

folder=${PMDNS_LAB_FOLDER-}
podman() { command podman --cgroup-manager cgroupfs --events-backend file --network-config-dir "$folder/networks" "$@"; }
say() { echo "ok: $*"; }
fail() {
    echo "failed: $*" >&2
    podman logs pmdns >&2 || true
    exit 1
}

# The base is the release that this runs on, as the package has to be.
make_image() {
    local mirror release
    # shellcheck disable=SC2016 # apt fills it in
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
    # shellcheck source=/dev/null # it has the name of the release
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase --include=ca-certificates "$release" "$folder/base" "$mirror" > "$folder/log" ||
        fail "no base: $(tail -n 5 "$folder/log")"
    # How this machine reaches its mirror.
    cp -aL /etc/apt/apt.conf.d "$folder/base/etc/apt/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$folder/base/etc/ssl/certs/"
    tar -C "$folder/base" -c . | podman import --quiet - pmdns-base > /dev/null
    rm -rf "$folder/base"
    mkdir "$folder/context"
    cp "$1" "$folder/context/pmdns_0_lab.deb"
    podman build --quiet --isolation chroot --network host --build-arg BASE=localhost/pmdns-base --tag pmdns \
        --file scripts/package/Containerfile "$folder/context" > "$folder/log" 2>&1 || fail "no image: $(tail -n 20 "$folder/log")"
}

# What is mounted and started ends with these namespaces. The image is made with the network of the machine.
if [[ -z $folder ]]; then
    folder=$(mktemp -d "${PMDNS_ROOT_FOLDER:-/var/tmp}/pmdns-container.XXXXXX")
    trap 'rm -rf --one-file-system "$folder"' EXIT
    # The user of the image finds its way to its configuration.
    chmod a+x "$folder"
    PMDNS_LAB_FOLDER=$folder unshare --mount --pid --fork --kill-child --mount-proc "$0" "$1"
    exit
fi
if [[ ! -d $folder/storage ]]; then
    # Podman's storage and state are the lab's. Its runtime takes no mixture of the two versions of cgroups.
    for place in /run/containers /run/crun /run/libpod /dev/shm; do
        mkdir -p "$place"
        mount -t tmpfs none "$place"
    done
    mkdir -p "$folder/storage" /var/lib/containers
    mount --bind "$folder/storage" /var/lib/containers
    mount -t cgroup2 none /sys/fs/cgroup
    make_image "$1"
    say "the image is made of the package"
    exec unshare --net "$0" "$1"
fi

# Older ones than podman 4.4 know no quadlets.
generator=/usr/lib/systemd/system-generators/podman-system-generator
if [[ -x $generator ]]; then
    QUADLET_UNIT_DIRS=$PWD/scripts/package "$generator" --dryrun > "$folder/units" || fail "podman does not take the quadlet"
    grep -q '^ExecStart=.*podman run .*--cap-drop all ' "$folder/units" || fail "the quadlet runs no container"
    say "podman takes the quadlet"
fi

ip link set lo up
mount -t bpf bpf /sys/fs/bpf 2> /dev/null || true
mkdir "$folder/tap" "$folder/xdp"
cat > "$folder/tap/pmdns.toml" << 'TEXT'
[eal]
args = ["--no-pci", "--no-huge", "--no-shconf", "-m", "256"]

[[port]]
name = "tap"
device = "net_tap0,iface=pm0,mac=02:00:00:00:00:53"
addresses = ["10.97.0.53/24"]
TEXT
cat > "$folder/xdp/pmdns.toml" << 'TEXT'
[eal]
args = ["--no-pci", "--no-huge", "--no-shconf", "-m", "256"]

[[port]]
name = "xdp"
device = "net_af_xdp0,iface=pm1,start_queue=0,queue_count=1"
addresses = ["10.97.0.53/24"]
checksum_offload = false
# Without it the driver loads a program of its own, for which the kernel asks for CAP_SYS_ADMIN.
share_with_kernel = true
TEXT
for port in tap xdp; do
    cat >> "$folder/$port/pmdns.toml" << 'TEXT'

[[placement]]
stages = "all"
cores = [0]
idle = "adaptive"

[cache]
size = "16MiB"

[slowpath]
cores = [1]

[[upstream]]
address = "127.0.0.1:53"

[acl]
allow = ["10.97.0.0/24"]

[[local]]
name = "lab.example"
type = "A"
data = "192.0.2.1"
TEXT
    chmod -R a+rX "$folder/$port"
done

# Podman's filter of system calls has bpf for CAP_SYS_ADMIN only. The kernel still asks for CAP_BPF.
jq '.syscalls |= map(.names -= ["bpf"]) + [{names: ["bpf"], action: "SCMP_ACT_ALLOW"}]' /usr/share/containers/seccomp.json \
    > "$folder/seccomp.json"

answers() { [[ $(dig +short +timeout=1 +tries=1 @10.97.0.53 lab.example A) == 192.0.2.1 ]]; }
wait_for() {
    local what=$1 _
    shift
    for _ in $(seq 300); do
        ! "$@" 2> /dev/null || return 0
        sleep 0.1
    done
    fail "$what"
}
serving_process() { podman exec pmdns pmdns state --json | jq .process; }
# The keeper has kept the interface: the address of its other side is still there.
is_another_process() { [[ $(serving_process) != "$before" ]] && answers; }

# start PORT OPTION...: the container of a port, with the rights that docs/tasks/containers.md names. Its limits are those of the
# machine: one that forbids higher ones can run this too.
start() {
    local port=$1
    shift
    podman run --detach --name pmdns --network host --cgroups disabled --log-driver k8s-file --ulimit host \
        --health-cmd "pmdns health" --health-interval disable \
        --cap-drop all --cap-add net_admin --cap-add ipc_lock --cap-add net_bind_service --cap-add bpf "$@" \
        --security-opt "seccomp=$folder/seccomp.json" \
        --volume "$folder/$port:/etc/pmdns:ro" --volume "pmdns-$port:/var/lib/pmdns" pmdns > /dev/null
}
stop() {
    podman stop --time 20 pmdns > /dev/null
    [[ $(podman inspect --format '{{.State.ExitCode}}' pmdns) == 0 ]] || fail "it does not end in good order"
    podman rm pmdns > /dev/null
}
serves_as_its_user() {
    [[ $(podman exec pmdns id -un) == pmdns ]] || fail "it does not run as the image's user"
    podman healthcheck run pmdns > "$folder/health" || fail "it is not healthy: $(cat "$folder/health")"
    podman exec pmdns pmdns reload > /dev/null || fail "reload failed"
}

start tap --device /dev/net/tun
has_tap() { ip address replace 10.97.0.1/24 dev pm0 && ip link set pm0 up && answers; }
wait_for "no answer on the TAP interface" has_tap
serves_as_its_user
before=$(serving_process)
podman exec pmdns kill -KILL "$before"
wait_for "it does not come back after a crash" is_another_process
say "a TAP port serves as the image's user, and comes back after a crash with its interface"
stop

ip link add pm1-clients type veth peer name pm1
ip address add 10.97.0.1/24 dev pm1-clients
ip link set pm1-clients up
ip link set pm1 up
start xdp --cap-add net_raw --cap-add perfmon
wait_for "no answer on the port over AF_XDP" answers
serves_as_its_user
say "a port over AF_XDP serves as the image's user"
stop

# As pods are run: root without most of root's rights, and a root file system that stays as it is.
start xdp --cap-add net_raw --cap-add perfmon --user 0 --read-only --read-only-tmpfs=false --tmpfs /run:notmpcopyup \
    --security-opt no-new-privileges
wait_for "no answer on the port over AF_XDP with a root that cannot be written" answers
podman healthcheck run pmdns > "$folder/health" || fail "it is not healthy: $(cat "$folder/health")"
# What is shared with the kernel needs it.
[[ $(podman exec pmdns pmdns stats --json | jq -c .privileges.capabilities) == '["net_admin"]' ]] || fail "it keeps other rights"
say "a port over AF_XDP serves as root with a read-only root file system, and gives up the rights it needs no more"
stop
