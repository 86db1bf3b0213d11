#!/usr/bin/env bash
# Installs the Debian package, serves as its unit does, upgrades, removes and purges it. Everything happens in namespaces of its
# own over a copy of this machine's files that nobody keeps, so the machine stays as it is. Needs root.
# usage: scripts/lab-package.sh PACKAGE NEWER_PACKAGE
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -eq 2 ]] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }

if [[ -z ${PMDNS_LAB_INSIDE-} ]]; then
    exec env PMDNS_LAB_INSIDE=1 unshare --mount --net --pid --fork --mount-proc "$0" "$(realpath "$1")" "$(realpath "$2")"
fi

folder=$(mktemp -d)
mount -t tmpfs none "$folder"
mkdir "$folder"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
for place in dev sys; do mount --rbind "/$place" "$folder/root/$place"; done
mount -t proc none "$folder/root/proc"
mount -t tmpfs none "$folder/root/run"
cp "$1" "$folder/root/old.deb"
cp "$2" "$folder/root/new.deb"
ip link set lo up

inside() { chroot "$folder/root" "$@"; }
say() { echo "ok: $*"; }
fail() { echo "failed: $*" >&2; exit 1; }

inside dpkg -i /old.deb > /dev/null
inside pmdns version > /dev/null
inside getent passwd pmdns > /dev/null || fail "there is no user pmdns"
[[ $(inside stat -c %U:%a /var/lib/pmdns) == pmdns:750 ]] || fail "/var/lib/pmdns is not the user's own"
inside pmdns check -c /etc/pmdns/pmdns.toml --elsewhere > /dev/null || fail "the first configuration is wrong"
for page in pmdns.1.gz pmdns-run.1.gz; do inside test -s "/usr/share/man/man1/$page" || fail "no manual page $page"; done
inside systemd-analyze verify --man=no pmdns.service pmdns-health.service || fail "systemd does not take the unit"
say "installed, with user, manual pages, and a configuration that checks"

# What systemd does for a unit of Type=notify: its user, capabilities, folders and variables.
serve() {
    inside install -d -o pmdns -g pmdns /run/pmdns
    local capabilities=+net_admin,+net_raw,+bpf,+ipc_lock,+net_bind_service
    python3 - "$folder/root/run/notify" > "$folder/told" << 'PYTHON' &
import os, socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
while True:
    sys.stdout.write(manager.recv(4096).decode())
    sys.stdout.flush()
PYTHON
    manager=$!
    until [[ -S $folder/root/run/notify ]]; do sleep 0.1; done
    NOTIFY_SOCKET=/run/notify WATCHDOG_USEC=1000000 XDG_RUNTIME_DIR=/run/pmdns PMDNS_LOG_FORMAT=journal \
        inside setpriv --reuid pmdns --regid pmdns --init-groups --inh-caps "$capabilities" \
        --ambient-caps "$capabilities" --bounding-set "-all,$capabilities" pmdns run 2> "$folder/log" > "$folder/summary" &
    server=$!
    told READY=1 1
}
# told WORDS COUNT: waits until the manager has heard it so often.
told() {
    local _
    for _ in $(seq 200); do
        [[ $(grep -c "$1" "$folder/told") -ge $2 ]] && return
        kill -0 "$server" 2> /dev/null || break
        sleep 0.1
    done
    cat "$folder/log" >&2
    fail "systemd did not hear $1"
}
stop() {
    kill -TERM "$(pgrep -x pmdns)"
    wait "$server" || fail "it did not stop in good order: $(cat "$folder/log")"
    grep -q STOPPING=1 "$folder/told" || fail "systemd did not hear of the stop"
    kill "$manager"
    wait "$manager" || true
    rm "$folder/root/run/notify"
}

serve
told WATCHDOG=1 3
grep -q '^<6>ready$' "$folder/log" || fail "the log has no priorities: $(head -n 3 "$folder/log")"
ip address add 10.97.0.1/24 dev pm0
ip link set pm0 up
[[ $(dig +short +timeout=2 +tries=5 @10.97.0.53 localhost A) == 127.0.0.1 ]] || fail "no answer on the TAP interface"
inside setpriv --reuid pmdns --regid pmdns --init-groups pmdns stats > /dev/null || fail "its user may not ask it"
inside pmdns reload > /dev/null || fail "reload failed"
stop
say "serves as its user, tells systemd so, and stops"

echo "# changed by the operator" >> "$folder/root/etc/pmdns/pmdns.toml"
inside dpkg -i /new.deb > /dev/null
grep -q 'changed by the operator' "$folder/root/etc/pmdns/pmdns.toml" || fail "the upgrade replaced the configuration"
serve
stop
say "upgraded, with the operator's configuration"

inside dpkg -r pmdns > /dev/null
[[ ! -e $folder/root/usr/bin/pmdns && -e $folder/root/etc/pmdns/pmdns.toml ]] || fail "removal removes the wrong files"
inside dpkg -P pmdns > /dev/null
[[ ! -e $folder/root/etc/pmdns && ! -e $folder/root/var/lib/pmdns ]] || fail "purging leaves files behind"
say "removed and purged"
