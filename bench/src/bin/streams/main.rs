//! A client of DNS over TCP, TLS and HTTPS, for what other load generators cannot do.
//!
//! `hold` opens many connections, asks one question on each, and leaves them open. It prints how many answered, waits until its
//! standard input ends, and prints how many the server has kept open. `fresh` asks each question on a connection of its own, and
//! prints how many answers came.

mod http2;
mod tls;

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Stream};

/// A query for `host0000001.example.`, type A.
const QUERY: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x0bhost0000001\x07example\0\0\x01\0\x01";
/// How long the server has for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most connections: a client has not many more ports for one server.
const MAX_CONNECTIONS: u64 = 25_000;
/// The most connections at a time of `fresh`, each with a thread.
const MAX_THREADS: u64 = 64;
/// The longest run.
const MAX_SECONDS: u64 = 3600;

#[derive(Parser)]
struct Arguments {
    /// How to ask.
    #[arg(long, value_enum)]
    over: Over,
    /// The server, on loopback or in a private network.
    #[arg(long)]
    server: SocketAddr,
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Over {
    Tcp,
    Tls,
    Https,
}

#[derive(Subcommand)]
enum What {
    /// Holds so many connections.
    Hold {
        #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_CONNECTIONS))]
        connections: u64,
    },
    /// Asks on a fresh connection each time.
    Fresh {
        /// Connections at a time.
        #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
        connections: u64,
        #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
        seconds: u64,
    },
}

/// Where to ask, and how.
#[derive(Clone)]
struct Target {
    server: SocketAddr,
    over: Over,
    tls: Arc<ClientConfig>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { over, server, what } = Arguments::parse();
    if !is_ours(server) {
        return Err("the server must be on loopback or in a private network".into());
    }
    let alpn: &[u8] = if over == Over::Https { b"h2" } else { b"dot" };
    let target = Target { server, over, tls: tls::config(alpn)? };
    match what {
        What::Hold { connections } => hold(&target, connections)?,
        What::Fresh { connections, seconds } => {
            println!("{}", fresh(&target, connections, Duration::from_secs(seconds)));
        }
    }
    Ok(())
}

fn is_ours(server: SocketAddr) -> bool {
    match server {
        SocketAddr::V4(v4) => v4.ip().is_loopback() || v4.ip().is_private(),
        SocketAddr::V6(v6) => v6.ip().is_loopback() || v6.ip().is_unique_local(),
    }
}

fn hold(target: &Target, connections: u64) -> io::Result<()> {
    let mut held = Vec::new();
    for number in 0..connections {
        match target.open() {
            Ok(stream) => held.push(stream),
            Err(error) => {
                eprintln!("connection {number}: {error}");
                break;
            }
        }
    }
    println!("{}", held.len());
    io::stdin().read_to_end(&mut Vec::new())?;
    for stream in &held {
        stream.set_nonblocking(true)?;
    }
    println!("{}", held.iter().filter(|stream| is_open(stream)).count());
    Ok(())
}

/// How many questions were answered.
fn fresh(target: &Target, connections: u64, time: Duration) -> u64 {
    let end = Instant::now() + time;
    let ask = move |target: Target| {
        let mut answered = 0;
        while Instant::now() < end {
            answered += u64::from(target.open().is_ok());
        }
        answered
    };
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let target = target.clone();
            std::thread::spawn(move || ask(target))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
}

impl Target {
    /// A connection on which a question was answered. Of TLS only the server keeps its state.
    fn open(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        if self.over == Over::Tcp {
            ask(&mut stream)?;
            return Ok(stream);
        }
        let name = ServerName::from(self.server.ip());
        let secure = ClientConnection::new(Arc::clone(&self.tls), name);
        let mut secure = secure.map_err(io::Error::other)?;
        let mut secure = Stream::new(&mut secure, &mut stream);
        match self.over {
            Over::Https => http2::ask(&mut secure, QUERY)?,
            _ => ask(&mut secure)?,
        }
        Ok(stream)
    }
}

/// Asks with the length before each message (RFC 1035 section 4.2.2).
fn ask(stream: &mut (impl Read + Write)) -> io::Result<()> {
    let length = u16::try_from(QUERY.len()).expect("it is short").to_be_bytes();
    stream.write_all(&[&length, QUERY].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)
}

/// Whether the server has not closed it. What a server sends of its own, such as tickets, may still be there.
fn is_open(mut stream: &TcpStream) -> bool {
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(1..) => {}
            other => return other.is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
        }
    }
}
