//! What the TOML may say, field for field, with every default.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

use crate::cookies::CookieSecret;
use crate::limits::MAX_QUERIES_PER_PORT;
use crate::local::LocalRecord;
use crate::pin::Pin;
use crate::placement::Stretch;
use crate::prefix::{InterfaceAddress, Prefix};
use crate::size::ByteSize;
use crate::upstream::{Host, UpstreamAddress};

/// The group of upstreams that name none, which is asked for all names that no `[[forward]]` claims.
pub const DEFAULT_GROUP: &str = "default";

/// Everything an operator can say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Arguments for DPDK's environment abstraction layer.
    pub eal: Eal,
    /// The ports to poll, in order. At least one.
    #[serde(rename = "port")]
    pub ports: Vec<Port>,
    /// Which cores man which stretch of the line. None: one core mans it all.
    #[serde(rename = "placement")]
    pub placements: Vec<Placement>,
    /// Packet buffers and batches.
    pub frames: Frames,
    /// What the answers look like.
    pub answers: Answers,
    /// How clients show that they are at the address they send from.
    pub cookies: Cookies,
    /// The answer cache.
    pub cache: Cache,
    /// Asking for popular answers before they expire.
    pub prefetch: Prefetch,
    /// The threads that ask upstream.
    pub slowpath: SlowPath,
    /// The resolvers that misses are forwarded to. At least one.
    #[serde(rename = "upstream")]
    pub upstreams: Vec<Upstream>,
    /// How groups of upstreams are asked. None: each as the default strategy says.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    /// Which group is asked for which names. None: the default group, for all of them.
    #[serde(rename = "forward")]
    pub forwards: Vec<Forward>,
    /// When an upstream rests, and when it is back.
    pub health: Health,
    /// Who may ask.
    pub acl: Acl,
    /// How fast one client may ask.
    pub ratelimit: RateLimit,
    /// Records answered from this file, authoritatively.
    #[serde(rename = "local")]
    pub local: Vec<LocalRecord>,
    /// Names answered with NXDOMAIN.
    pub block: Block,
    /// What is answered without being written down.
    pub policy: Policy,
    /// Zone files, answered from authoritatively.
    #[serde(rename = "zone")]
    pub zones: Vec<Zone>,
    /// Files of names that are blocked.
    #[serde(rename = "blocklist")]
    pub blocklists: Vec<Blocklist>,
    /// Response policy zones; the first that has a rule decides.
    pub rpz: Vec<Rpz>,
    /// How to talk to a running instance.
    pub control: Control,
    /// Where monitoring reads the counters.
    pub metrics: Metrics,
}

/// `[eal]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Eal {
    /// Passed to `rte_eal_init` as they are; what the ports need (`-a` for PCI devices) is added.
    pub args: Vec<String>,
}

/// `[[port]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// A short name of your choice, used in placements, counters and logs.
    pub name: String,
    /// A PCI address (`0000:01:00.0`), a vdev string (`net_tap0,iface=pm0`) or `replay`.
    pub device: String,
    /// Our own addresses on this port, with prefix lengths. Queries to other addresses are not ours.
    pub addresses: Vec<InterfaceAddress>,
    /// UDP port that queries come to.
    #[serde(default = "dns_port")]
    pub dns_port: u16,
    /// Descriptors per RX queue.
    #[serde(default = "descriptors")]
    pub rx_descriptors: u16,
    /// Descriptors per TX queue.
    #[serde(default = "descriptors")]
    pub tx_descriptors: u16,
    /// Use the port's checksum offloads where it has them.
    #[serde(default = "yes")]
    pub checksum_offload: bool,
    /// Receive frames for every MAC address.
    #[serde(default)]
    pub promiscuous: bool,
    /// How long to wait at start for the link to come up; 0 does not wait.
    #[serde(default = "link_wait_ms")]
    pub link_wait_ms: u64,
}

/// `[[placement]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// A stretch of the line: `"parse..encode"`, `"parse..policy"`, `"lookup"`.
    #[serde(default = "whole_line")]
    pub stages: Stretch,
    /// The CPUs that man it, one worker each.
    pub cores: Vec<usize>,
    /// What a worker does when its queues are empty.
    #[serde(default)]
    pub idle: Idle,
}

/// What a worker does when its queues are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Poll again at once: lowest latency, the core always shows 100 %.
    Spin,
    /// Spin a little, then pause, then sleep up to 200 us.
    #[default]
    Adaptive,
}

/// `[frames]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Frames {
    /// Packet buffers in the pool; 0 computes them from descriptors, rings and batches.
    pub count: u32,
    /// Frames taken from a queue at a time, 1 to 64.
    pub batch: u16,
    /// Slots in each ring between two cores; a power of two.
    pub ring: u32,
}

/// `[answers]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answers {
    /// The largest UDP answer we send, and the size our OPT record announces, in bytes (RFC 6891).
    pub max_udp_size: u16,
    /// Queries of type ANY get one HINFO record, and are never asked upstream (RFC 8482).
    pub minimal_any: bool,
    /// The name given to clients that ask for it in their OPT record (RFC 5001); absent: none.
    pub nsid: Option<String>,
    /// The answer to `id.server` and `hostname.bind`, class CH (RFC 4892); absent: REFUSED.
    pub identity: Option<String>,
    /// The answer to `version.server` and `version.bind`, class CH; absent: REFUSED.
    pub version: Option<String>,
}

/// `[cookies]`: DNS cookies (RFC 7873, RFC 9018).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cookies {
    /// Answer clients that send a cookie with one of ours.
    pub enabled: bool,
    /// What cookies are made with; absent: drawn at start. Servers behind one address need the same.
    pub secret: Option<CookieSecret>,
    /// A secret whose cookies are right as well: the one before, or the one to come.
    pub accepted_secret: Option<CookieSecret>,
    /// A file with the secret on its first line, and the accepted one on its second.
    pub secret_file: Option<PathBuf>,
    /// Clients that send a cookie get BADCOOKIE until it is a right one.
    pub require: bool,
}

/// `[cache]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
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
    /// Answer with what has expired while the upstreams fail (RFC 8767).
    pub serve_stale: bool,
    /// How long after it has expired an answer may be served, in seconds.
    pub stale_window: u32,
    /// The TTL it is served with, in seconds.
    pub stale_ttl: u32,
    /// How long a client waits for better, in milliseconds.
    pub stale_client_timeout_ms: u64,
    /// How long nobody is asked again after that was in vain, in seconds.
    pub stale_backoff: u32,
    /// What is kept when there is no room for all.
    pub eviction: Eviction,
    /// NXDOMAIN for a name is NXDOMAIN for all below it (RFC 8020).
    pub nxdomain_cut: bool,
    /// The file that answers are kept in while no process runs; absent: none.
    pub snapshot: Option<PathBuf>,
    /// How often it is written, besides at the end, in seconds.
    pub snapshot_interval: u64,
}

/// What is kept of the cache when there is no room for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// What was learnt last.
    Fifo,
    /// What was asked for last.
    Lru,
    /// What is asked for most often.
    Lfu,
    /// What was asked for most often in its latest hits (LFU-K).
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
    pub cache_min_hit_rate: f64,
    /// Hits count for so many seconds.
    pub cache_access_window_secs: u32,
    /// The part of its TTL that has passed when it is asked for again, 0 to 1.
    pub cache_refresh_threshold: f64,
    /// Queries per second that prefetching may cost the upstreams.
    pub queries_per_second: u32,
    /// They leave in even portions, this far apart, in milliseconds.
    pub pace_ms: u64,
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

/// `[slowpath]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlowPath {
    /// Threads that resolve misses; each owns a share of the keys.
    pub threads: usize,
    /// CPUs those threads may run on; empty: every CPU no data core uses, or all if none is left.
    pub cores: Vec<usize>,
    /// Slots in the ring of misses of each data core; a power of two.
    pub ring: u32,
    /// A client is answered with SERVFAIL this long after its query came, at the latest.
    pub deadline_ms: u64,
    /// Questions waiting for upstream, in all.
    pub max_pending: usize,
    /// Clients' queries waiting for upstream, in all.
    pub max_waiting: usize,
    /// Queries of one client address waiting for upstream.
    pub max_waiting_per_client: usize,
    /// Queries that may leave together from one random UDP port; 1: a port for every query.
    pub queries_per_port: usize,
    /// Resolvers that upstreams' names are looked up at, over UDP.
    pub bootstrap: Vec<SocketAddr>,
}

/// `[[upstream]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Address and port of the resolver, for example `"192.0.2.53:53"` or `"[2001:db8::53]:53"`; or where it
    /// answers over TLS, HTTPS or QUIC, for example `"tls://192.0.2.53"`.
    pub address: UpstreamAddress,
    /// How long to wait for a reply before the next try.
    #[serde(default = "upstream_timeout_ms")]
    pub timeout_ms: u64,
    /// Source address of our queries; absent: the kernel chooses.
    pub source: Option<IpAddr>,
    /// The group it belongs to.
    #[serde(default = "default_group")]
    pub group: String,
    /// Write the letters of our queries large or small at random, and accept replies with the same only.
    #[serde(default)]
    pub mix_case: bool,
    /// The name or address that the certificate must be for; absent: the host of `address`.
    pub name: Option<Host>,
    /// Fingerprints of public keys, one of which the server must have.
    #[serde(default)]
    pub pin: Vec<Pin>,
    /// A PEM file of the certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
}

/// `[[group]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name that its upstreams give as their `group`.
    pub name: String,
    /// Whom of them to ask.
    #[serde(default)]
    pub strategy: Strategy,
    /// Upstreams asked at once, if the strategy is `parallel`.
    #[serde(default = "parallel")]
    pub parallel: usize,
}

/// Whom of a group to ask. Upstreams that rest come after all others, whatever the strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The first of the file, unless another one is faster by 20 ms or more.
    #[default]
    Failover,
    /// Each in turn.
    RoundRobin,
    /// The one with the shortest round-trip time.
    Fastest,
    /// The fastest ones at once; the first answer wins.
    Parallel,
    /// The fastest, and a second one if it takes longer than it usually does.
    Hedged,
}

/// `[[forward]]`: the longest matching zone decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// A domain name; it stands for itself and everything below.
    pub zone: String,
    /// The group that is asked for such names.
    pub group: String,
}

/// `[health]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// Failures in a row after which an upstream rests.
    pub failures: u32,
    /// Replies in a row after which it is well again.
    pub successes: u32,
    /// How long after the beginning of its rest it is probed; the pause doubles with each probe that fails.
    pub interval_ms: u64,
    /// How long to wait for the reply to a probe.
    pub timeout_ms: u64,
}

/// `[acl]`: the longest matching prefix decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Acl {
    /// What happens to clients that no prefix matches.
    pub default: Access,
    /// Prefixes that may ask.
    pub allow: Vec<Prefix>,
    /// Prefixes answered with REFUSED.
    pub refuse: Vec<Prefix>,
    /// Prefixes not answered at all.
    pub drop: Vec<Prefix>,
}

/// What the access list says of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// The query goes on.
    Allow,
    /// The client gets REFUSED.
    Refuse,
    /// The client gets nothing.
    Drop,
}

/// `[ratelimit]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimit {
    /// Queries per second and client prefix; 0 turns the limit off.
    pub queries_per_second: u32,
    /// Queries a client prefix may send at once after a pause.
    pub burst: u32,
    /// IPv4 clients with the same leading bits share one limit.
    pub ipv4_prefix: u8,
    /// IPv6 clients with the same leading bits share one limit.
    pub ipv6_prefix: u8,
    /// Every `slip`-th query over the limit gets an empty answer with TC=1 instead of nothing; 0: none.
    pub slip: u32,
    /// Clients with a right cookie (RFC 7873) are not limited: nobody else can send in their name.
    pub exempt_valid_cookies: bool,
    /// Client prefixes remembered by each core; a power of two.
    pub table: u32,
    /// Prefixes that no limit holds for.
    pub exempt: Vec<Prefix>,
    /// Count what is over a limit, and let it pass.
    pub dry_run: bool,
    /// Queries per second and client prefix that the cache cannot answer; 0 turns this limit off.
    pub miss_queries_per_second: u32,
    /// Such queries a client prefix may send at once after a pause.
    pub miss_burst: u32,
}

/// `[block]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Block {
    /// Names answered with NXDOMAIN, each with everything below it.
    pub names: Vec<String>,
}

/// `[policy]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Answer special-use names (RFC 6761) and private reverse zones (RFC 6303) here.
    pub special_use: bool,
    /// A PTR record for every local address record.
    pub auto_ptr: bool,
}

/// `[[zone]]`: a zone file (RFC 1035 section 5).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// The file.
    pub file: PathBuf,
    /// What names without a trailing dot are relative to; absent: the root, or what `$ORIGIN` says.
    pub origin: Option<String>,
}

/// `[[blocklist]]`: a file of names that are blocked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocklist {
    /// The file.
    pub file: PathBuf,
    /// What its lines look like.
    #[serde(default)]
    pub format: ListFormat,
    /// What is answered.
    #[serde(default)]
    pub action: BlockAction,
}

/// `[[rpz]]`: a response policy zone (draft-vixie-dnsop-dns-rpz-00).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rpz {
    /// Its zone file.
    pub file: PathBuf,
    /// What names without a trailing dot are relative to; absent: the root, or what `$ORIGIN` says.
    pub origin: Option<String>,
}

/// What the lines of a block list look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListFormat {
    /// Any of the others, line by line.
    #[default]
    Auto,
    /// `0.0.0.0 name`: the name alone.
    Hosts,
    /// `name`: the name and everything below it.
    Domains,
    /// `||name^`: the name and everything below it; `@@||name^`: not those.
    Adblock,
}

/// What a blocked name is answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockAction {
    /// NXDOMAIN: there is no such name.
    #[default]
    Nxdomain,
    /// NOERROR without records.
    Nodata,
    /// REFUSED.
    Refused,
    /// The addresses 0.0.0.0 and ::.
    Null,
    /// Nothing.
    Drop,
}

/// `[control]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The unix socket that `pmdns stats`, `top` and `profile` ask.
    pub socket: PathBuf,
}

/// `[metrics]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Address and port that OpenMetrics are served at over HTTP; absent: nowhere.
    pub listen: Option<SocketAddr>,
}

impl Upstream {
    /// A resolver at this address, with the default of everything else.
    pub fn at(address: UpstreamAddress) -> Self {
        Self {
            address,
            timeout_ms: upstream_timeout_ms(),
            source: None,
            group: default_group(),
            mix_case: false,
            name: None,
            pin: Vec::new(),
            ca_file: None,
        }
    }
}

impl Default for Eal {
    fn default() -> Self {
        Self { args: vec!["--no-pci".into()] }
    }
}

impl Default for Frames {
    fn default() -> Self {
        Self { count: 0, batch: 32, ring: 1024 }
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self { max_udp_size: 1232, minimal_any: true, nsid: None, identity: None, version: None }
    }
}

impl Default for Cookies {
    fn default() -> Self {
        Self {
            enabled: true,
            secret: None,
            accepted_secret: None,
            secret_file: None,
            require: false,
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            size: ByteSize::mebibytes(64),
            pages: Pages::Auto,
            numa_node: None,
            min_ttl: 0,
            max_ttl: 86_400,
            max_negative_ttl: 300,
            max_negative_share: 0.25,
            serve_stale: true,
            stale_window: 86_400,
            stale_ttl: 30,
            stale_client_timeout_ms: 1800,
            stale_backoff: 30,
            eviction: Eviction::HitRate,
            nxdomain_cut: false,
            snapshot: None,
            snapshot_interval: 3600,
        }
    }
}

impl Default for Prefetch {
    fn default() -> Self {
        Self {
            enabled: false,
            cache_min_frequency: 10,
            cache_min_hit_rate: 2.0,
            cache_access_window_secs: 43_200,
            cache_refresh_threshold: 0.75,
            queries_per_second: 100,
            pace_ms: 100,
        }
    }
}

impl Default for SlowPath {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: Vec::new(),
            ring: 4096,
            deadline_ms: 3000,
            max_pending: 16_384,
            max_waiting: 65_536,
            max_waiting_per_client: 256,
            queries_per_port: MAX_QUERIES_PER_PORT,
            bootstrap: Vec::new(),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self { failures: 3, successes: 2, interval_ms: 30_000, timeout_ms: 2000 }
    }
}

impl Default for Acl {
    fn default() -> Self {
        Self { default: Access::Allow, allow: Vec::new(), refuse: Vec::new(), drop: Vec::new() }
    }
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            queries_per_second: 0,
            burst: 500,
            ipv4_prefix: 24,
            ipv6_prefix: 56,
            slip: 2,
            exempt_valid_cookies: true,
            table: 65_536,
            exempt: Vec::new(),
            dry_run: false,
            miss_queries_per_second: 0,
            miss_burst: 200,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self { special_use: true, auto_ptr: false }
    }
}

impl Default for Control {
    fn default() -> Self {
        Self { socket: "/run/pmdns.sock".into() }
    }
}

fn dns_port() -> u16 {
    53
}

fn descriptors() -> u16 {
    1024
}

fn link_wait_ms() -> u64 {
    3000
}

fn upstream_timeout_ms() -> u64 {
    800
}

fn default_group() -> String {
    DEFAULT_GROUP.into()
}

fn parallel() -> usize {
    2
}

fn whole_line() -> Stretch {
    Stretch::ALL
}

fn yes() -> bool {
    true
}
