//! Answers by rcode and type, by transport and view, and by the list that decides.
//!
//! A core counts an answer where it leaves: two additions in tables of its own, and one more if a list decides. It publishes
//! the tables with its other counters.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::limits::MAX_VIEWS;
use pmdns_config::narrow::to_u8;
use pmdns_nics::stream::StreamHeader;
use pmdns_stages::policy::ListNumber;
use pmdns_stages::wire::dns::{Rcode, header};
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::layout::Layout;
use pmdns_stages::{Answer, Packet};

/// Names of the rcodes that are counted apart, by number, and of three more classes.
pub(crate) const RCODES: [&str; 9] = [
    "noerror",
    "formerr",
    "servfail",
    "nxdomain",
    "notimp",
    "refused",
    "other",
    "badvers",
    "badcookie",
];
const OTHER_RCODE: usize = 6;
const BADVERS: usize = 7;
const BADCOOKIE: usize = 8;

/// The types that are counted apart, and their names.
const TYPES: [(u8, &str); 15] = [
    (1, "a"),
    (2, "ns"),
    (5, "cname"),
    (6, "soa"),
    (12, "ptr"),
    (15, "mx"),
    (16, "txt"),
    (28, "aaaa"),
    (33, "srv"),
    (35, "naptr"),
    (43, "ds"),
    (48, "dnskey"),
    (64, "svcb"),
    (65, "https"),
    (255, "any"),
];
/// Classes of types. The last one has all others.
const QTYPES: usize = TYPES.len() + 1;
/// The class of each type that fits in a byte.
const CLASS_OF: [u8; 256] = {
    let mut classes = [to_u8(TYPES.len()); 256];
    let mut class = 0;
    while class < TYPES.len() {
        classes[TYPES[class].0 as usize] = to_u8(class);
        class += 1;
    }
    classes
};

/// Views, and none.
const VIEWS: usize = MAX_VIEWS + 1;
const KINDS: usize = RCODES.len() * QTYPES;
const CLIENTS: usize = VIEWS * ClientTransport::ALL.len();
const LISTS: usize = ListNumber::COUNT;
const COUNT: usize = KINDS + CLIENTS + LISTS;

/// How a client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTransport {
    /// A datagram.
    Udp,
    /// RFC 7766.
    Tcp,
    /// RFC 7858.
    Tls,
    /// RFC 8484.
    Https,
    /// RFC 9250.
    Quic,
}

impl ClientTransport {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// How the client of this frame did, by its place in [`Self::ALL`].
    #[inline(always)]
    pub fn index_of(layout: Layout, frame: &[u8]) -> usize {
        if !layout.is_stream() {
            return Self::Udp as usize;
        }
        StreamHeader::read(frame)
            .map_or(Self::Tcp as usize, |header| 1 + header.transport() as usize)
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        ["udp", "tcp", "tls", "https", "quic"][self as usize]
    }
}

/// Answers of one worker, or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    kinds: [u64; KINDS],
    clients: [u64; CLIENTS],
    lists: [u64; LISTS],
}

/// The answers last published by their worker.
#[derive(Debug)]
pub(crate) struct PublishedAnswers([AtomicU64; COUNT]);

impl Answers {
    /// Counts the answer that this packet is; one that is no answer to a query is not counted.
    #[inline(always)]
    pub fn note_packet(&mut self, packet: &Packet) {
        match packet.answer {
            // ARP, ping.
            Answer::None => return,
            Answer::Cached(_) => {}
            Answer::Rcode(Rcode::BADVERS) => return self.note_as(packet, BADVERS),
            Answer::Rcode(Rcode::BADCOOKIE) => return self.note_as(packet, BADCOOKIE),
            _ => self.note_list(packet.extended_error),
        }
        self.note(packet.layout, packet.frame.bytes());
    }

    /// Counts an answer of the slow path.
    #[inline(always)]
    pub fn note(&mut self, layout: Layout, frame: &[u8]) {
        let low_flags = frame.get(layout.dns() + header::FLAGS + 1).copied().unwrap_or_default();
        self.count(layout, frame, usize::from(low_flags & 0xf).min(OTHER_RCODE));
    }

    /// Counts what a list has denied, or has left unanswered.
    #[inline]
    pub fn note_list(&mut self, why: Option<ExtendedError>) {
        let list = why.and_then(ExtendedError::rule);
        if let Some(count) = list.and_then(|list| self.lists.get_mut(usize::from(list))) {
            *count += 1;
        }
    }

    /// An rcode with bits in the OPT record.
    #[cold]
    fn note_as(&mut self, packet: &Packet, rcode: usize) {
        self.count(packet.layout, packet.frame.bytes(), rcode);
    }

    #[inline(always)]
    fn count(&mut self, layout: Layout, frame: &[u8], rcode: usize) {
        let class = CLASS_OF.get(usize::from(layout.qtype)).copied();
        let class = class.map_or(TYPES.len(), |class| usize::from(class) % QTYPES);
        self.kinds[rcode * QTYPES + class] += 1;
        let asked = ClientTransport::index_of(layout, frame);
        self.clients[asked * VIEWS + usize::from(layout.who.view()) % VIEWS] += 1;
    }

    /// Adds the answers of another worker.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.values_mut().zip(other.values()) {
            *mine += theirs;
        }
    }

    /// Answers by rcode, in the order of [`RCODES`].
    pub fn rcodes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RCODES.into_iter().zip(self.kinds.chunks(QTYPES).map(|row| row.iter().sum()))
    }

    /// Answers by class of type.
    pub fn qtypes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = TYPES.into_iter().map(|(_, name)| name).chain(["other"]);
        let sum = |class| self.kinds.iter().skip(class).step_by(QTYPES).sum();
        names.enumerate().map(move |(class, name)| (name, sum(class)))
    }

    /// Answers by transport.
    pub fn transports(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ClientTransport::ALL
            .map(ClientTransport::name)
            .into_iter()
            .zip(self.clients.chunks(VIEWS).map(|row| row.iter().sum()))
    }

    /// Answers by view; the first are those to clients in none.
    pub fn views(&self) -> impl Iterator<Item = u64> {
        (0..VIEWS).map(|view| self.clients.iter().skip(view).step_by(VIEWS).sum())
    }

    /// Queries that a list decided.
    pub fn of_list(&self, list: ListNumber) -> u64 {
        self.lists.get(list.index()).copied().unwrap_or_default()
    }

    fn values(&self) -> impl Iterator<Item = u64> {
        self.kinds.iter().chain(&self.clients).chain(&self.lists).copied()
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.kinds.iter_mut().chain(&mut self.clients).chain(&mut self.lists)
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self { kinds: [0; KINDS], clients: [0; CLIENTS], lists: [0; LISTS] }
    }
}

impl Default for PublishedAnswers {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; COUNT])
    }
}

impl PublishedAnswers {
    /// Publishes. Only the worker that owns `answers` may call this.
    pub(crate) fn publish(&self, answers: &Answers) {
        for (slot, value) in self.0.iter().zip(answers.values()) {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// The answers as last published.
    pub(crate) fn read(&self) -> Answers {
        let mut answers = Answers::default();
        for (value, slot) in answers.values_mut().zip(&self.0) {
            *value = slot.load(Ordering::Relaxed);
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, config};
    use pmdns_nics::Burst;
    use pmdns_stages::testing::query;

    const RULES: &str = "[block]\nnames = [\"blocked.example\"]\n\
        [[local]]\nname = \"local.example\"\ntype = \"AAAA\"\ndata = \"2001:db8::1\"\n";

    fn found<'n>(counts: impl Iterator<Item = (&'n str, u64)>) -> Vec<(&'n str, u64)> {
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// All answers of a rig that was asked these.
    fn asked(more: &str, names: &[&str]) -> Answers {
        let mut rig = Rig::new(&config(&format!("{RULES}{more}")));
        rig.learn(&query("hit.example. A"), &[(0, 1, 60, vec![192, 0, 2, 1])]);
        let mut burst: Burst =
            names.iter().map(|name| rig.frame(&query(name).frame_bytes())).collect();
        rig.offer(0, &mut burst);
        rig.settle();
        let mut all = Answers::default();
        rig.workers.iter().for_each(|worker| all.merge(&worker.counters().answers));
        all
    }

    #[test]
    fn every_answer_is_in_each_table_once() {
        let cut = "[[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
            [[placement]]\nstages = \"lookup..encode\"\ncores = [2]\n";
        for placement in ["", cut] {
            let names = [
                "hit.example. A",
                "hit.example. A",
                "local.example. AAAA",
                "blocked.example. HTTPS",
            ];
            let all = asked(placement, &names);
            assert_eq!(found(all.rcodes()), [("noerror", 3), ("nxdomain", 1)], "{placement}");
            assert_eq!(found(all.qtypes()), [("a", 2), ("aaaa", 1), ("https", 1)]);
            assert_eq!(found(all.transports()), [("udp", 4)]);
            assert_eq!(all.views().sum::<u64>(), 4);
            assert_eq!(all.of_list(ListNumber::Block), 1);
            assert_eq!(all.lists.iter().sum::<u64>(), 1, "no other list decided anything");
        }
    }

    #[test]
    fn what_a_list_of_a_view_drops_counts_for_the_list_only() {
        let name = format!("pmdns-answers-{}.txt", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, "silent.example\n").unwrap();
        let view = "[[view]]\nname = \"kids\"\nclients = [\"0.0.0.0/0\", \"::/0\"]\n";
        let list =
            format!("[[blocklist]]\nfile = {file:?}\naction = \"drop\"\nviews = [\"kids\"]\n");
        let all = asked(&format!("{view}{list}"), &["local.example. AAAA", "silent.example. A"]);
        assert_eq!(all.of_list(ListNumber::List(0)), 1);
        assert_eq!(found(all.qtypes()), [("aaaa", 1)]);
        assert_eq!(all.views().take(3).collect::<Vec<_>>(), [0, 1, 0]);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn types_and_rcodes_have_a_class_each() {
        for (number, name) in TYPES {
            assert_eq!(
                usize::from(CLASS_OF[usize::from(number)]),
                TYPES.iter().position(|one| one.1 == name).unwrap()
            );
        }
        assert_eq!(
            CLASS_OF.iter().filter(|class| usize::from(**class) < TYPES.len()).count(),
            TYPES.len()
        );
        let mut frame = vec![0; 64];
        let mut answers = Answers::default();
        let layout = Layout { l4: 34, qtype: 257, ..Layout::default() };
        frame.resize(layout.dns() + 12, 0);
        for rcode in 0..16 {
            frame[layout.dns() + 3] = 0x80 | rcode;
            answers.note(layout, &frame);
        }
        assert_eq!(found(answers.qtypes()), [("other", 16)]);
        let rcodes: Vec<u64> = answers.rcodes().map(|(_, count)| count).collect();
        assert_eq!(rcodes, [1, 1, 1, 1, 1, 1, 10, 0, 0]);
    }

    #[test]
    fn what_is_published_is_read() {
        let answers = asked("", &["hit.example. A", "blocked.example. A"]);
        let published = PublishedAnswers::default();
        published.publish(&answers);
        assert_eq!(published.read(), answers);
        let mut twice = answers.clone();
        twice.merge(&answers);
        assert_eq!(twice.of_list(ListNumber::Block), 2);
    }
}
