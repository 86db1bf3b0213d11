# shellcheck shell=bash disable=SC2154
# Frames forwarded by capsule 0.1.5, by our own port loop and by testpmd, on the same virtio-user port under the same generator.
# They swap the MAC addresses, with and without parsing the headers first. The same runs on net_null show the framework's cost.

capsule_forward() {
    cat > "$lab/capsule.toml" <<- END
	app_name = "capsule"
	master_core = $server_cpu
	dpdk_args = "--in-memory --huge-dir $huge --no-pci --single-file-segments -m 256"
	[mempool]
	capacity = 16383
	cache_size = 256
	[[ports]]
	name = "port"
	device = "${2%%,*}"
	args = "${2#*,}"
	cores = [$server_cpu]
	rxd = 1024
	txd = 1024
	END
    FRAMES=$1 exec taskset -c "$server_cpu" "$capsule" -f "$lab/capsule.toml"
}

our_forward() {
    virtio_config ""
    exec taskset -c "$server_cpu" "$target/forward" "$1" "$lab/pmdns.toml"
}

group_capsule() {
    local way seconds=$((seconds < 5 ? seconds : 5))
    measure_frames capsule testpmd-macswap testpmd_forward macswap
    for way in swap parse; do
        measure_frames capsule "nics-$way" our_forward "$way"
        measure_frames capsule "capsule-$way" capsule_forward "$way" "$VIRTIO"
    done
}
