//! Checks of a configuration's needs beyond its devices: the machine's parts, addresses, upstreams.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use pmdns_config::{Config, Endpoint, Host, Protocol, Upstream, WrittenConfig};
use pmdns_control::ask;
use pmdns_control::client::{ANSWER_PATIENCE, ApiClient, is_running};

use pmdns_nics::machine::{Lack, UnmetCondition};

use super::facts::Facts;
use super::finding::Finding;

/// How long an upstream may take; it is asked this many times.
const PATIENCE: Duration = Duration::from_secs(1);
const TRIES: usize = 2;
/// The longest reply that is read.
const MAX_REPLY: usize = 1232;

/// The findings of `pmdns check` on the machine, and service addresses that the kernel has as well.
pub(super) fn of_config(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(config) = facts.config else { return Vec::new() };
    let mut findings = Vec::new();
    for UnmetCondition { lack: Lack { key, problem, is_fatal }, condition, .. } in &facts.unmet {
        // These have checks of their own, which know the commands.
        if ["device", "huge pages"].contains(condition) {
            continue;
        }
        let (found, fix) = (format!("`{key}` {problem}"), format!("change `{key}`"));
        findings.push(if *is_fatal {
            Finding::fail("config", found, fix)
        } else {
            Finding::warn("config", found, fix)
        });
    }
    findings.extend(addresses(facts, config));
    findings
}

/// The instance at the control socket of a configuration.
enum Running {
    None,
    /// It has this configuration.
    This,
    /// It has another one.
    Other,
    /// We may not ask it, or it does not answer.
    Unknown,
}

fn running(facts: &Facts<'_>, config: &Config) -> Running {
    if !is_running(&config.control.socket) {
        return Running::None;
    }
    let client = ApiClient::at_socket(&config.control.socket);
    let shown = client.get_within(ask::Config, ANSWER_PATIENCE).ok();
    match (shown, &facts.written) {
        (Some(shown), Some(written)) if written.is_like(&WrittenConfig::of(&shown.toml)) => {
            Running::This
        }
        (Some(_), Some(_)) => Running::Other,
        _ => Running::Unknown,
    }
}

fn addresses(facts: &Facts<'_>, config: &Config) -> Vec<Finding> {
    match running(facts, config) {
        Running::This => {
            return vec![Finding::ok(
                "addresses",
                "an instance with this configuration is running",
            )];
        }
        Running::Unknown => {
            let socket = config.control.socket.display();
            let found =
                format!("an instance is running at {socket}, and does not tell its configuration");
            return vec![Finding::ok("addresses", found)];
        }
        Running::None | Running::Other => {}
    }
    // Of a port that is shared, the kernel may have the addresses, and of some it must.
    let alone = config.ports.iter().filter(|port| !port.share_with_kernel);
    let ours = alone.flat_map(|port| port.addresses.iter().map(|one| one.address));
    let held: Vec<IpAddr> =
        ours.clone().filter(|address| facts.machine.kernel_has(*address)).collect();
    if held.is_empty() {
        return vec![Finding::ok(
            "addresses",
            format!("{} of ports, none of the kernel", ours.count()),
        )];
    }
    let warn = |address: IpAddr| {
        let found = format!("an interface of the kernel has {address}, which is a port's");
        Finding::warn(
            "addresses",
            found,
            format!("`ip address show to {address}` names it; `ip address del` removes it"),
        )
    };
    held.into_iter().map(warn).collect()
}

/// Whether upstreams that the kernel's sockets reach can be reached. They are all tried at the same time.
pub(super) fn upstreams(config: &Config) -> Vec<Finding> {
    thread::scope(|scope| {
        let try_one = |upstream| scope.spawn(move || reach(upstream));
        let tries: Vec<_> = config.upstreams.iter().map(try_one).collect();
        tries
            .into_iter()
            .zip(&config.upstreams)
            .map(|(one, upstream)| {
                let outcome =
                    one.join().unwrap_or_else(|_| Reach::Not("the check itself failed".to_owned()));
                finding(&upstream.address.to_string(), outcome)
            })
            .collect()
    })
}

/// The result of a try of an upstream.
enum Reach {
    /// It answered, or took a connection.
    In(&'static str, Duration),
    /// It was not tried.
    Untried(&'static str),
    /// It did not answer.
    Not(String),
}

fn finding(name: &str, outcome: Reach) -> Finding {
    match outcome {
        Reach::In(how, time) => {
            Finding::ok("upstream", format!("{name} {how} in {} ms", time.as_millis()))
        }
        Reach::Untried(why) => Finding::ok("upstream", format!("{name} was not tried: {why}")),
        Reach::Not(why) => Finding::fail(
            "upstream",
            format!("{name} cannot be reached: {why}"),
            "look at the route (`ip route get ADDRESS`), the firewall, and the address",
        ),
    }
}

fn reach(upstream: &Upstream) -> Reach {
    if upstream.port.is_some() {
        return Reach::Untried("it is asked over a port of ours; `pmdns stats` shows its next hop");
    }
    let start = Instant::now();
    let (how, outcome) = match upstream.address.endpoint() {
        Endpoint::Plain(address) => ("answered", ask(*address)),
        Endpoint::Encrypted(server) => match (&server.protocol, &server.host) {
            (Protocol::Quic, _) => return Reach::Untried("QUIC answers only whole handshakes"),
            (_, Host::Name(_)) => return Reach::Untried("its name is looked up at start"),
            (_, Host::Address(address)) => {
                let address = SocketAddr::new(*address, server.port);
                ("took a connection", TcpStream::connect_timeout(&address, PATIENCE).map(drop))
            }
        },
    };
    outcome.map_or_else(|error| Reach::Not(error.to_string()), |()| Reach::In(how, start.elapsed()))
}

/// Asks for the root's name servers (RFC 1035 section 4.1) until any answer to that comes.
fn ask(address: SocketAddr) -> io::Result<()> {
    let any: IpAddr = if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut query = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    getrandom::fill(&mut query[..2]).map_err(io::Error::other)?;
    let mut reply = [0; MAX_REPLY];
    let mut outcome = Err(io::ErrorKind::TimedOut.into());
    for _ in 0..TRIES {
        socket.send(&query)?;
        outcome = socket.recv(&mut reply);
        if outcome.is_ok() {
            break;
        }
    }
    let length = match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no reply within {} s", PATIENCE.as_secs() * TRIES as u64),
            ));
        }
        outcome => outcome?,
    };
    let is_answer = length >= 12 && reply[..2] == query[..2] && reply[2] & 0x80 != 0;
    if is_answer {
        Ok(())
    } else {
        Err(io::Error::other("what came back is no answer to the query"))
    }
}
