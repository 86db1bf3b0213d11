//! What a cached answer takes: the target is 256 bytes for an A record, index and huge pages included.

use pmdns_bench::Kit;
use pmdns_bench::kit::cache_bytes;
use pmdns_bench::traffic::entry_number;

const TARGET: u64 = 256;
const NAMES: usize = 1_000_000;
const PAGE: usize = 2 << 20;

#[test]
fn a_million_answers_take_less_than_256_bytes_each() {
    let kit = Kit::filled(NAMES);
    let stats = kit.writer.stats();
    assert_eq!((stats.evicted, stats.too_long), (0, 0), "the cache is large enough");
    assert_eq!(stats.entries + stats.index_evicted, NAMES as u64, "every name but a few is there");
    assert!(
        stats.index_evicted < NAMES as u64 / 10_000,
        "{} lost in the index",
        stats.index_evicted
    );
    assert!(stats.bytes_used / stats.entries <= TARGET, "{stats:?}");
    // The arena too, to its last page.
    assert!(kit.arena.bytes as u64 / stats.entries <= TARGET, "{:?}", kit.arena);
    assert!(stats.bytes_total <= kit.arena.bytes as u64);
}

#[test]
fn the_byte_bound_holds_exactly_however_much_is_inserted() {
    let bytes = cache_bytes(NAMES / 100);
    assert!(bytes.is_multiple_of(PAGE), "so that the arena is as large as asked for, on any pages");
    let mut kit = Kit::new("", bytes);
    assert_eq!(kit.arena.bytes, bytes);
    let mut most = 0;
    for number in 0..NAMES / 10 {
        kit.writer.insert(&entry_number(number, kit.cache.seed()));
        most = most.max(kit.writer.stats().bytes_used);
    }
    let stats = kit.writer.stats();
    assert!(stats.evicted > 0, "it is full");
    assert!(most <= stats.bytes_total && stats.bytes_total <= bytes as u64, "{most} of {bytes}");
    assert!(bytes as u64 - stats.bytes_total < 128, "nothing is left unused but the odd line");
}
