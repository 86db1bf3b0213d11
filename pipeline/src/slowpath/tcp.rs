//! One query over TCP (RFC 7766), on a connection of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::query::Query;
use super::udp::{Lost, unspecified};

/// Bytes of the length that precedes every message (RFC 1035 section 4.2.2). It also bounds a reply to
/// 65,535 bytes; [`super::sockets`] bounds how many there can be at once.
const LENGTH_LEN: usize = 2;

/// Sends `query` to `upstream`, from `source` if given, and waits for the reply to it. The caller limits
/// the time.
pub(super) async fn exchange(
    upstream: SocketAddr,
    source: Option<IpAddr>,
    query: &Query,
) -> Result<Vec<u8>, Lost> {
    let socket = match upstream {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(Lost::NotSent)?;
    socket
        .bind((source.unwrap_or_else(|| unspecified(upstream)), 0).into())
        .map_err(Lost::NotSent)?;
    converse(socket, upstream, query).await.map_err(Lost::Broken)
}

async fn converse(socket: TcpSocket, upstream: SocketAddr, query: &Query) -> io::Result<Vec<u8>> {
    let mut stream = socket.connect(upstream).await?;
    // RFC 7766 section 8: length and message in one write.
    let length = query.bytes().len() as u16;
    stream.write_all(&[&length.to_be_bytes(), query.bytes()].concat()).await?;
    let mut length = [0; LENGTH_LEN];
    stream.read_exact(&mut length).await?;
    let length = u16::from_be_bytes(length);
    // The buffer grows with what arrives, not with what is promised.
    let mut reply = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut reply).await?;
    if reply.len() < usize::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !query.is_answered_by(&reply) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply to another query"));
    }
    Ok(reply)
}
