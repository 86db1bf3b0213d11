//! What a history begins with: a configuration, and servers.

use std::net::IpAddr;
use std::time::Duration;

use pmdns_config::Config;
use pmdns_hierarchy::Rng;

use crate::manners::Manners;
use crate::operator::Files;
use crate::servers::Server;
use crate::signed::AnchorFile;
use crate::stepping;
use crate::truth::Realm;

/// What a history begins with.
pub(crate) struct Start {
    pub(crate) config: Config,
    /// The configuration as it was written.
    pub(crate) text: String,
    pub(crate) servers: Vec<Server>,
    pub(crate) rig: stepping::Setup,
    /// Receive queues that are polled.
    pub(crate) queues: usize,
    /// Whether everything has room for some hundred clients.
    pub(crate) is_roomy: bool,
    /// Whether it has for thousands.
    pub(crate) is_vast: bool,
    /// Whether answers are validated, and all that is asked about is in the signed hierarchy.
    pub(crate) is_signed: bool,
    /// Whether some clients are in a view with upstreams of its own.
    pub(crate) has_lab: bool,
    /// The file with the trust anchor; the configuration names it.
    _anchor: Option<AnchorFile>,
}

/// Ways to put the line on cores, and how many queues are polled.
const PLACEMENTS: [(&str, usize); 6] = [
    ("[[placement]]\nstages = \"all\"\ncores = [1]\n", 1),
    ("[[placement]]\nstages = \"all\"\ncores = [1, 2]\n", 2),
    ("[[placement]]\ncores = [1]\nresolver = true\n", 1),
    ("[[placement]]\ncores = [1, 2]\nresolver = true\n", 2),
    (
        "[[placement]]\nstages = \"parse..acl\"\ncores = [1]\n[[placement]]\nstages = \"ratelimit..encode\"\ncores = [2, 3]\n",
        1,
    ),
    (
        "[[placement]]\nstages = \"parse..lookup\"\ncores = [1]\n[[placement]]\nstages = \"policy..encode\"\ncores = [2]\n",
        1,
    ),
];

/// The name of the view at the start.
pub(crate) const LAB: &str = "lab";

/// A view of this name, and who is in it.
pub(crate) fn lab(name: &str) -> String {
    format!("[[view]]\nname = \"{name}\"\nclients = [\"10.77.6.0/23\"]\ngroup = \"lab\"\n")
}

/// Whether a client is in it.
pub(crate) fn is_in_lab(client: IpAddr) -> bool {
    matches!(client, IpAddr::V4(client) if matches!(client.octets(), [10, 77, 6 | 7, _]))
}

impl Start {
    /// A start that a seed has drawn. The files are those that can change.
    pub(crate) fn draw(seed: u64, chance: &mut Rng, files: Option<&Files>) -> Self {
        // Every other history asks over the port.
        let by_port = seed % 2 == 1;
        let is_signed = chance.one_in(12);
        let is_vast = !is_signed && chance.one_in(40);
        let is_roomy = is_vast || chance.below(2) > 0;
        let has_lab = !is_signed && chance.below(3) == 0;
        let mut servers = if is_signed { signed_servers(chance) } else { servers(chance) };
        servers.extend(has_lab.then(|| server(31, Realm::Lab)));
        let (placement, queues) = PLACEMENTS[chance.below(PLACEMENTS.len())];
        let anchor = is_signed.then(AnchorFile::new);
        let text = [
            port(by_port),
            placement.to_owned(),
            upstreams(&servers, by_port, chance),
            anchor.as_ref().map_or_else(forwards, validation),
            if has_lab { lab(LAB) } else { String::new() },
            limits(is_roomy, is_vast, placement.contains("resolver"), chance),
            cache(chance),
            files.map_or_else(String::new, |files| of_files(files, is_signed)),
        ]
        .concat();
        let config = Config::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let rig = stepping::Setup {
            seed,
            frames: if is_vast {
                4096
            } else if is_roomy {
                1024
            } else {
                [128, 256, 1024][chance.below(3)]
            },
            sockets: if is_roomy { 256 } else { [8, 32, 256][chance.below(3)] },
            port_queries: if is_roomy {
                usize::MAX
            } else {
                [64, 256, usize::MAX][chance.below(3)]
            },
            date: stepping::DATE,
        };
        Self {
            config,
            text,
            servers,
            rig,
            queues,
            is_roomy,
            is_vast,
            is_signed,
            has_lab,
            _anchor: anchor,
        }
    }

    /// How long a client waits at most.
    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.config.slowpath.deadline_ms)
    }

    /// How old an answer may be.
    pub(crate) fn oldest(&self) -> u32 {
        let cache = &self.config.cache;
        // It counts from when the reply came, which took its time.
        let slack = 2 + self.config.slowpath.deadline_ms.div_ceil(1000) as u32;
        slack + crate::truth::TTL + if cache.serve_stale { cache.stale_window_seconds } else { 0 }
    }
}

/// The zone that changes, and the list if it blocks names that there are.
fn of_files(files: &Files, is_signed: bool) -> String {
    let (zone, list) = (files.zone(), files.list());
    let list = match is_signed {
        true => String::new(),
        false => format!("[[blocklist]]\nfile = {list:?}\n"),
    };
    format!("[[zone]]\nfile = {zone:?}\n{list}")
}

fn server(last: u8, realm: Realm) -> Server {
    Server { address: ([192, 0, 2, last], 53).into(), realm, manners: Manners::good() }
}

fn signed_servers(chance: &mut Rng) -> Vec<Server> {
    (0..1 + chance.below(3)).map(|number| server(1 + number as u8, Realm::Signed)).collect()
}

fn servers(chance: &mut Rng) -> Vec<Server> {
    let public = (0..1 + chance.below(3)).map(|number| server(1 + number as u8, Realm::Public));
    let inner = (0..1 + chance.below(2)).map(|number| server(11 + number as u8, Realm::Inner));
    public.chain(inner).chain([server(21, Realm::Secret)]).collect()
}

fn port(by_port: bool) -> String {
    let asking = match by_port {
        true => "query_sources = [\"10.77.0.60\", \"10.77.0.61\"]\ngateways = [\"10.77.0.1\"]\n",
        false => "",
    };
    format!(
        "[control]\nsocket = \"unused\"\n[[port]]\nname = \"p0\"\ndevice = \"memory\"\n\
         addresses = [\"10.77.0.2/24\", \"fd77::2/64\"]\n{asking}[acl]\ndefault = \"allow\"\n"
    )
}

fn upstreams(servers: &[Server], by_port: bool, chance: &mut Rng) -> String {
    let mut text = String::new();
    let port = if by_port { "port = \"p0\"\n" } else { "" };
    let mix_case = chance.below(4) > 0;
    let cookies = chance.below(4) > 0;
    let timeout_ms = [200, 400, 800][chance.below(3)];
    for Server { address, realm, .. } in servers {
        let where_to = match realm {
            Realm::Secret => {
                let pin = "A".repeat(43);
                format!("address = \"tls://{}\"\npin = [\"sha256/{pin}=\"]\n", address.ip())
            }
            _ => format!(
                "address = \"{address}\"\n{port}mix_case = {mix_case}\ncookies = {cookies}\n"
            ),
        };
        text += &format!(
            "[[upstream]]\n{where_to}group = \"{}\"\ntimeout_ms = {timeout_ms}\n",
            group(*realm)
        );
    }
    let strategies = ["failover", "round_robin", "fastest", "parallel", "hedged"];
    let strategy = strategies[chance.below(strategies.len())];
    text += &format!("[[group]]\nname = \"default\"\nstrategy = \"{strategy}\"\n");
    text += "[health]\nfailures = 3\nsuccesses = 1\ninterval_ms = 500\ntimeout_ms = 300\n";
    text
}

fn forwards() -> String {
    let forward = |realm: Realm| {
        let apex = realm.apex();
        format!("[[forward]]\nzone = \"{apex}\"\ngroup = \"{}\"\n", group(realm))
    };
    [Realm::Inner, Realm::Secret].map(forward).concat()
}

fn validation(anchor: &AnchorFile) -> String {
    format!("[dnssec]\nvalidate = true\ntrust_anchor = {:?}\n", anchor.path())
}

fn group(realm: Realm) -> &'static str {
    match realm {
        Realm::Public | Realm::Signed => "default",
        Realm::Inner => "inner",
        Realm::Secret => "secret",
        Realm::Lab => "lab",
    }
}

fn limits(is_roomy: bool, is_vast: bool, cores_resolve: bool, chance: &mut Rng) -> String {
    let mut of = |roomy: usize, narrow: [usize; 3]| match is_roomy {
        true => roomy,
        false => narrow[chance.below(3)],
    };
    let text = format!(
        "[frames]\nring = {}\nbatch = {}\n\
         [slowpath]\nring = {}\nmax_pending = {}\nmax_waiting = {}\nmax_waiting_per_client = {}\n",
        of(if is_vast { 4096 } else { 1024 }, [64, 64, 256]),
        of(32, [1, 4, 64]),
        of(if is_vast { 4096 } else { 1024 }, [64, 64, 256]),
        of(if is_vast { 8192 } else { 1024 }, [64, 128, 1024]),
        of(if is_vast { 8192 } else { 4096 }, [64, 256, 1024]),
        // Each thread has its part. In the calm a client waits for up to three slow questions at a time.
        of(256, [12, 16, 64]),
    );
    let threads = match cores_resolve {
        true => String::new(),
        false => format!("threads = {}\n", 1 + chance.below(2)),
    };
    let rates = match !is_roomy && chance.one_in(4) {
        true => {
            "[ratelimit]\nqueries_per_second = 20\nburst = 40\nmiss_queries_per_second = 20\nmiss_burst = 40\n"
        }
        false => "",
    };
    text + &threads
        + &format!(
            "deadline_ms = {}\nqueries_per_port = {}\n",
            [1000, 2000, 3000][chance.below(3)],
            [1, 4, 32][chance.below(3)],
        )
        + rates
}

fn cache(chance: &mut Rng) -> String {
    let eviction = ["fifo", "lru", "lfu", "hit_rate"][chance.below(4)];
    format!(
        "[cache]\nsize = \"2MiB\"\npages = \"normal\"\nnxdomain_cut = {}\nserve_stale = {}\n\
         stale_window_seconds = 60\nstale_backoff_seconds = 2\nstale_client_timeout_ms = 500\neviction = \"{eviction}\"\n\
         [prefetch]\nenabled = {}\ncache_min_frequency = 2\n",
        chance.below(4) > 0,
        chance.below(2) > 0,
        chance.below(3) == 0,
    )
}
