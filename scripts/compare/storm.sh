# shellcheck shell=bash disable=SC2034,SC2154
# A storm of misses over virtio-user. Clients and upstream are pmdns-load, in one loop on one CPU. All of pmdns is on the other.

if [[ $quick == yes ]]; then STORM_SECONDS=1; else STORM_SECONDS=3; fi
# Hits a second beside the storm: few enough for a CPU that is shared.
STORM_HITS=200000
STORM_UPSTREAM=10.77.0.9

storm_pmdns() {
    local upstream=$STORM_UPSTREAM upstream_port=53 by_port='port = "virtio"' cache_size=1GiB
    virtio_pmdns "query_sources = [\"10.77.0.60\", \"10.77.0.61\"]
$(on_one_cpu)"
}

# First the most misses, then hits alone, then the same hits beside twice as many misses as can be resolved.
group_storm() {
    local most
    load_run storm-misses storm_pmdns ceiling --mix miss=1 --upstream "$STORM_UPSTREAM" --start-rate 50000 \
        --step-seconds "$STORM_SECONDS"
    most=$(ceiling_of "$output/load-storm-misses-$round.json")
    [[ ${most:-0} -gt 0 ]] || { not_run storm pmdns-load "it found no ceiling"; return 0; }
    say "storm        $most misses/s"
    load_run storm-alone storm_pmdns run --rate "$STORM_HITS" --seconds "$STORM_SECONDS" --upstream "$STORM_UPSTREAM"
    load_run storm-beside storm_pmdns run --mix "hit=$STORM_HITS,miss=$((2 * most))" --rate $((STORM_HITS + 2 * most)) \
        --seconds "$STORM_SECONDS" --upstream "$STORM_UPSTREAM"
}
