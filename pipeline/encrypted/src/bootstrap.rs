//! Looks up the addresses of an upstream's name, at the bootstrap resolvers over plain UDP.
//!
//! A forged reply does no harm: the server at the address must have a certificate for the name.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use domain::base::iana::{Class, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::{A, Aaaa};
use pmdns_engine::slowpath::{bind, random, unspecified};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// How long one resolver may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most addresses of one name that are tried, for each family.
const MAX_ADDRESSES: usize = 4;
/// The most datagrams that are read before a resolver is given up. Datagrams that do not match the query are skipped.
const MAX_DATAGRAMS: usize = 16;
/// The longest reply, because our query has no EDNS.
const MAX_REPLY: usize = 512;

/// The addresses of `name` from the first of `resolvers` that has any. With a `source`, only addresses of its family.
pub(crate) async fn look_up(
    name: &str,
    resolvers: &[SocketAddr],
    source: Option<IpAddr>,
) -> io::Result<Vec<IpAddr>> {
    let name: Name<Vec<u8>> = name.parse().map_err(io::Error::other)?;
    for resolver in resolvers {
        let both = tokio::join!(
            timeout(PATIENCE, ask(&name, Rtype::A, *resolver)),
            timeout(PATIENCE, ask(&name, Rtype::AAAA, *resolver)),
        );
        let mut addresses = Vec::new();
        for reply in [both.0, both.1] {
            match reply.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(found) => addresses.extend(found),
                Err(error) => tracing::debug!("asking {resolver} for {name}: {error}"),
            }
        }
        addresses.retain(|address| source.is_none_or(|from| from.is_ipv4() == address.is_ipv4()));
        if !addresses.is_empty() {
            return Ok(addresses);
        }
    }
    Err(io::Error::other(format!("no resolver of slowpath.bootstrap knows an address of {name}")))
}

/// Asks one resolver for the addresses of one family.
async fn ask(name: &Name<Vec<u8>>, rtype: Rtype, resolver: SocketAddr) -> io::Result<Vec<IpAddr>> {
    let mut random = random();
    let socket = bind(unspecified(resolver), &mut random)?;
    socket.set_nonblocking(true)?;
    let socket = UdpSocket::from_std(socket)?;
    socket.connect(resolver).await?;
    let query = query(name, rtype, random.u16()?);
    socket.send(query.as_slice()).await?;
    let mut buffer = [0; MAX_REPLY];
    for _ in 0..MAX_DATAGRAMS {
        let len = socket.recv(&mut buffer).await?;
        if let Some(addresses) = addresses(&query, &buffer[..len]) {
            return Ok(addresses);
        }
    }
    Err(io::Error::other("none of the datagrams is the reply"))
}

fn query(name: &Name<Vec<u8>>, rtype: Rtype, id: u16) -> Message<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(id);
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    builder.push((name, rtype, Class::IN)).expect("a vector has room for a question");
    builder.into_message()
}

/// The addresses in `reply`; none if it is not the reply to `query`.
fn addresses(query: &Message<Vec<u8>>, reply: &[u8]) -> Option<Vec<IpAddr>> {
    let reply = Message::from_octets(reply).ok()?;
    if !reply.is_answer(query) {
        return None;
    }
    // Addresses are used whatever their owner name is, because aliases may lead to them. The certificate proves the
    // server.
    let section = reply.answer().ok()?;
    let v4 = section.limit_to::<A>().flatten().map(|one| one.data().addr().into());
    let v6 = section.limit_to::<Aaaa>().flatten().map(|one| one.data().addr().into());
    Some(v4.take(MAX_ADDRESSES).chain(v6.take(MAX_ADDRESSES)).collect())
}

#[cfg(test)]
mod tests {
    use domain::base::Ttl;
    use domain::base::iana::Rcode;
    use domain::rdata::Cname;

    use super::*;

    fn name(text: &str) -> Name<Vec<u8>> {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_behind_aliases_are_found_and_no_more_than_are_tried() {
        let asked = query(&name("dns.example"), Rtype::A, 7);
        let mut reply = MessageBuilder::new_vec().start_answer(&asked, Rcode::NOERROR).unwrap();
        let alias = Cname::new(name("a.example"));
        reply.push((name("dns.example"), Class::IN, Ttl::from_secs(1), alias)).unwrap();
        for last in 0..9 {
            let address = A::from_octets(192, 0, 2, last);
            reply.push((name("a.example"), Class::IN, Ttl::from_secs(1), address)).unwrap();
        }
        let reply = reply.into_message().into_octets();
        let found = addresses(&asked, &reply).unwrap();
        assert_eq!(found.len(), MAX_ADDRESSES);
        assert_eq!(found[3], IpAddr::from([192, 0, 2, 3]));
        let other = query(&name("dns.example"), Rtype::A, 8);
        assert_eq!(addresses(&other, &reply), None, "another id");
        let other = query(&name("dns.example"), Rtype::AAAA, 7);
        assert_eq!(addresses(&other, &reply), None, "another question");
        for len in 0..reply.len() {
            // A reply that is cut off may have fewer addresses, but never panics.
            assert!(addresses(&asked, &reply[..len]).is_none_or(|found| found.len() <= 4));
        }
    }
}
