//! Measures round trips with one query under way. `round_trips SERVER NAME SECONDS` asks the server on port 53 for the
//! A records of NAME, waits for the answer, and asks again. It prints the median nanoseconds from query to answer. The
//! client has one thread: with a sender and a receiver thread, it would measure how these two share a CPU.

use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use pmdns_stages::testing::query;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, name, seconds] = &arguments[..] else {
        return Err("usage: round_trips SERVER NAME SECONDS".into());
    };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((server.as_str(), 53))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut message = query(&format!("{name} A")).message();
    let mut answer = [0; 512];
    let mut times = Vec::new();
    let start = Instant::now();
    let end = Duration::from_secs(seconds.parse()?);
    for id in (0..=u16::MAX).cycle().take_while(|_| start.elapsed() < end) {
        message[..2].copy_from_slice(&id.to_be_bytes());
        let sent = Instant::now();
        socket.send(&message)?;
        let len = socket.recv(&mut answer)?;
        times.push(sent.elapsed().as_nanos());
        if len < 4 || answer[..2] != message[..2] || answer[3] & 15 != 0 {
            return Err(format!("{server} does not answer NOERROR to {name} A").into());
        }
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).ok_or("no time to ask in")?;
    Ok(writeln!(std::io::stdout(), "{median}")?)
}
