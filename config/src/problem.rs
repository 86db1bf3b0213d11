//! The rules that hold beyond types, each as the sentence an operator reads when it is broken.
//!
//! The texts go on after the key: "line 3: `frames.ring` is 100; allowed: ...".

use std::fmt::Display;
use std::net::IpAddr;
use std::path::Path;

use crate::error::meant;
use crate::limits::{MAX_HTTPS_PATH, MAX_NAME};
use crate::name::NameError;
use crate::placement::PlacementError;
use crate::prefix::Prefix;
use crate::reserved::{DEFAULT_GROUP, DEFAULT_VIEW};

/// Which rule is broken, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenRule {
    /// A number is beyond its bounds.
    #[error("is {value}; allowed: {min} to {max}")]
    OutOfRange {
        /// What was written.
        value: String,
        /// The least that is allowed.
        min: String,
        /// The most that is allowed.
        max: String,
    },
    /// A size that masks are made from.
    #[error("is {value}; allowed: powers of two, so write {nearest}")]
    NoPowerOfTwo {
        /// What was written.
        value: u64,
        /// The next power of two within bounds.
        nearest: u64,
    },
    /// A list that cannot be fetched.
    #[error(
        "is not the address of a list; write https://, a host and a path, as in \"https://lists.example/ads.txt\""
    )]
    ListUrl,
    /// A key that means something only for a list that is fetched.
    #[error("needs a url; add `url`, or leave it out")]
    NeedsUrl,
    /// A folder whose files come and go has a file that stays.
    #[error("is the folder of {0} too; name one for lists of run time alone")]
    SharedFolder(String),
    /// A list is longer than the table made for it.
    #[error("has {count} {what}; allowed: at most {max}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// What they are.
        what: &'static str,
        /// The most that is allowed.
        max: usize,
    },
    /// A table that has to be there is not.
    #[error("is missing: add {0}")]
    None(&'static str),
    /// A text is empty that means something.
    #[error("is empty; write {0}")]
    Empty(&'static str),
    /// The same thing is said in two places.
    #[error("is {value}, as is `{other}` already; {fix}")]
    Twice {
        /// What was written.
        value: String,
        /// Path of the key that said it first.
        other: String,
        /// What to do.
        fix: &'static str,
    },
    /// Arguments and devices that DPDK refuses, or takes for something else.
    #[error("{0}")]
    Dpdk(String),
    /// DPDK takes C strings.
    #[error("has a zero byte in it, which no DPDK argument can have; leave it out")]
    ZeroByte,
    /// The kernel takes no such name for an interface.
    #[error(
        "is `{0}`; an interface has a name of 1 to {max} letters, digits, `-` and `_`, so write one, as in \"pm-edge\"",
        max = crate::limits::MAX_INTERFACE_NAME
    )]
    InterfaceName(String),
    /// The name of health checks is no name.
    #[error("cannot be asked for: {0}")]
    ProbeName(NameError),
    /// Routers would lead clients to an address that nobody answers for.
    #[error("is {0}, which no [[port]] has in its `addresses`; add it there, or remove it here")]
    NotServed(IpAddr),
    /// A file has no host behind it.
    #[error(
        "is `{0}`, but the device `replay` reads a file, and no host is behind it; remove the key"
    )]
    TapOfReplay(String),
    /// There is nothing that a route could lead by, or to; or this device cannot be shared, or not with another setting.
    #[error("is true, but {0}")]
    Impossible(&'static str),
    /// DPDK compares the beginnings of names only.
    #[error(
        "is `{name}`, which DPDK takes for {driver}; write the driver's name and a number, as in {driver}0"
    )]
    OtherDriver {
        /// The device's name as written.
        name: String,
        /// The driver that would get it.
        driver: &'static str,
    },
    /// A port's address is no address.
    #[error("has mac={0}, which is no MAC address; write six bytes, as in mac=02:00:00:00:00:01")]
    NoMac(String),
    /// The machine does not have what is asked for.
    #[error("{0}")]
    Machine(String),
    /// Tokens would cross the network in clear.
    #[error(
        "is no loopback address, and there is no TLS: anybody on the way could read tokens; set `api.certificate` and \
         `api.key`, or listen at 127.0.0.1"
    )]
    PlainApi,
    /// The text is no digest. It is not repeated: it may be a token.
    #[error(
        "is no SHA-256 of a token, which has 64 hexadecimal digits, as `printf %s TOKEN | sha256sum` prints them"
    )]
    NoDigest,
    /// Names of ports and groups become labels.
    #[error("is `{0}`; allowed: 1 to {MAX_NAME} ASCII letters, digits, `-` and `_`")]
    PlainName(String),
    /// No host can send to or from such an address.
    #[error("is {0}, which no single host can have; write a unicast address")]
    NotUnicast(IpAddr),
    /// Questions would come back to us.
    #[error(
        "is our own `{port}` with its dns_port, so misses would come back to pmdns for ever; write the address of another resolver"
    )]
    Loop {
        /// Path of the address it equals.
        port: String,
    },
    /// A socket has one family.
    #[error(
        "is {source_address}, but the resolver is {address}; write a source of the same family, or leave it out"
    )]
    OtherFamily {
        /// The source that was written.
        source_address: IpAddr,
        /// The resolver's address.
        address: IpAddr,
    },
    /// Packets between networks bear no such address.
    #[error(
        "is {0}, which no packet between networks has; write a unicast address that others can send to"
    )]
    NotRoutable(IpAddr),
    /// A router that cannot be reached without another one.
    #[error(
        "is {0}, outside the networks of `{1}`; write a router on the link, and our addresses with their prefix lengths"
    )]
    FarGateway(IpAddr, String),
    /// Replies would not find the way back.
    #[error(
        "is {address}, outside the networks of `{port}.addresses`, and `{port}.gateways` has no {} address; \
         write a router's there",
        family(address)
    )]
    NoGateway {
        /// What cannot be reached.
        address: IpAddr,
        /// Path of the port.
        port: String,
    },
    /// A port that is not configured.
    #[error("is `{name}`, but there is no [[port]] of that name;{} allowed: {}", meant(nearest), allowed.join(", "))]
    NoPort {
        /// The name as written.
        name: String,
        /// The name most like it.
        nearest: Option<String>,
        /// The names there are.
        allowed: Vec<String>,
    },
    /// A port that has no address to ask from.
    #[error(
        "is `{name}`, but `{port}.query_sources` has no {} address to ask {address} from; add one",
        family(address)
    )]
    NoQuerySource {
        /// The name of the port.
        name: String,
        /// Path of the port.
        port: String,
        /// The upstream's address.
        address: IpAddr,
    },
    /// Only queries over UDP leave by a port.
    #[error(
        "goes with upstreams that are asked over UDP only, as in address = \"192.0.2.53:53\"; leave it out"
    )]
    NotOverUdp,
    /// Queries over a port leave from its own sources.
    #[error("goes with the kernel's sockets, not with `port`; leave out one of the two")]
    SourceWithPort,
    /// Nothing answers there.
    #[error("is our own `{0}`, where nothing answers; write the address of another resolver")]
    AsksItself(String),
    /// Nothing is verified over UDP.
    #[error(
        "goes with encrypted upstreams only; write address = \"tls://...\", \"https://...\" or \"quic://...\", or leave it out"
    )]
    NotEncrypted,
    /// A name has to be looked up somewhere.
    #[error(
        "is a name, but there is no resolver to look it up; \
         write bootstrap = [\"192.0.2.53:53\"] in [slowpath], or an address here and the name in `name`"
    )]
    NoBootstrap,
    /// The client would be given up before the first resolver is.
    #[error(
        "is {deadline}, less than upstream[{upstream}].timeout_ms, {timeout}; raise it or lower that"
    )]
    DeadlineTooShort {
        /// The deadline, in milliseconds.
        deadline: u64,
        /// The first upstream of a group.
        upstream: usize,
        /// Its timeout, in milliseconds.
        timeout: u64,
    },
    /// A group without upstreams is asked.
    #[error("is `{0}`, but no [[upstream]] belongs to that group; write group = \"{0}\" into one")]
    EmptyGroup(String),
    /// Names outside the zones of `[[forward]]` would have no upstream.
    #[error(
        "has no entry in the group `{DEFAULT_GROUP}`, which is asked for all names outside the zones of [[forward]]. \
         Leave `group` out of one, or add a [[forward]] with zone = \".\""
    )]
    NoDefault,
    /// A zone that no upstream is asked about (RFC 9462 section 6.4).
    #[error(
        "is {0}, but nothing at or below resolver.arpa is ever forwarded; remove this [[forward]]"
    )]
    NeverForwarded(String),
    /// An upstream that would never be asked.
    #[error(
        "is `{0}`, but no name is asked of that group; add a [[forward]] or a [[view]] with group = \"{0}\""
    )]
    IdleGroup(String),
    /// A weight that no strategy looks at, and the group.
    #[error(
        "is {0}, but the group `{1}` is not asked by turns, so weights mean nothing there; write strategy = \"round_robin\" into \
         its [[group]], or leave `weight` out"
    )]
    IdleWeight(u32, String),
    /// The name that other clients' view has.
    #[error(
        "is `{DEFAULT_VIEW}`, which is the name of the view of clients in no [[view]]; choose another name"
    )]
    DefaultView,
    /// A view that is not configured.
    #[error("is `{name}`, but there is no [[view]] of that name;{} allowed: {}", meant(nearest), allowed.join(", "))]
    NoView {
        /// The name as written.
        name: String,
        /// The name most like it.
        nearest: Option<String>,
        /// The names there are.
        allowed: Vec<String>,
    },
    /// A client is in one view.
    #[error("is {prefix}, which `{other}` has in another view; keep one of the two")]
    TwoViews {
        /// The prefix.
        prefix: String,
        /// Path of the entry that lists it first.
        other: String,
    },
    /// An exception is about all names below it anyway; this is the name behind the `*.`.
    #[error("is `*.{0}`; write `{0}`, everything below it goes with it")]
    Wildcard(String),
    /// A view without anything of its own.
    #[error(
        "is `{0}`, a view like that of all other clients; give it a group, write views = [\"{0}\"] into a table, or remove it"
    )]
    IdleView(String),
    /// A forward zone is no name.
    #[error("is no zone: {0}")]
    Zone(NameError),
    /// Our name in a certificate is no name.
    #[error("cannot be in a certificate: {0}")]
    ServerName(NameError),
    /// The path of a resource over HTTPS cannot stand in a request.
    #[error(
        "is `{0}`; write a path of at most {MAX_HTTPS_PATH} characters, as in \"/dns-query\", without {{?dns}} and #"
    )]
    HttpsPath(String),
    /// The name of a key is no name.
    #[error("cannot name a key: {0}")]
    Key(NameError),
    /// A key that is not there.
    #[error("is `{0}`, but there is no such key; add a [[tsig]] with name = \"{0}\"")]
    NoKey(String),
    /// Nothing lies between the two.
    #[error("is {min}, more than cache.max_ttl, {max}; lower it or raise that")]
    TtlsCrossed {
        /// The minimum, in seconds.
        min: u32,
        /// The maximum, in seconds.
        max: u32,
    },
    /// The limit would let nothing through.
    #[error(
        "is 0, so that no query would pass; write 1 or more, or turn the limit off with {0} = 0"
    )]
    NoBurst(&'static str),
    /// Blocks of ports belong to addresses.
    #[error("tells clients of a CGNAT apart; write ipv4_prefix = 32 and ipv4_port_prefixes too")]
    PortsOfNetworks,
    /// Two keys for one thing.
    #[error("and `{other}` have the same meaning; keep one of the two")]
    Both {
        /// Path of the other key.
        other: &'static str,
    },
    /// A key that does nothing without another.
    #[error("has no effect without `{other}`; {fix}")]
    Without {
        /// What has to be there, as it is written.
        other: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// The answer depends on the client, and a prefetch has none.
    #[error(
        "is \"add\", but a prefetch has no client; write \"forward\", or enabled = false in [prefetch]"
    )]
    PrefetchForNobody,
    /// A file with secrets cannot be used.
    #[error("is {file}: {why}")]
    SecretFile {
        /// Its path.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A text is longer than its place.
    #[error("has {bytes} bytes; allowed: 1 to {max}")]
    TextLength {
        /// How many there are.
        bytes: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// One prefix, two verdicts.
    #[error("is {prefix}, which `{other}` lists with another verdict; keep one of the two")]
    TwoVerdicts {
        /// The prefix.
        prefix: String,
        /// Path of the entry that lists it first.
        other: String,
    },
    /// The slow path has threads, but cores of the line do their work.
    #[error(
        "has no meaning here, because the cores of placement[{placement}] resolve misses; \
         remove this key, or `resolver` there"
    )]
    CoresResolve {
        /// The index of the placement.
        placement: usize,
    },
    /// The placements do not run the line.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A blocked name is no name.
    #[error("cannot be blocked: {0}")]
    Name(#[from] NameError),
    /// The origin of a zone file is no name.
    #[error("cannot be an origin: {0}")]
    Origin(NameError),
    /// A name that is not validated is no name.
    #[error("cannot be left out of validation: {0}")]
    NegativeAnchor(NameError),
    /// A text that clients show to people.
    #[error("has control characters, such as line ends; write a text of one line without them")]
    NotPrintable,
    /// Clients cannot reach a web server there.
    #[error("is {0}, where clients reach no server; write an address of the page's web server")]
    NoServer(IpAddr),
    /// RFC 6052 section 2.2.
    #[error(
        "is {0}, where no IPv4 address fits in; write an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits \
         whose bits 64 to 71 are zero, as in \"64:ff9b::/96\""
    )]
    NoTranslationPrefix(Prefix),
    /// A list of prefixes of one family has one of the other.
    #[error("is {prefix}; write an {family} prefix")]
    PrefixFamily {
        /// What was written.
        prefix: Prefix,
        /// What is wanted.
        family: &'static str,
    },
    /// RFC 1034 section 3.6.2.
    #[error(
        "is a CNAME at {name}, where `{other}` stands too. \
         A CNAME must be the only record at its name (RFC 1034), so remove one of the two"
    )]
    CnameNotAlone {
        /// The owner name.
        name: String,
        /// Path of the other record.
        other: String,
    },
    /// RFC 2181 section 5.2.
    #[error(
        "is {ttl}, but `{other}` of the same name and type has {other_ttl}; one answer has one TTL (RFC 2181), so make them equal"
    )]
    TtlsDiffer {
        /// This record's TTL.
        ttl: u32,
        /// Path of the first record of the set.
        other: String,
        /// That record's TTL.
        other_ttl: u32,
    },
    /// RFC 2181 section 5.
    #[error("is the same record as `{other}`; remove one of the two")]
    SameRecord {
        /// Path of the first one.
        other: String,
    },
}

/// The family of an address, as operators call it.
fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

impl BrokenRule {
    /// Why `file` cannot be used for secrets.
    pub(crate) fn secret_file(file: &Path, why: impl Display) -> Self {
        Self::SecretFile { file: file.display().to_string(), why: why.to_string() }
    }
}
