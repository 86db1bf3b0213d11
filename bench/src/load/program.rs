//! From the command line to a report.

use std::fs;
use std::io::{self, Write};
use std::path::{Path as File, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use pmdns_config::narrow::{low_u16, low_u64, to_usize};
use pmdns_engine::clock::Clock;
use pmdns_nics::Nic as _;

use super::arp::Host;
use super::check::{Authority, Checker};
use super::deck::{Deck, Popularity};
use super::generator::{Generator, Parts};
use super::mix::Kind;
use super::options::{self, Arguments, Command, Job, Link, Load};
use super::path::{Ends, Path};
use super::phases::{Session, empty_report};
use super::port::{LinkError, Port};
use super::questions::{self, Prepared, QuestionError};
use super::report::{LoadReport, Settings};
use super::table;
use super::templates::Edns;
use super::upstreams::{MAX_UPSTREAMS, Role, Upstreams};
use super::zone::{Zone, ZoneError};

/// What went wrong, and so what the process exits with.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, io::Error),
    /// The report cannot be written.
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, io::Error),
    /// Nothing can be printed.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signal(io::Error),
    /// What is asked.
    #[error(transparent)]
    Questions(#[from] QuestionError),
    /// What is right.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// Upstreams without answers.
    #[error("--upstream answers from a zone: give --names, or --zone beside --queries")]
    NothingToAnswer,
    /// Too many upstreams.
    #[error("at most {MAX_UPSTREAMS} upstreams are played; leave out some --upstream")]
    TooManyUpstreams,
    /// The port or the server.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Figures that can be believed, and no wrong answer.
    Good,
    /// Wrong answers, no answers, or figures that contradict each other.
    Failed,
    /// Too little of the load was offered.
    Invalid,
}

impl RunOutcome {
    /// What the process exits with.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Failed => 1,
            Self::Invalid => 3,
        }
    }
}

impl LoadError {
    /// What the process exits with: 2 for what the operator can change on the command line.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Read(..) | Self::Questions(_) | Self::Zone(_) => 2,
            Self::NothingToAnswer | Self::TooManyUpstreams => 2,
            Self::Link(LinkError::Core(_) | LinkError::Eal(_) | LinkError::Port(_)) => 2,
            _ => 1,
        }
    }
}

/// Does what the command line says.
pub fn execute(arguments: Arguments) -> Result<RunOutcome, LoadError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(LoadError::Signal)?;
    }
    match arguments.command {
        Command::Zone { names } => {
            crate::write_zone(io::BufWriter::new(io::stdout().lock()), names)?;
            Ok(RunOutcome::Good)
        }
        Command::Reflector { address, link } => {
            reflect(address, &link, &stop)?;
            Ok(RunOutcome::Good)
        }
        Command::Run { rate, seconds, job } => generate(&job, &stop, |session| {
            session.phase("run", rate, seconds, true);
        }),
        Command::Ceiling { search, job } => generate(&job, &stop, |session| {
            session.ceiling(&search);
        }),
        Command::Phases { seconds, sustained, overload, search, job } => {
            generate(&job, &stop, |session| {
                session.phases(&search, seconds, sustained, overload);
            })
        }
    }
}

fn reflect(address: std::net::Ipv4Addr, link: &Link, stop: &AtomicBool) -> Result<(), LoadError> {
    let mut port = Port::open(link, 0)?;
    let ours = Host { mac: port.nic.facts().mac, address };
    writeln!(io::stderr(), "pmdns-load: reflecting at {address}")?;
    let reflected = super::reflector::reflect(&mut port.queues, &port.pool, ours, stop);
    writeln!(
        io::stdout(),
        "reflected {}, refused by the port {}, no queries {}",
        reflected.sent,
        reflected.refused,
        reflected.ignored
    )?;
    Ok(port.close()?)
}

/// Prepares everything, runs `program`, and reports.
fn generate(
    Job { link, load, upstreams, output }: &Job,
    stop: &Arc<AtomicBool>,
    program: impl FnOnce(&mut Session<'_>),
) -> Result<RunOutcome, LoadError> {
    // All that can be wrong on the command line is found before the port is touched.
    let (prepared, names) = prepare(load)?;
    let authority = authority(load)?;
    let zone = zone_of_upstreams(upstreams, &authority)?;
    let held = zone.as_ref().map_or(0, |_| upstreams.upstream_held);
    let mut port = Port::open(link, held)?;
    port.await_link(link, stop)?;
    let clock = Clock::start();
    let played = zone.map(|zone| play(upstreams, zone, port.nic.facts().mac, clock, load.seed));
    let server_mac = match load.server_mac {
        Some(mac) => mac,
        None => {
            let patience = Duration::from_secs(link.patience_seconds);
            port.resolve(load.source, load.server, patience, played.as_ref(), stop)?
        }
    };
    let settings = settings(load, names, &port, clock, &authority);
    let wanted = (Kind::ALL.into_iter())
        .filter(|kind| matches!(kind, Kind::Hit | Kind::Nxdomain) && load.mix.weight(*kind) > 0)
        .flat_map(|kind| prepared.pools[kind.index()].clone())
        .collect();
    let parts = Parts {
        upstreams: played,
        ..parts(load, prepared, authority, clock, server_mac, &mut port, stop)
    };
    let mut session = Session {
        generator: Generator::new(parts),
        nic: &port.nic,
        wanted,
        window: usize::from(load.warm_window),
        server_pid: output.server_pid,
        slice: Duration::from_millis(output.slice_ms),
        report: empty_report(settings),
    };
    if !load.no_warm_up {
        session.warm_up();
    }
    if !session.has_failed() {
        program(&mut session);
    }
    let failed = session.has_failed();
    let Session { generator, report, .. } = session;
    drop(generator);
    port.close()?;
    publish(&report, output.json.as_deref())?;
    Ok(match (failed, report.valid) {
        (true, _) => RunOutcome::Failed,
        (false, false) => RunOutcome::Invalid,
        (false, true) => RunOutcome::Good,
    })
}

fn prepare(load: &Load) -> Result<(Prepared, usize), LoadError> {
    let list = match &load.queries {
        Some(file) => questions::read(&read(file)?)?,
        None => questions::numbered(load.names)?,
    };
    let edns = load.edns.map(|udp_size| Edns { udp_size, dnssec_ok: load.dnssec_ok });
    // The time will do: the salt only has to differ from the last run's.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let salt = low_u16(low_u64(since.as_millis()));
    Ok((questions::prepare(&list, &load.origin, salt, edns)?, list.len()))
}

fn authority(load: &Load) -> Result<Authority, LoadError> {
    let text = match (&load.zone, &load.queries) {
        _ if load.reflector => return Ok(Authority::Reflector),
        (Some(file), _) => read(file)?,
        (None, Some(_)) => return Ok(Authority::FirstAnswer),
        (None, None) => {
            let mut zone = Vec::new();
            crate::write_zone(&mut zone, load.names)?;
            String::from_utf8_lossy(&zone).into_owned()
        }
    };
    Ok(Authority::Zone(Box::new(Zone::parse(&text)?)))
}

/// The zone that upstreams answer from; `None`: none is played.
fn zone_of_upstreams(
    upstreams: &options::Upstreams,
    authority: &Authority,
) -> Result<Option<Zone>, LoadError> {
    match authority {
        _ if upstreams.addresses.is_empty() => Ok(None),
        _ if upstreams.addresses.len() > MAX_UPSTREAMS => Err(LoadError::TooManyUpstreams),
        Authority::Zone(zone) => Ok(Some(Zone::clone(zone))),
        _ => Err(LoadError::NothingToAnswer),
    }
}

/// The upstreams that the command line asks for.
fn play(
    upstreams: &options::Upstreams,
    zone: Zone,
    mac: [u8; 6],
    clock: Clock,
    seed: u64,
) -> Upstreams {
    Upstreams::new(Role {
        addresses: upstreams.addresses.clone(),
        mac,
        zone,
        delay: clock.ticks_of(Duration::from_micros(upstreams.upstream_delay_us)),
        held: to_usize(upstreams.upstream_held.into()),
        loss: upstreams.upstream_loss,
        seed,
    })
}

fn read(file: &File) -> Result<String, LoadError> {
    fs::read_to_string(file).map_err(|error| LoadError::Read(file.to_owned(), error))
}

fn settings(
    load: &Load,
    names: usize,
    port: &Port,
    clock: Clock,
    authority: &Authority,
) -> Settings {
    let mix = Kind::ALL.into_iter().map(|kind| (kind.name(), load.mix.weight(kind)));
    Settings {
        driver: port.nic.facts().driver.clone(),
        names,
        zipf: load.zipf,
        mix: mix.filter(|(_, weight)| *weight > 0).collect(),
        clients: load.clients,
        edns: load.edns,
        timeout_ms: load.timeout_ms,
        ticks_per_second: clock.ticks_per_second(),
        authority: match authority {
            Authority::Zone(_) => "zone",
            Authority::FirstAnswer => "first answer",
            Authority::Reflector => "reflector",
        },
        refused_is_offered: port.is_ring(),
    }
}

fn parts(
    load: &Load,
    prepared: Prepared,
    authority: Authority,
    clock: Clock,
    server_mac: [u8; 6],
    port: &mut Port,
    stop: &Arc<AtomicBool>,
) -> Parts {
    let popularity = load.zipf.map_or(Popularity::Uniform, Popularity::Zipf);
    let ends = Ends {
        client_mac: port.nic.facts().mac,
        first_client: load.source,
        clients: load.clients,
        server_mac,
        server: load.server,
        server_port: load.server_port,
    };
    let cards = Deck::cards_for(prepared.pools[Kind::Hit.index()].len());
    Parts {
        rx: port.queues.rx.remove(0),
        tx: port.queues.tx.remove(0),
        pool: port.pool.clone(),
        clock,
        path: Path::new(ends),
        deck: Deck::shuffle(&load.mix, &prepared.pools, popularity, cards, load.seed),
        checker: Checker::new(prepared.templates, authority),
        slots: load.slots,
        timeout: Duration::from_millis(load.timeout_ms),
        checksums: load.checksums,
        upstreams: None,
        stop: Arc::clone(stop),
    }
}

fn publish(report: &LoadReport, json: Option<&File>) -> Result<(), LoadError> {
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(report)
            .expect("a report holds only strings, numbers and lists of them");
        fs::write(file, text).map_err(|error| LoadError::Write(file.to_owned(), error))?;
    }
    Ok(table::print(report, &mut io::stdout().lock())?)
}
