//! The keys of the TOML, field for field, with every default.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::local::Local;
use crate::prefix::Prefix;

mod answers;
mod anycast;
mod api;
mod cache;
mod derived;
mod dnssec;
mod hitters;
mod policy;
mod ports;
mod query_log;
mod resolving;
mod streams;
mod synthesis;
mod transfer;

pub use answers::*;
pub use anycast::*;
pub use api::*;
pub use cache::*;
pub use dnssec::*;
pub use hitters::*;
pub use policy::*;
pub use ports::*;
pub use query_log::*;
pub use resolving::*;
pub use streams::*;
pub use synthesis::*;
pub use transfer::*;

/// Everything an operator can say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Arguments for DPDK's environment abstraction layer.
    pub eal: EalSettings,
    /// The ports to poll, in order. At least one.
    #[serde(rename = "port")]
    pub ports: Vec<PortSettings>,
    /// Which cores run which stretch of the line. None: one core runs it all.
    #[serde(rename = "placement")]
    pub placements: Vec<Placement>,
    /// Packet buffers and batches.
    pub frames: Frames,
    /// How much goes from ports to the kernel.
    pub exceptions: Exceptions,
    /// The form of answers.
    pub answers: AnswerSettings,
    /// How clients show that they are at the address they send from.
    pub cookies: CookieSettings,
    /// The networks of clients that upstreams are told of.
    pub client_subnet: ClientSubnet,
    /// The answer cache.
    pub cache: CacheSettings,
    /// Asking for popular answers before they expire.
    pub prefetch: Prefetch,
    /// The threads that ask upstream.
    pub slowpath: SlowPathSettings,
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
    pub health: HealthSettings,
    /// Whether answers are validated, and from where.
    pub dnssec: Dnssec,
    /// The clients that may ask.
    pub acl: AclSettings,
    /// Groups of clients with rules and upstreams of their own.
    #[serde(rename = "view")]
    pub views: Vec<View>,
    /// The scopes of the views, if a reload has arranged them ([`Config::following`]).
    #[serde(skip)]
    pub scopes: Vec<u8>,
    /// Prefixes with a view each, which change at run time.
    pub clients: ClientSettings,
    /// How fast one client may ask.
    pub ratelimit: RateLimitSettings,
    /// Records answered from this file, authoritatively.
    #[serde(rename = "local")]
    pub local: Vec<Local>,
    /// Names answered with NXDOMAIN.
    pub block: BlockSettings,
    /// Answers that need no configuration.
    pub policy: PolicySettings,
    /// ZoneFile files, answered from authoritatively.
    #[serde(rename = "zone")]
    pub zones: Vec<ZoneFile>,
    /// Files of names that are blocked.
    #[serde(rename = "blocklist")]
    pub blocklists: Vec<Blocklist>,
    /// Response policy zones; the first that has a rule decides.
    pub rpz: Vec<Rpz>,
    /// Prefixes under which IPv6 clients reach IPv4 hosts.
    pub dns64: Vec<Dns64Settings>,
    /// Addresses for names that do not exist.
    #[serde(rename = "redirect")]
    pub redirects: Vec<Redirect>,
    /// Addresses that public names do not lead to.
    #[serde(rename = "rebinding")]
    pub rebindings: Vec<Rebinding>,
    /// Keys that messages to and from primaries are signed with.
    pub tsig: Vec<Tsig>,
    /// Where primaries tell of new versions of their zones.
    pub transfer: Transfer,
    /// Clients over TCP, TLS, HTTPS and QUIC.
    pub streams: Streams,
    /// How to talk to a running instance.
    pub control: Control,
    /// The HTTP API.
    pub api: Api,
    /// Tokens of clients of the API.
    #[serde(rename = "token")]
    pub tokens: Vec<Token>,
    /// The query log and its sinks.
    pub query_log: QueryLogSettings,
    /// Heavy hitters, and limits on zones.
    pub hitters: HitterSettings,
    /// Where monitoring reads the counters.
    pub metrics: Metrics,
    /// Whether this node is fit to serve, and what tells routers so.
    pub anycast: Anycast,
    /// Whether another node has the addresses at first.
    pub standby: Standby,
    /// The privileges of the process once it serves.
    pub process: Process,
}

/// `[control]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The unix socket that `pmdns stats`, `top` and `profile` ask.
    pub socket: PathBuf,
    /// The group whose members may ask there as well, by name or number; absent: root and pmdns's own user alone.
    pub group: Option<String>,
    /// The file that keeps what operators change at run time; absent: their changes end with the process.
    pub entries: Option<PathBuf>,
    /// The file that the packets of the last crashes are written to, after each; absent: they are in memory alone.
    pub crashes: Option<PathBuf>,
    /// The folder that lists added at run time are kept in; absent: none can be added.
    pub lists: Option<PathBuf>,
    /// Networks without public addresses from which such lists may be fetched.
    pub list_networks: Vec<Prefix>,
}

/// `[metrics]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Address and port that OpenMetrics are served at over HTTP; absent: nowhere.
    pub listen: Option<SocketAddr>,
}

/// `[process]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// Whether privileges are dropped once everything is open.
    pub privileges: Privileges,
}

/// How privileges are handled after start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Privileges {
    /// They are given up.
    #[default]
    Drop,
    /// They stay.
    Keep,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            socket: "/run/pmdns/control.sock".into(),
            group: None,
            entries: None,
            crashes: None,
            lists: None,
            list_networks: Vec::new(),
        }
    }
}
