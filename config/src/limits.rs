//! Every bound on the settings of an operator, named once.
//!
//! Other crates size their arrays and tables by these, so a configuration that loads also fits.

use crate::size::ByteSize;

/// The largest configuration file that is read, in bytes; a block list of a million names fits.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
/// Mistakes of a configuration that are told at once.
pub const MAX_MISTAKES: usize = 20;

/// Ports one process polls.
pub const MAX_PORTS: usize = 16;
/// Characters in the name of a port or a group: names become labels.
pub const MAX_NAME: usize = 32;
/// Addresses of ours on one port.
pub const MAX_ADDRESSES: usize = 1024;
/// Addresses that one port asks upstreams from.
pub const MAX_PORT_QUERY_SOURCES: usize = 16;
/// The same, over all ports: each has a table of 65,536 UDP ports.
pub const MAX_QUERY_SOURCES: usize = 64;
/// Gateways of one port.
pub const MAX_GATEWAYS: usize = 8;
/// VLANs of a port.
pub const MAX_VLANS: usize = 64;
/// VLAN ids: 0 is none, 4095 is reserved (IEEE 802.1Q section 9.6).
pub const VLAN_IDS: (u16, u16) = (1, 4094);
/// Characters in the name of an interface (`IFNAMSIZ` without the closing zero).
pub const MAX_INTERFACE_NAME: usize = 15;
/// Rules of a device that say which frames are ours: one for each address in each VLAN.
pub const MAX_FLOW_RULES: usize = 4096;
/// The highest rate of packets for the kernel, in packets a second.
pub const MAX_EXCEPTION_RATE: u32 = 100_000_000;
/// The fewest descriptors in a queue: one full batch.
pub const MIN_DESCRIPTORS: u16 = 64;
/// The most descriptors in a queue.
pub const MAX_DESCRIPTORS: u16 = 32_768;
/// The longest wait for a link at start, in milliseconds.
pub const MAX_LINK_WAIT_MS: u64 = 600_000;

/// Data cores, over all placements.
pub const MAX_WORKERS: usize = 64;
/// The highest CPU number: what the kernel's `cpu_set_t` can name.
pub const MAX_CORE: usize = 1023;

/// The most packets in hand at a time.
pub const MAX_BATCH: u16 = 64;
/// The fewest slots in a ring: one full batch.
pub const MIN_RING: u32 = MAX_BATCH as u32;
/// The most slots in a ring.
pub const MAX_RING: u32 = 65_536;
/// The smallest frame pool that can be asked for; 0 stands for "compute it".
pub const MIN_FRAMES: u32 = 256;
/// The largest frame pool, in frames: about 8 GiB of buffers.
pub const MAX_FRAMES: u32 = 4_194_304;

/// Bytes of one packet buffer, headroom included.
pub const FRAME_BYTES: u16 = 2048;
/// Bytes kept free before a frame (DPDK's RTE_PKTMBUF_HEADROOM).
pub const HEADROOM_BYTES: u16 = 128;
/// The longest run of headers before an answer: Ethernet, two VLAN tags, IPv6, UDP.
pub const MAX_HEADER_BYTES: u16 = 14 + 2 * 4 + 40 + 8;
/// The least a DNS message may be limited to (RFC 1035 section 4.2.1).
pub const MIN_UDP_SIZE: u16 = 512;
/// The largest answer that is sure to fit a buffer behind its headers, with room to spare.
pub const MAX_UDP_SIZE: u16 = 1680;
const _: () = assert!(HEADROOM_BYTES + MAX_HEADER_BYTES + MAX_UDP_SIZE <= FRAME_BYTES);

/// Bytes in the name given to clients that ask for it in their OPT record.
pub const MAX_NSID: usize = 128;
/// Bytes in one string of a TXT record (RFC 1035 section 3.3).
pub const MAX_TEXT: usize = 255;

/// Answers kept at once that are for one network only.
pub const MAX_SUBNET_ANSWERS: usize = 1 << 24;

/// The smallest cache.
pub const MIN_CACHE: ByteSize = ByteSize::mebibytes(1);
/// The largest cache: 1 TiB.
pub const MAX_CACHE: ByteSize = ByteSize::mebibytes(1 << 20);
/// The highest NUMA node number a kernel can have.
pub const MAX_NUMA_NODE: u32 = 1023;
/// The largest TTL, in seconds: the top bit is not used (RFC 2181 section 8).
pub const MAX_TTL: u32 = (1 << 31) - 1;
/// The longest TTL of an expired answer, and the longest back-off, in seconds.
pub const MAX_STALE_SECONDS: u32 = 3600;
/// The shortest time between two snapshots, in seconds.
pub const MIN_SNAPSHOT_SECONDS: u64 = 10;
/// The longest time between two snapshots, in seconds: a week.
pub const MAX_SNAPSHOT_SECONDS: u64 = 604_800;

/// The highest hit rate that prefetching may ask for, in hits per minute.
pub const MAX_HIT_RATE: f64 = 1e9;
/// The largest budget of prefetching, in queries per second.
pub const MAX_PREFETCH_RATE: u32 = 1_000_000;

/// Slow-path threads. All cores may resolve.
pub const MAX_SLOWPATH_THREADS: usize = MAX_WORKERS;
/// The longest a client may be kept waiting, and the longest wait for one upstream, in milliseconds.
pub const MAX_TIMEOUT_MS: u64 = 60_000;
/// Questions or queries that may wait for upstream: the tables are taken at start.
pub const MAX_PENDING: usize = 1 << 24;
/// Queries that may leave together from one UDP port.
pub const MAX_QUERIES_PER_PORT: usize = 32;
/// Upstream resolvers.
pub const MAX_UPSTREAMS: usize = 64;
/// The largest weight of an upstream.
pub const MAX_WEIGHT: u32 = 100;
/// Fingerprints of one upstream.
pub const MAX_PINS: usize = 16;
/// Resolvers that upstreams' names are looked up at.
pub const MAX_BOOTSTRAP: usize = 8;
/// The fewest upstreams that `parallel` asks at once; one alone is not parallel.
pub const MIN_PARALLEL: usize = 2;
/// The most: half the tries that a question has, so that each may be asked over TCP as well.
pub const MAX_PARALLEL: usize = 4;
/// Forward zones.
pub const MAX_FORWARDS: usize = 65_536;
/// Names that are not validated.
pub const MAX_NEGATIVE_ANCHORS: usize = 256;
/// Failures until an upstream rests, and replies until it is well again.
pub const MAX_IN_A_ROW: u32 = 100;
/// The shortest pause between health checks, in milliseconds.
pub const MIN_HEALTH_INTERVAL_MS: u64 = 20;
/// The shortest time that a health check waits for a data core, in milliseconds. Data cores look for checks every 10 ms.
pub const MIN_HEALTH_TIMEOUT_MS: u64 = 50;
/// Addresses that routers hear of.
pub const MAX_ANYCAST_ADDRESSES: usize = 64;
/// The shortest pause between probes, in milliseconds.
pub const MIN_PROBE_INTERVAL_MS: u64 = 100;
/// The longest pause between probes, in milliseconds, however long an outage lasts.
pub const MAX_PROBE_INTERVAL_MS: u64 = 300_000;

/// The fewest client prefixes in a core's rate-limit table.
pub const MIN_RATE_TABLE: u32 = 16;
/// The most client prefixes in a core's rate-limit table.
pub const MAX_RATE_TABLE: u32 = 1 << 24;

/// Characters in the path of DNS over HTTPS: the length of a parameter of SVCB records that it is a part of has a bound.
pub const MAX_HTTPS_PATH: usize = 128;
/// Prefixes of proxies in front of streams.
pub const MAX_PROXIES: usize = 64;
/// Addresses of one transport of streams.
pub const MAX_LISTENERS: usize = 64;
/// Threads that serve connections.
pub const MAX_STREAM_THREADS: usize = 16;
/// Connections of clients.
pub const MAX_CONNECTIONS: usize = 1 << 20;
/// Queries under way of all connections: each has a buffer of 64 KiB.
pub const MAX_STREAM_QUERIES: usize = 65_536;
/// Queries under way of one connection: each is looked at when another ends.
pub const MAX_IN_FLIGHT: usize = 1024;
/// Queries of one connection.
pub const MAX_CONNECTION_QUERIES: u64 = 1 << 40;
/// The fewest bytes that answers may wait in: the longest answer and its length.
pub const MIN_STREAM_BUFFER: ByteSize = ByteSize(64 << 10);
/// The most.
pub const MAX_STREAM_BUFFER: ByteSize = ByteSize::mebibytes(1 << 14);

/// Bytes in a unix socket's path, without the closing zero (`sockaddr_un`).
pub const MAX_SOCKET_PATH: usize = 107;

/// Tokens of the API.
pub const MAX_TOKENS: usize = 64;
/// The fewest characters of such a token.
pub const MIN_TOKEN: usize = 32;
/// Names by which the API is asked.
pub const MAX_API_HOSTS: usize = 16;
/// Requests a second of one address or token.
pub const MAX_API_RATE: u32 = 1_000_000;
/// Names that are blocked or allowed at run time.
pub const MAX_ENTRIES: usize = 100_000;
/// Local records of run time.
pub const MAX_RECORDS: usize = 10_000;
/// The smallest file of a query log, so that files do not change all the time.
pub const MIN_LOG_FILE: ByteSize = ByteSize(64 << 10);
/// The largest.
pub const MAX_LOG_FILE: ByteSize = ByteSize::mebibytes(1 << 20);
/// Full files of a query log that are kept.
pub const MAX_LOG_FILES: u32 = 999;
/// Days for which a query log is kept: ten years.
pub const MAX_LOG_DAYS: u32 = 3660;
/// The fewest queries that a database keeps.
pub const MIN_LOG_ROWS: u64 = 1000;
/// The most.
pub const MAX_LOG_ROWS: u64 = 1 << 40;
/// The rarest sample of queries.
pub const MAX_LOG_SAMPLE: u32 = 1 << 30;
/// The fewest keys of a table of heavy hitters.
pub const MIN_HITTER_KEYS: u32 = 64;
/// The most: with names of full length 600 MiB in all windows of all tables.
pub const MAX_HITTER_KEYS: u32 = 16_384;
/// The most different names a second that may be asked of a flood. More are estimated worse.
pub const MAX_FLOOD_NAMES: u32 = 1_000_000;
/// Zones that are limited at once. Each miss is compared with all.
pub const MAX_ZONE_LIMITS: usize = 64;
/// The highest limit of a zone, in misses a second.
pub const MAX_ZONE_RATE: u32 = 1_000_000;
/// The longest time that a limit of a zone has an end.
pub const MAX_LIMIT_SECONDS: u32 = 31 * 86_400;
/// The fewest slots in a ring of records: the longest record fits many times.
pub const MIN_LOG_RING: u32 = 1024;
/// The most: 256 MiB.
pub const MAX_LOG_RING: u32 = 1 << 22;

/// Views, besides that of clients that are in none: with it they are five bits of a cache key.
pub const MAX_VIEWS: usize = 31;
/// Prefixes of the client table: 256 MiB of it.
pub const MAX_CLIENTS: u32 = 1 << 24;
/// Zone files.
pub const MAX_ZONES: usize = 1024;
/// Block lists.
pub const MAX_BLOCKLISTS: usize = 64;
/// Networks that lists of run time may come from.
pub const MAX_LIST_NETWORKS: usize = 64;
/// Response policy zones.
pub const MAX_RPZ: usize = 64;
/// Prefixes of DNS64; answers have an AAAA record for each that holds in a view.
pub const MAX_DNS64: usize = 16;
/// Prefixes that one of them excludes, of either kind.
pub const MAX_EXCLUDED: usize = 256;
/// Redirections of names that do not exist.
pub const MAX_REDIRECTS: usize = 8;
/// Addresses of one of them.
pub const MAX_REDIRECT_ADDRESSES: usize = 8;
/// The longest TTL of these addresses, in seconds: a name that is registered today is to be reached soon.
pub const MAX_REDIRECT_TTL: u32 = 3600;
/// Tables of addresses that public names do not lead to.
pub const MAX_REBINDINGS: usize = 16;
/// Prefixes of one of them.
pub const MAX_REBINDING_ADDRESSES: usize = 256;
/// Bytes of a text that explains to clients why a list or policy zone denies a name.
pub const MAX_REASON: usize = 128;
/// Servers that a zone is transferred from.
pub const MAX_PRIMARIES: usize = 8;
/// Keys that transfers are signed with.
pub const MAX_TSIG: usize = 64;
/// The fewest bytes of such a key.
pub const MIN_TSIG_SECRET: usize = 8;
/// The most.
pub const MAX_TSIG_SECRET: usize = 512;
/// Bytes of a file with a secret that are read.
pub const MAX_SECRET_FILE: u64 = 4096;
/// The largest zone file or block list that is read, in bytes: 16 million names fit.
pub const MAX_LIST_BYTES: u64 = 1 << 30;
/// The longest line of a block list, in bytes.
pub const MAX_LIST_LINE: usize = 4096;
/// Names in all block lists together.
pub const MAX_LIST_NAMES: usize = 1 << 24;

/// How often a list may be fetched, in seconds.
pub const MIN_LIST_REFRESH_SECONDS: u64 = 60;
/// How seldom.
pub const MAX_LIST_REFRESH_SECONDS: u64 = 30 * 86_400;

/// Leading bits of source ports in `ratelimit.ipv4_port_bits`: blocks of 256 ports and more.
pub const MAX_PORT_BITS: u8 = 8;
/// Prefixes in `ratelimit.ipv4_port_prefixes`.
pub const MAX_PORT_PREFIXES: usize = 8;
