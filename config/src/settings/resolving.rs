//! The upstreams, and how they are asked.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

use crate::limits::MAX_QUERIES_PER_PORT;
use crate::pin::Pin;
use crate::reserved::DEFAULT_GROUP;
use crate::upstream::{Host, UpstreamAddress};

/// `[slowpath]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlowPathSettings {
    /// Threads that resolve misses; each owns a share of the keys. Absent: one. Cores that resolve replace them.
    pub threads: Option<usize>,
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
    /// Queries of one client address waiting for upstream; those of one client prefix may be four times as many.
    pub max_waiting_per_client: usize,
    /// Queries that may leave together from one random UDP port; 1: a port for every query.
    pub queries_per_port: usize,
    /// Resolvers that upstreams' names are looked up at, over UDP.
    pub bootstrap: Vec<SocketAddr>,
}

impl Default for SlowPathSettings {
    fn default() -> Self {
        Self {
            threads: None,
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

/// `[[upstream]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Address and port of the resolver, for example `"192.0.2.53:53"` or `"[2001:db8::53]:53"`; or where it
    /// answers over TLS, HTTPS or QUIC, for example `"tls://192.0.2.53"`.
    pub address: UpstreamAddress,
    /// How long to wait for a reply before the question is asked again, until the upstream has replied once.
    #[serde(default = "upstream_timeout_ms")]
    pub timeout_ms: u64,
    /// Source address of our queries; absent: the kernel chooses.
    pub source: Option<IpAddr>,
    /// The `[[port]]` that queries over UDP leave by, from its query sources; absent: a socket of the kernel.
    pub port: Option<String>,
    /// The group it belongs to.
    #[serde(default = "default_group")]
    pub group: String,
    /// Its share of the questions of a group with the strategy `round_robin`, in proportion to the weights of the others.
    #[serde(default = "weight")]
    pub weight: u32,
    /// Write the letters of our queries large or small at random, and accept replies with the same only.
    #[serde(default = "mix_case")]
    pub mix_case: bool,
    /// Send it DNS cookies, and accept no reply without one once it has sent its own.
    #[serde(default = "cookies")]
    pub cookies: bool,
    /// Believe it that it has checked signatures, although others could say so in its name.
    #[serde(default)]
    pub trust_ad: bool,
    /// It is sent the networks of clients, as `[client_subnet]` says.
    #[serde(default)]
    pub client_subnet: bool,
    /// The name or address that the certificate must be for; absent: the host of `address`.
    pub name: Option<Host>,
    /// Fingerprints of public keys, one of which the server must have.
    #[serde(default)]
    pub pin: Vec<Pin>,
    /// A PEM file of the certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// An operator has said at run time that it gets no new questions. No file can say that.
    #[serde(skip)]
    pub is_drained: bool,
}

impl Upstream {
    /// A resolver at this address, with the default of everything else.
    pub fn at(address: UpstreamAddress) -> Self {
        Self {
            address,
            timeout_ms: upstream_timeout_ms(),
            source: None,
            port: None,
            group: default_group(),
            weight: weight(),
            mix_case: mix_case(),
            cookies: cookies(),
            trust_ad: false,
            client_subnet: false,
            name: None,
            pin: Vec::new(),
            ca_file: None,
            is_drained: false,
        }
    }

    /// Whether both are the same resolver, asked the same way for the same group. The rest can differ.
    pub fn is_asked_as(&self, other: &Self) -> bool {
        let way = |one: &Self| {
            let Self { address, source, port, group, name, pin, ca_file, .. } = one.clone();
            (address.to_string(), source, port, group, name, pin, ca_file)
        };
        way(self) == way(other)
    }
}

/// `[[group]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name that its upstreams give as their `group`.
    pub name: String,
    /// Which of them to ask.
    #[serde(default)]
    pub strategy: Strategy,
    /// Upstreams asked at once, if the strategy is `parallel`.
    #[serde(default = "parallel")]
    pub parallel: usize,
}

/// Which upstream of a group to ask. Upstreams that rest come after all others, whatever the strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The first of the file, unless another one is faster by 20 ms or more.
    #[default]
    Failover,
    /// Each in turn, as often as its weight says.
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
    /// The views it holds in; none: all.
    #[serde(default)]
    pub views: Vec<String>,
}

/// `[health]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthSettings {
    /// Failures in a row after which an upstream rests.
    pub failures: u32,
    /// Replies in a row after which it is well again.
    pub successes: u32,
    /// How long after the beginning of its rest it is probed; the pause doubles with each probe that fails.
    pub interval_ms: u64,
    /// How long to wait for the reply to a probe.
    pub timeout_ms: u64,
    /// How long a healthy upstream may be silent before it is probed as well; 0: for ever.
    pub silence_ms: u64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { failures: 3, successes: 2, interval_ms: 30_000, timeout_ms: 2000, silence_ms: 0 }
    }
}

fn cookies() -> bool {
    true
}

fn mix_case() -> bool {
    true
}

fn upstream_timeout_ms() -> u64 {
    800
}

fn default_group() -> String {
    DEFAULT_GROUP.into()
}

fn weight() -> u32 {
    1
}

fn parallel() -> usize {
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_mixed_unless_the_operator_says_otherwise() {
        let read = |rest: &str| {
            let text = format!("address = \"192.0.2.53:53\"\n{rest}");
            toml::from_str::<Upstream>(&text).unwrap().mix_case
        };
        assert!(read("") && Upstream::at("192.0.2.53:53".parse().unwrap()).mix_case);
        assert!(!read("mix_case = false"));
    }
}
