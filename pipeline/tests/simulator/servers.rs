//! Servers and forgers: what is said in reply to a query.

use std::net::SocketAddr;
use std::time::Duration;

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, Name, OwnedRecord, Rng, rtype};

use crate::manners::{Manners, Trouble, happens};
use crate::signed::{self, falsify};
use crate::truth::{Fact, NEGATIVE_TTL, NXDOMAIN, Realm, lie};

/// The longest chain of aliases.
const MAX_ALIASES: usize = 4;
/// What a datagram takes without EDNS.
const PLAIN_SIZE: usize = 512;
/// The option with a cookie (RFC 7873).
const COOKIE: u16 = 10;

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) realm: Realm,
    pub(crate) manners: Manners,
}

/// A datagram, when it comes and from where.
pub(crate) type Datagram = (Duration, SocketAddr, Vec<u8>);

impl Server {
    /// What comes back for a datagram that came at `now`, in the order of the times. An error: nobody listens.
    pub(crate) fn datagrams(
        &self,
        query: &Message,
        now: Duration,
        chance: &mut Rng,
    ) -> Result<Vec<Datagram>, ()> {
        let manners = &self.manners;
        let took = manners.time(chance);
        let (trouble, often) = manners.trouble;
        let trouble = if chance.one_in(often) { trouble } else { Trouble::None };
        let mut datagrams = Vec::new();
        if happens(chance, manners.forgers) {
            datagrams.extend(forged(query, chance).map(|forged| {
                (now + took * chance.below(8) as u32 / 8, self.address, forged.to_bytes())
            }));
        }
        if happens(chance, manners.loss) {
            return Ok(datagrams);
        }
        let (from, bytes) = match trouble {
            Trouble::Dead => return Ok(datagrams),
            Trouble::Unreachable => return Err(()),
            Trouble::OtherAddress => {
                let other = SocketAddr::new([203, 0, 113, 9].into(), 53);
                (other, lying(query, &query.question.0).to_bytes())
            }
            trouble => (self.address, self.reply(query, trouble, second(now), chance)),
        };
        datagrams.push((now + took, from, bytes.clone()));
        if happens(chance, manners.twice) {
            datagrams.push((now + took + manners.time(chance), from, bytes));
        }
        Ok(datagrams)
    }

    /// What it says over a connection.
    pub(crate) fn stream_reply(&self, query: &Message, now: Duration, chance: &mut Rng) -> Vec<u8> {
        let mut reply = self.whole(query, second(now));
        let (trouble, often) = self.manners.trouble;
        if trouble == Trouble::False && self.realm == Realm::Signed && chance.one_in(often) {
            falsify(&mut reply, chance);
        }
        let bytes = reply.to_bytes();
        [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()
    }

    fn reply(&self, query: &Message, trouble: Trouble, second: u32, chance: &mut Rng) -> Vec<u8> {
        let mut reply = self.whole(query, second);
        let announced = query.sections[2].iter().find(|one| one.rtype == rtype::OPT);
        let size = announced.map_or(PLAIN_SIZE, |opt| usize::from(opt.class).max(PLAIN_SIZE));
        match trouble {
            Trouble::Rcode(rcode) | Trouble::Bare(rcode) => {
                reply.sections[0].clear();
                reply.sections[1].clear();
                reply.set_rcode(rcode);
            }
            Trouble::Lame => {
                let referral =
                    OwnedRecord::new(&Name::root(), rtype::NS, Name::new("ns.root").wire());
                (reply.sections[0], reply.sections[1]) = (Vec::new(), vec![referral]);
                reply.set_rcode(0);
                // From a server that recurses this would mean that there are no data (docs/dns.md).
                reply.flags &= !flag::RA;
            }
            Trouble::Truncated => cut(&mut reply),
            Trouble::False if self.realm == Realm::Signed => falsify(&mut reply, chance),
            Trouble::SmallLetters => reply.question.0 = reply.question.0.lower(),
            Trouble::OtherId => {
                reply = lying(query, &query.question.0);
                reply.id ^= 1 + chance.below(0xffff) as u16;
            }
            Trouble::OtherQuestion => {
                let other = query.question.0.child("a");
                reply = lying(query, &other);
                reply.question.0 = other;
            }
            _ => {}
        }
        if reply.to_bytes().len() > size {
            cut(&mut reply);
        }
        let mut bytes = reply.to_bytes();
        match trouble {
            Trouble::Garbage => bytes.truncate(chance.below(bytes.len())),
            Trouble::Bare(_) => {
                bytes.truncate(12);
                bytes[4..].fill(0);
            }
            _ => {}
        }
        bytes
    }

    /// All there is to say.
    pub(crate) fn whole(&self, query: &Message, second: u32) -> Message {
        let (name, qtype, _) = query.question.clone();
        if self.realm == Realm::Signed {
            let reply = signed::reply(&name, qtype);
            return Message { id: query.id, question: query.question.clone(), ..reply };
        }
        let mut reply = answer_to(query);
        let mut here = name;
        for _ in 0..MAX_ALIASES {
            match self.realm.fact(&here, qtype, second) {
                Fact::Set(set) => reply.sections[0].extend(set),
                Fact::Alias(alias, target) => {
                    reply.sections[0].push(alias);
                    here = target;
                    continue;
                }
                Fact::NoData => reply.sections[1].push(self.soa()),
                Fact::NoName => {
                    reply.sections[1].push(self.soa());
                    reply.set_rcode(NXDOMAIN);
                }
            }
            break;
        }
        self.add_edns(query, &mut reply);
        reply
    }

    /// The apex of what it speaks of; the public servers speak of the root as well.
    fn soa(&self) -> OwnedRecord {
        let apex = match self.realm {
            Realm::Public => Name::root(),
            realm => realm.apex(),
        };
        let numbers = [1, 3600, 600, 86_400, NEGATIVE_TTL].map(u32::to_be_bytes).concat();
        let data = [Name::new("ns.test").wire(), Name::new("admin.test").wire(), &numbers].concat();
        OwnedRecord { ttl: NEGATIVE_TTL, ..OwnedRecord::new(&apex, rtype::SOA, data) }
    }

    fn add_edns(&self, query: &Message, reply: &mut Message) {
        let Some(opt) = query.sections[2].iter().find(|one| one.rtype == rtype::OPT) else {
            return;
        };
        if !self.manners.edns {
            return;
        }
        let mut data = Vec::new();
        if self.manners.cookies
            && let Some(client) = client_cookie(&opt.data)
        {
            data.extend([COOKIE.to_be_bytes(), 16u16.to_be_bytes()].concat());
            data.extend(client);
            data.extend(self.address.port().to_be_bytes().repeat(4));
        }
        let owner = Name::root();
        reply.sections[2].push(OwnedRecord { owner, rtype: rtype::OPT, class: 1232, ttl: 0, data });
    }
}

/// The cookie of the client in an OPT record's data, which has no option before it.
fn client_cookie(data: &[u8]) -> Option<&[u8]> {
    let mut rest = data;
    while let [a, b, c, d, after @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*c, *d]));
        let option = after.get(..len)?;
        if u16::from_be_bytes([*a, *b]) == COOKIE {
            return option.get(..8);
        }
        rest = &after[len..];
    }
    None
}

fn answer_to(query: &Message) -> Message {
    let (name, qtype, _) = &query.question;
    let mut reply = Message::reply(name, *qtype);
    (reply.id, reply.question) = (query.id, query.question.clone());
    reply.flags = flag::QR | flag::RD | flag::RA;
    reply
}

fn cut(reply: &mut Message) {
    reply.sections[0].clear();
    reply.sections[1].clear();
    reply.flags |= flag::TC;
}

/// A lie about a name.
pub(crate) fn lying(query: &Message, name: &Name) -> Message {
    let mut reply = answer_to(query);
    reply.sections[0].push(lie(name, query.question.1));
    reply
}

/// Replies of somebody who cannot see the query. None has all of its id, its question and its letters right.
pub(crate) fn forged(query: &Message, chance: &mut Rng) -> impl Iterator<Item = Message> + use<> {
    let name = &query.question.0;
    let is_mixed = name.wire().iter().any(u8::is_ascii_uppercase);
    let mut all = Vec::new();
    for _ in 0..1 + chance.below(3) {
        let mut reply = lying(query, name);
        match chance.below(4) {
            0 => {
                reply.question.0 = name.parent().unwrap_or_else(|| name.child("a"));
                reply.sections[0] = vec![lie(&reply.question.0, query.question.1)];
            }
            1 => reply.question.1 ^= 1,
            2 if is_mixed => reply.question.0 = name.lower(),
            // A denial, with an id that is a guess.
            3 => {
                reply.id ^= 1 + chance.below(0xffff) as u16;
                reply.sections[0].clear();
                reply.set_rcode(NXDOMAIN);
            }
            _ => reply.id ^= 1 + chance.below(0xffff) as u16,
        }
        all.push(reply);
    }
    all.into_iter()
}

/// The second, as records have it.
pub(crate) fn second(now: Duration) -> u32 {
    now.as_secs() as u32
}
