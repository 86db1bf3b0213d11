#!/usr/bin/env bash
# Installs the Debian package and lets systemd serve by its units; crashes it, upgrades, removes and purges it. All of it happens
# in namespaces of its own over a copy of this machine's files that nobody keeps, so the machine stays as it is. Needs root.
# usage: scripts/lab-package.sh PACKAGE NEWER_PACKAGE
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -eq 2 ]] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
[[ $(id -u) -eq 0 ]] || { echo "it makes namespaces and mounts: run with sudo" >&2; exit 1; }

if [[ -z ${PMDNS_LAB_INSIDE-} ]]; then
    exec env PMDNS_LAB_INSIDE=1 unshare --mount --net --ipc --uts --cgroup --pid --fork --kill-child --mount-proc \
        "$0" "$(realpath "$1")" "$(realpath "$2")"
fi

# What systemd would do to the machine's kernel rather than to the copy of its files.
MASKED=(systemd-binfmt systemd-modules-load systemd-remount-fs systemd-sysctl systemd-udev-trigger
    systemd-udevd systemd-random-seed)
# The rating of the unit: 0 is the best, 10 the worst (systemd-analyze(1)).
WORST_RATING=26

folder=$(mktemp -d)
mount -t tmpfs none "$folder"
mkdir "$folder"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
root=$folder/root
mount --rbind /dev "$root/dev"
for place in run tmp; do mount -t tmpfs none "$root/$place"; done
cp "$1" "$root/old.deb"
cp "$2" "$root/new.deb"
ip link set lo up

say() { echo "ok: $*"; }
fail() {
    echo "failed: $*" >&2
    [[ -z ${systemd-} ]] || inside journalctl --no-pager -u pmdns -u pmdns-health -n 30 >&2 || true
    exit 1
}

boot() {
    : > "$root/etc/machine-id"
    # Images of containers forbid packages to start anything.
    rm -f "$root/usr/sbin/policy-rc.d"
    for unit in "${MASKED[@]}"; do ln -sf /dev/null "$root/etc/systemd/system/$unit.service"; done
    cat > "$root/init.sh" << 'TEXT'
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs none /sys/fs/cgroup
for name in systemd unified devices memory pids; do mkdir /sys/fs/cgroup/$name; done
if mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd; then
    mount -t cgroup2 none /sys/fs/cgroup/unified
    for name in devices memory pids; do mount -t cgroup -o $name none /sys/fs/cgroup/$name; done
else
    umount /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
fi
exec env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target --show-status=0
TEXT
    unshare --pid --fork --kill-child chroot "$root" bash /init.sh > "$folder/boot" 2>&1 &
    until systemd=$(pgrep -P $!); do sleep 0.1; done
    local _
    for _ in $(seq 300); do
        [[ $(inside systemctl is-active basic.target 2> /dev/null) != active ]] || return 0
        sleep 0.1
    done
    cat "$folder/boot" >&2
    fail "systemd does not come up"
}
# The network is the lab's; all else is that of the machine that systemd runs.
inside() { nsenter --target "$systemd" --mount --pid --ipc --root --wd "$@"; }
# The process of the service, which is the keeper, and the one that serves.
main_process() { inside systemctl show --property MainPID --value pmdns; }
serving_process() { inside pmdns state --json 2> /dev/null | jq .process; }
answers() { [[ $(dig +short +timeout=1 +tries=2 @10.97.0.53 localhost A) == 127.0.0.1 ]]; }
# The interface is the process's, and comes again with it.
set_up_tap() {
    ip address replace 10.97.0.1/24 dev pm0 && ip link set pm0 up
} 2> /dev/null
wait_for() {
    local what=$1 _
    shift
    for _ in $(seq 300); do
        ! "$@" || return 0
        sleep 0.1
    done
    fail "$what"
}
serves() { [[ $(inside systemctl is-active pmdns) == active ]] && set_up_tap && answers; }

boot
inside dpkg -i /old.deb > /dev/null
inside pmdns version > /dev/null
inside getent passwd pmdns > /dev/null || fail "there is no user pmdns"
[[ $(inside stat -c %U:%a /var/lib/pmdns) == pmdns:750 ]] || fail "/var/lib/pmdns is not the user's own"
[[ $(inside stat -c %U:%G:%a /etc/pmdns/pmdns.toml) == root:pmdns:640 ]] || fail "others may read the configuration"
inside pmdns check -c /etc/pmdns/pmdns.toml --elsewhere > /dev/null || fail "the first configuration is wrong"
for page in pmdns.1.gz pmdns-run.1.gz; do inside test -s "/usr/share/man/man1/$page" || fail "no manual page $page"; done
inside systemd-analyze verify --man=no pmdns.service pmdns-health.service || fail "systemd does not take the unit"
inside systemd-analyze security --threshold="$WORST_RATING" pmdns.service > "$folder/rating" || fail "$(tail -n 2 "$folder/rating")"
for paper in NOTICES.gz sbom.cdx.json.gz changelog.gz copyright; do
    inside test -s "/usr/share/doc/pmdns/$paper" || inside test -s "/usr/share/doc/pmdns/${paper%.gz}" || fail "no $paper"
done
! readelf --sections --wide "$root/usr/bin/pmdns" | grep -q '[.]debug_info' || fail "the program has its debug symbols"
say "installed, with user, manual pages, notices, and a configuration that checks"

inside systemctl start pmdns || fail "it does not start"
wait_for "no answer on the TAP interface" serves
inside journalctl --no-pager -u pmdns -p info -n 200 | grep -q 'ready$' || fail "the journal does not have its log"
inside setpriv --reuid pmdns --regid pmdns --init-groups pmdns stats --json > "$folder/stats" || fail "its user may not ask it"
for privilege in seccomp landlock; do
    [[ $(jq ".privileges.$privilege" "$folder/stats") == true ]] ||
        fail "no $privilege under the unit: $(jq .privileges "$folder/stats")"
done
inside systemctl reload pmdns || fail "reload failed"
say "serves as its user, with a filter of its own below that of the unit"

is_another_process() {
    local now
    now=$(serving_process)
    [[ $now && $now != "$before" && $(inside systemctl is-active pmdns) == active ]]
}

# crash_six_times PROCESS: what this prints is the process that crashes.
crash_six_times() {
    for _ in $(seq 6); do
        before=$(serving_process)
        inside kill -ABRT "$("$1")"
        wait_for "it is not started again after a crash of the $1" is_another_process
    done
    wait_for "no answer after six crashes of the $1" serves
}

# Every bug is an abort. Six of them in a row are more than systemd takes by default.
comes_back_after_six_crashes() {
    local keeper
    keeper=$(main_process)
    crash_six_times serving_process
    [[ $(main_process) == "$keeper" ]] || fail "the keeper has ended with one of its processes"
    crash_six_times main_process
}
comes_back_after_six_crashes
say "is started again after six crashes in a row, of the process that serves and of its keeper"

configuration=$root/etc/pmdns/pmdns.toml
cp -a "$configuration" "$folder/first.toml"
starts() { inside systemctl show --property NRestarts --value pmdns; }
has_failed_thrice() { (($(starts) >= failed + 3)); }

# A file of the configuration may be on a mount that comes later, or be replaced at this moment.
comes_back_with_its_list() {
    local list=$root/etc/pmdns/list failed
    echo ads.example > "$list"
    printf '\n[[blocklist]]\nfile = "/etc/pmdns/list"\n' >> "$configuration"
    inside systemctl restart pmdns || fail "it does not start with a list"
    mv "$list" "$list.away"
    failed=$(starts)
    inside kill -KILL "$(main_process)"
    wait_for "it is not tried again while its list is away" has_failed_thrice
    mv "$list.away" "$list"
    wait_for "no answer when the list is back" serves
    cp -a "$folder/first.toml" "$configuration"
    inside systemctl restart pmdns
    wait_for "no answer without the list" serves
}
comes_back_with_its_list
say "is started again until its list is back"

# The watch gives its interface the settings of one.
sed -i 's|^addresses = .*|addresses = ["10.97.0.53/24", "198.51.100.53/32"]|' "$configuration"
printf '\n[anycast]\ninterface = "pm-anycast"\naddresses = ["198.51.100.53/32"]\n' >> "$configuration"
inside systemctl restart pmdns
wait_for "no answer with one more address" serves
inside systemctl start pmdns-health || fail "the watch does not start"
is_set_up() { [[ $(cat /proc/sys/net/ipv{4,6}/conf/pm-anycast/accept_{redirects,source_route}) == $'0\n0\n0\n0' ]]; } 2> /dev/null
wait_for "the interface of the watch takes redirects or source routes" is_set_up
! inside journalctl --no-pager -u pmdns-health | grep 'stays as it is' >&2 || fail "the watch may not set up its interface"
say "the watch sets up its interface"

before=$(serving_process)
cp -a "$configuration" "$folder/good.toml"
upgrade() { inside dpkg -i "$1" > "$folder/upgrade" 2>&1 || fail "the package is not upgraded: $(cat "$folder/upgrade")"; }
# refuses WHY: an upgrade now leaves the old process, and says why.
refuses() {
    upgrade /new.deb
    grep -q "$1" "$folder/upgrade" || fail "nobody says that $1: $(cat "$folder/upgrade")"
    grep -q 'the old one serves on' "$folder/upgrade" || fail "nobody says what serves: $(cat "$folder/upgrade")"
    [[ $(serving_process) == "$before" ]] || fail "another process serves although $1"
    answers || fail "an upgrade that is refused ends the service"
    inside pmdns stats > /dev/null || fail "the check of an upgrade took the control socket away"
    cp -a "$folder/good.toml" "$configuration"
}
printf '\n[no_such_table]\n' >> "$configuration"
refuses no_such_table
ln -s /var/lib/pmdns/other "$root/var/lib/pmdns/log.json"
printf '\n[query_log]\njson = "/var/lib/pmdns/log.json"\n' >> "$configuration"
refuses 'is a link'
say "serves on when the new program refuses the configuration, or what it finds here"

printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
upgrade /new.deb
rm "$root/usr/sbin/policy-rc.d"
[[ $(serving_process) == "$before" ]] || fail "another process serves against the policy of the machine"
[[ $(inside pmdns health --json | jq -r .state) == serving ]] || fail "it stays drained where restarts are forbidden"
say "its clients come back when the machine forbids the restart"

# Clients ask from before the upgrade until after it.
loses_nothing() {
    local keeper clients
    keeper=$(main_process)
    echo 'localhost A' > "$folder/names"
    dnsperf -s 10.97.0.53 -d "$folder/names" -l 20 -Q 2000 -t 5 > "$folder/clients" &
    clients=$!
    sleep 2
    upgrade "$1"
    wait "$clients"
    [[ $(main_process) == "$keeper" ]] || fail "it was restarted: $(cat "$folder/upgrade")"
    is_another_process || fail "the old process serves on: $(cat "$folder/upgrade")"
    grep -q 'Queries lost: *0 ' "$folder/clients" || fail "queries were lost: $(cat "$folder/clients")"
}
loses_nothing /old.deb
before=$(serving_process)
loses_nothing /new.deb
before=$(serving_process)
say "another version takes over, and no query is lost"

# Files that the service may read by its drop-in: by a group, and a credential, which is put there as systemd would where it may
# not mount. Modes of an older package, and one that the operator chose.
inside groupadd lab
printf 'ads.example\n' > "$root/etc/pmdns/list"
inside chgrp lab /etc/pmdns/list
chmod 640 "$root/etc/pmdns/list"
mkdir "$root/etc/systemd/system/pmdns.service.d"
printf '%s\n' '[Service]' SupplementaryGroups=lab LoadCredential=list:/etc/pmdns/list \
    > "$root/etc/systemd/system/pmdns.service.d/rights.conf"
credential=/run/credentials/pmdns.service/list
inside install -d -o pmdns -m 500 "${credential%/list}"
inside install -o pmdns -m 400 /etc/pmdns/list "$credential"
echo '# changed by the operator' >> "$configuration"
for list in /etc/pmdns/list "$credential"; do printf '\n[[blocklist]]\nfile = "%s"\n' "$list" >> "$configuration"; done
chown root:root "$root/etc/pmdns" "$configuration"
chmod 755 "$root/etc/pmdns"
chmod 644 "$configuration"
upgrade /old.deb
grep -q 'changed by the operator' "$configuration" || fail "the upgrade replaced the configuration"
[[ $(serving_process) != "$before" ]] || fail "the other program does not serve: $(cat "$folder/upgrade")"
wait_for "no answer after the upgrade" serves
modes() { inside stat -c %U:%G:%a /etc/pmdns /etc/pmdns/pmdns.toml | tr '\n' ' '; }
[[ $(modes) == "root:pmdns:750 root:pmdns:640 " ]] || fail "others may read the configuration: $(modes)"
chmod 711 "$root/etc/pmdns"
chmod 604 "$configuration"
inside chgrp lab /etc/pmdns/pmdns.toml
touch "$root/etc/pmdns/no-restart"
upgrade /new.deb
[[ $(modes) == "root:pmdns:711 root:lab:604 " ]] || fail "the upgrade changed modes that the operator chose: $(modes)"
say "upgraded, with the operator's configuration, rights and modes"

rm "$root/etc/pmdns/list" "$root/etc/pmdns/no-restart"
inside dpkg -r pmdns > /dev/null 2>&1
[[ $(inside systemctl is-active pmdns) != active ]] || fail "it serves on without its package"
[[ ! -e $root/usr/bin/pmdns && -e $root/etc/pmdns/pmdns.toml ]] || fail "removal removes the wrong files"
inside dpkg -P pmdns > /dev/null 2>&1
[[ ! -e $root/etc/pmdns && ! -e $root/var/lib/pmdns ]] || fail "purging leaves files behind"
say "removed and purged"
