# The host's side of a machine: boots it, has it run commands, ends it. Sourced; needs $folder and $kernel.
# shellcheck shell=bash disable=SC2154

# In a file: subshells ask as well.
echo 0 > "$folder/asked"
failures=0

# boot CPUS MEMORY HUGE_PAGES QEMU_OPTIONS: boots the machine's own root file system, read-only but for $folder.
boot() {
    script -qec "vng --run $kernel --disable-kvm --cpus $1 --memory $2 --user root \
        --rwdir=$folder --append 'hugepages=$3 intel_iommu=on iommu=pt' --qemu-opts='$4' \
        --exec 'bash $folder/agent.sh'" /dev/null > "$folder/console" 2>&1 < /dev/null &
    machine=$!
    until [[ -e $folder/up ]]; do
        kill -0 "$machine" 2> /dev/null || { cat "$folder/console"; echo "the machine did not boot" >&2; return 1; }
        sleep 1
    done
    echo "booted after $SECONDS s"
}

# guest COMMANDS: has the machine run them; prints what they print, and returns their exit status.
guest() {
    local number answer
    number=$(cat "$folder/asked")
    echo $((number + 1)) > "$folder/asked"
    answer=$folder/answer.$number
    printf '%s\n' "cd $folder" "$1" > "$folder/next"
    mv "$folder/next" "$folder/ask.$number"
    until [[ -e $answer ]]; do
        kill -0 "$machine" 2> /dev/null || { echo "the machine is gone" >&2; tail -5 "$folder/console" >&2; return 1; }
        sleep 0.2
    done
    head -n -1 "$answer"
    return "$(tail -n 1 "$answer")"
}

# ok WHAT COMMAND...: runs a check and says what came of it.
ok() {
    local what=$1
    shift
    if "$@" > "$folder/said" 2>&1; then
        echo "ok   $what"
    else
        echo "FAIL $what"
        sed 's/^/     /' "$folder/said" | tail -n 12
        failures=$((failures + 1))
    fi
}

# eventually SECONDS COMMAND...: runs it again and again until it succeeds.
eventually() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < until)) || return 1
        sleep 1
    done
}

# end: lets the machine end, and says whether everything was right.
end() {
    touch "$folder/end"
    wait "$machine" || true
    echo "$failures failure(s), $SECONDS s"
    ((failures == 0))
}
