//! Unbound on the loopback interface, with the hierarchy's root as its anchor and a stub as its upstream.

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, Name, World, rtype};

/// [`pmdns_hierarchy::NOW`], as Unbound wants it.
const DATE: &str = "20270115080000";
/// What an answer may take, in tries of a fifth of a second.
const MAX_TRIES: usize = 50;

/// A running Unbound; it ends when it is dropped.
pub(crate) struct Unbound {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
    socket: UdpSocket,
}

impl Unbound {
    /// Starts it; it is ready when this returns.
    pub(crate) fn start(world: &World, upstream: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // A port that was free a moment ago.
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = std::env::temp_dir().join(format!("pmdns-unbound-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("unbound.conf");
        std::fs::write(&file, configuration(world, upstream, address)).unwrap();
        let mut command = Command::new("unbound");
        command.arg("-dd").arg("-c").arg(&file).stderr(Stdio::null());
        let process = command.spawn().expect("unbound is installed");
        let this = Self { process, folder, address, socket };
        this.ask(&Name::root(), rtype::SOA);
        this
    }

    /// What it answers; SERVFAIL if it has not answered in the end.
    pub(crate) fn ask(&self, name: &Name, qtype: u16) -> Message {
        let mut query = Message::reply(name, qtype);
        query.flags = flag::RD;
        query.id = self.socket.local_addr().unwrap().port();
        let edns = World::edns();
        query.sections[2].push(edns);
        let mut bytes = [0; 65_535];
        for attempt in 0..MAX_TRIES {
            if attempt % 10 == 0 {
                let _ = self.socket.send_to(&query.to_bytes(), self.address);
            }
            let Ok(len) = self.socket.recv(&mut bytes) else { continue };
            let reply = Message::parse(&bytes[..len]);
            if let Some(reply) = reply.filter(|reply| reply.question == query.question) {
                return reply;
            }
        }
        query.set_rcode(2);
        query
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn configuration(world: &World, upstream: SocketAddr, address: SocketAddr) -> String {
    let (_, _, ds) = world.anchor();
    let tag = u16::from_be_bytes([ds[0], ds[1]]);
    let digest = ds[4..].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let (algorithm, kind) = (ds[2], ds[3]);
    format!(
        "server:\n interface: {ip}@{port}\n port: {port}\n do-ip6: no\n username: \"\"\n chroot: \"\"\n\
         pidfile: \"\"\n use-syslog: no\n verbosity: 0\n module-config: \"validator iterator\"\n\
         trust-anchor: \". DS {tag} {algorithm} {kind} {digest}\"\n val-override-date: \"{DATE}\"\n\
         do-not-query-localhost: no\n cache-max-ttl: 0\n cache-max-negative-ttl: 0\n val-bogus-ttl: 0\n\
         qname-minimisation: no\n aggressive-nsec: no\n num-threads: 1\n val-max-restart: 1\n\
         ede: yes\n edns-buffer-size: 4096\n max-udp-size: 4096\n unblock-lan-zones: yes\n insecure-lan-zones: yes\n\
         infra-host-ttl: 0\n val-sig-skew-min: 0\n val-sig-skew-max: 0\n minimal-responses: yes\n\
         local-zone: \"test.\" nodefault\n local-zone: \"invalid.\" nodefault\n\
         remote-control:\n control-enable: no\n\
         forward-zone:\n name: \".\"\n forward-addr: {up}@{up_port}\n",
        ip = address.ip(),
        port = address.port(),
        up = upstream.ip(),
        up_port = upstream.port(),
    )
}
