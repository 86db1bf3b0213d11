//! The clients that may ask, and the local answers.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

use crate::prefix::Prefix;
use crate::upstream::UpstreamAddress;

/// `[acl]`: the longest matching prefix decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AclSettings {
    /// The access of clients that no prefix matches.
    pub default: Access,
    /// Prefixes that may ask.
    pub allow: Vec<Prefix>,
    /// Prefixes answered with REFUSED.
    pub refuse: Vec<Prefix>,
    /// Prefixes not answered at all.
    pub drop: Vec<Prefix>,
}

impl Default for AclSettings {
    fn default() -> Self {
        // A resolver that answers all clients amplifies attacks, so the operator has to list the clients.
        Self { default: Access::Refuse, allow: Vec::new(), refuse: Vec::new(), drop: Vec::new() }
    }
}

impl AclSettings {
    /// The list by which every client may ask.
    pub fn open() -> Self {
        Self { default: Access::Allow, ..Self::default() }
    }

    /// Whether every client of a family may ask that no other prefix speaks of.
    pub fn is_open(&self) -> bool {
        self.default == Access::Allow || self.allow.iter().any(|prefix| prefix.length == 0)
    }
}

/// The access of a client, by the access list.
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

/// `[[view]]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The name that other tables give as one of their `views`.
    pub name: String,
    /// Prefixes of the clients in it; the longest matching prefix of all views decides. With a table of `[clients]` there may be
    /// none.
    #[serde(default)]
    pub clients: Vec<Prefix>,
    /// The group that is asked for names that no `[[forward]]` claims; absent: the default group.
    pub group: Option<String>,
    /// Queries per second and client prefix; 0 is no limit; absent: as `ratelimit.queries_per_second`.
    pub queries_per_second: Option<u32>,
    /// Queries a client prefix may send at once after a pause; absent: as `ratelimit.burst`.
    pub burst: Option<u32>,
}

/// `[clients]`: prefixes of clients with a view each, which change while queries are answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSettings {
    /// Prefixes in the table at most; 0: there is no table.
    pub max_entries: u32,
    /// A file of lines `PREFIX VIEW`, read at start and by a reload; absent: none.
    pub file: Option<PathBuf>,
    /// The file that keeps changes of run time; absent: they end with the process.
    pub journal: Option<PathBuf>,
}

/// `[ratelimit]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitSettings {
    /// Queries per second and client prefix; 0 turns the limit off.
    pub queries_per_second: u32,
    /// Queries a client prefix may send at once after a pause.
    pub burst: u32,
    /// IPv4 clients with the same leading bits share one limit.
    pub ipv4_prefix: u8,
    /// IPv6 clients with the same leading bits share one limit.
    pub ipv6_prefix: u8,
    /// Leading bits of the source port that tell IPv4 clients apart.
    pub ipv4_port_bits: u8,
    /// Prefixes of the addresses of CGNATs, behind which they do.
    pub ipv4_port_prefixes: Vec<Prefix>,
    /// Every `slip`-th query over the limit gets an empty answer with TC=1 instead of nothing; 0: none.
    pub slip: u32,
    /// Clients with a right cookie (RFC 7873) are not limited: their address cannot be forged.
    pub exempt_valid_cookies: bool,
    /// Client prefixes remembered by each core; a power of two.
    pub table: u32,
    /// Accept several RX queues on a port that does not keep a client on one: each core grants it its limit.
    pub per_core: bool,
    /// Prefixes that no limit holds for.
    pub exempt: Vec<Prefix>,
    /// Count queries over a limit, and let them pass.
    pub dry_run: bool,
    /// Queries per second and client prefix that the cache cannot answer; 0 turns this limit off.
    pub miss_queries_per_second: u32,
    /// Such queries a client prefix may send at once after a pause.
    pub miss_burst: u32,
    /// Error replies per second and client prefix; 0 turns this limit off.
    pub error_replies_per_second: u32,
}

impl Default for RateLimitSettings {
    fn default() -> Self {
        Self {
            queries_per_second: 0,
            burst: 500,
            ipv4_prefix: 24,
            ipv6_prefix: 56,
            ipv4_port_bits: 0,
            ipv4_port_prefixes: Vec::new(),
            slip: 2,
            exempt_valid_cookies: true,
            table: 65_536,
            per_core: false,
            exempt: Vec::new(),
            dry_run: false,
            miss_queries_per_second: 0,
            miss_burst: 200,
            error_replies_per_second: 100,
        }
    }
}

/// `[block]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockSettings {
    /// Names answered with NXDOMAIN, each with everything below it.
    pub names: Vec<String>,
    /// Names that neither `names` nor a list blocks, each with everything below it.
    pub except: Vec<String>,
}

/// `[policy]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// Answer special-use names (RFC 6761) and private reverse zones (RFC 6303) here.
    pub special_use: bool,
    /// A PTR record for every local address record.
    pub auto_ptr: bool,
    /// Views in which browsers are asked not to use a resolver of their own over HTTPS.
    pub doh_canary: Vec<String>,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self { special_use: true, auto_ptr: false, doh_canary: Vec::new() }
    }
}

/// `[[zone]]`: a zone file (RFC 1035 section 5).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneFile {
    /// The file.
    pub file: PathBuf,
    /// The origin of names without a trailing dot; absent: the root, or that of `$ORIGIN`.
    pub origin: Option<String>,
    /// The views it holds in; none: all.
    #[serde(default)]
    pub views: Vec<String>,
}

/// `[[blocklist]]`: a file of names that are blocked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocklist {
    /// The file.
    pub file: PathBuf,
    /// The format of its lines.
    #[serde(default)]
    pub format: ListFormat,
    /// The answer.
    #[serde(default)]
    pub action: BlockAction,
    /// Why clients do not get what they ask for, as they are told; absent: the names are blocked.
    pub extended_error: Option<ListReason>,
    /// The same for people; absent: nothing.
    pub text: Option<String>,
    /// The views it holds in; none: all.
    #[serde(default)]
    pub views: Vec<String>,
    /// Where it is fetched from; absent: its file is the operator's.
    pub url: Option<UpstreamAddress>,
    /// The address of the server; absent: the system's resolver is asked.
    pub address: Option<IpAddr>,
    /// The certificates that the server's is checked with; absent: those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// How often it is fetched; absent: once a day.
    pub refresh_seconds: Option<u64>,
}

/// Why a list or policy zone denies a name (RFC 8914 sections 4.16 to 4.19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListReason {
    /// The operator wants it so.
    #[default]
    Blocked,
    /// Others, such as a court, demand it of the operator.
    Censored,
    /// The client has asked for it.
    Filtered,
    /// The client may not ask for it.
    Prohibited,
}

/// `[[rpz]]`: a response policy zone (draft-vixie-dnsop-dns-rpz-00).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rpz {
    /// Its zone file; with primaries, where the version is kept that was transferred last.
    pub file: PathBuf,
    /// The origin of names without a trailing dot; absent: the root, or that of `$ORIGIN`.
    pub origin: Option<String>,
    /// Its name at the primaries.
    pub zone: Option<String>,
    /// Servers that it is transferred from, in the order they are asked; none: it is a file of the operator's.
    #[serde(default)]
    pub primaries: Vec<SocketAddr>,
    /// The name of the key that messages to and from them are signed with.
    pub tsig: Option<String>,
    /// How queries are answered until a version has been transferred.
    #[serde(default)]
    pub absent: Absent,
    /// Why clients do not get what they ask for, as they are told; absent: the names are blocked.
    pub extended_error: Option<ListReason>,
    /// The same for people; absent: nothing.
    pub text: Option<String>,
    /// The views it holds in; none: all.
    #[serde(default)]
    pub views: Vec<String>,
    /// A rule that cannot be used makes the zone unusable, instead of being left out.
    #[serde(default)]
    pub strict: bool,
}

/// How queries are answered in the views of a policy zone that was never transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Absent {
    /// SERVFAIL: rules that are not known let nothing pass.
    #[default]
    Servfail,
    /// They are answered as without the zone.
    Pass,
}

/// The format of a block list's lines.
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

/// The answer for a blocked name.
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
