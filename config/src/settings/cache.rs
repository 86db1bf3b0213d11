//! The life of answers.

use std::path::PathBuf;

use serde::Deserialize;

use crate::size::ByteSize;

/// `[cache]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSettings {
    /// Memory for answers and their index, all of it taken at start.
    pub size: ByteSize,
    /// Which pages the cache lives on.
    pub pages: Pages,
    /// NUMA node of the cache memory; absent: the node of the first data core.
    pub numa_node: Option<u32>,
    /// TTLs below this are raised to it, in seconds.
    pub min_ttl: u32,
    /// TTLs above this are lowered to it, in seconds.
    pub max_ttl: u32,
    /// The longest a negative answer (NXDOMAIN, NODATA) is kept, in seconds (RFC 2308).
    pub max_negative_ttl: u32,
    /// The share of the cache that live negative answers may take, 0 to 1.
    pub max_negative_share: f64,
    /// The share of the cache that live answers may take that are too long for UDP, 0 to 1.
    pub max_long_share: f64,
    /// Answer with what has expired while the upstreams fail (RFC 8767).
    pub serve_stale: bool,
    /// How long after it has expired an answer may be served, in seconds.
    pub stale_window_seconds: u32,
    /// The TTL it is served with, in seconds.
    pub stale_ttl: u32,
    /// How long a client waits for better, in milliseconds.
    pub stale_client_timeout_ms: u64,
    /// How long no upstream is asked again after a failure, in seconds.
    pub stale_backoff_seconds: u32,
    /// Which answers are kept when there is no room for all.
    pub eviction: Eviction,
    /// NXDOMAIN for a name is NXDOMAIN for all below it (RFC 8020).
    pub nxdomain_cut: bool,
    /// The file that answers are kept in while no process runs; absent: none.
    pub snapshot: Option<PathBuf>,
    /// How often it is written, besides at the end, in seconds.
    pub snapshot_interval_seconds: u64,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            size: ByteSize::mebibytes(64),
            pages: Pages::Auto,
            numa_node: None,
            min_ttl: 0,
            max_ttl: 86_400,
            max_negative_ttl: 300,
            max_negative_share: 0.25,
            max_long_share: 0.1,
            serve_stale: true,
            stale_window_seconds: 86_400,
            stale_ttl: 30,
            stale_client_timeout_ms: 1800,
            stale_backoff_seconds: 30,
            eviction: Eviction::HitRate,
            nxdomain_cut: false,
            snapshot: None,
            snapshot_interval_seconds: 3600,
        }
    }
}

/// Which answers a full cache keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// Those learnt last.
    Fifo,
    /// Those asked for last.
    Lru,
    /// Those asked for most often.
    Lfu,
    /// Those with the highest rate over their latest hits (LFU-K).
    HitRate,
}

/// `[prefetch]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prefetch {
    /// Ask for popular answers again before they expire.
    pub enabled: bool,
    /// The fewest hits of an answer that is worth it, in the access window.
    pub cache_min_frequency: u32,
    /// The fewest hits of it per minute.
    pub cache_min_hits_per_minute: f64,
    /// Hits count for so many seconds.
    pub cache_access_window_seconds: u32,
    /// The part of its TTL that has passed when it is asked for again, 0 to 1.
    pub cache_refresh_threshold: f64,
    /// Queries per second that prefetching may cost the upstreams.
    pub queries_per_second: u32,
    /// They leave in even portions, this far apart, in milliseconds.
    pub pace_ms: u64,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self {
            enabled: false,
            cache_min_frequency: 10,
            cache_min_hits_per_minute: 2.0,
            cache_access_window_seconds: 43_200,
            cache_refresh_threshold: 0.75,
            queries_per_second: 100,
            pace_ms: 100,
        }
    }
}

/// Which pages the cache lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Pages {
    /// 1 GB pages if there are enough, else 2 MB pages, else normal ones with a warning.
    #[serde(rename = "auto")]
    Auto,
    /// 2 MB huge pages, or normal ones with a warning.
    #[serde(rename = "2M")]
    Huge2M,
    /// 1 GB huge pages, or normal ones with a warning.
    #[serde(rename = "1G")]
    Huge1G,
    /// Normal pages, without a warning.
    #[serde(rename = "normal")]
    Normal,
}
