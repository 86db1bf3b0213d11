//! `pmdns trace`: single packets, stage by stage.
//!
//! Each core records every departure of the packets that a filter lets pass. The stretches of a line that is cut are joined by the
//! frame's address and the arrival. An answer of the slow path has another frame; it is joined by arrival, client and question.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use pmdns_config::{readable, type_name};
use pmdns_control::lookup::RuleReport;
use pmdns_control::trace::{TraceReport, TracedPacket, TracedStep};
use pmdns_engine::clock::Clock;
use pmdns_engine::threads::nap;
use pmdns_stages::cache::{Cache, Key};
use pmdns_stages::{StageName, Step, Tick};

use super::PacketWatch;
use super::filter::{Filter, Selection, client_of, headers};
use super::recorder::{PacketRecord, RecordedAnswer};
use super::session::Session;

/// Packets of one trace, without a number and at most.
pub(super) const DEFAULT_PACKETS: u64 = 10;
const MAX_PACKETS: u64 = 1000;
/// Steps of one packet. No line has as many stages.
const MAX_STEPS: usize = 16;
/// How long the last packet may take to its end.
const LINGER: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(5);
/// Cores begin to watch one after another. Packets that come sooner could lack the stages of a core that is late.
const BEGIN: Duration = Duration::from_millis(100);

/// A packet's client and question.
#[derive(Clone, Copy, Debug)]
pub struct TracedQuestion<'p> {
    /// The client, if it is known.
    pub client: Option<IpAddr>,
    /// The name in wire format.
    pub name: &'p [u8],
    /// The type.
    pub qtype: u16,
}

/// Finds the rule that has decided about a packet with these records.
pub type FindRule<'f> =
    &'f mut dyn FnMut(&TracedQuestion<'_>, &[PacketRecord]) -> Option<RuleReport>;

impl PacketWatch {
    /// Follows packets of this selection, until their caller has left or something else ends it.
    ///
    /// # Errors
    ///
    /// Why none are followed.
    pub fn trace(
        &self,
        selection: &Selection,
        find_rule: FindRule<'_>,
        has_left: impl FnMut() -> bool,
    ) -> Result<TraceReport, String> {
        let mut filter = selection.filter(&self.ports, self.wires)?;
        filter.every_stage = true;
        let count = selection.count.unwrap_or(DEFAULT_PACKETS);
        if count > MAX_PACKETS {
            return Err(format!("a trace has at most {MAX_PACKETS} packets"));
        }
        let mut session = self.session(&filter)?;
        let begin = self.clock.now() + self.clock.ticks_of(BEGIN);
        let mut trace = Trace::new(filter, usize::try_from(count).unwrap_or(usize::MAX), begin);
        trace.fill(&mut session, selection.longest(), has_left);
        let dropped = session.end().dropped;
        trace.take(&mut session);
        let (ports, cache) = (&*self.ports, self.cache_jobs.cache());
        Ok(trace.report(Facts { ports, clock: self.clock, cache, find_rule }, dropped))
    }
}

/// The facts that packets are told by.
pub(super) struct Facts<'f> {
    pub(super) ports: &'f [String],
    pub(super) clock: Clock,
    pub(super) cache: &'f Cache,
    pub(super) find_rule: FindRule<'f>,
}

/// The mark of a packet on all cores.
type Mark = (u64, Tick);

/// A packet on its way.
struct Seen {
    client: Option<IpAddr>,
    question: Option<(Box<[u8]>, u16)>,
    records: Vec<PacketRecord>,
}

impl Seen {
    /// Whether there is nothing more to come. An answer of the slow path may come.
    fn has_ended(&self) -> bool {
        self.records
            .iter()
            .any(|record| !record.step.is_on_the_line() && !matches!(record.step, Step::SLOW_PATH))
    }
}

/// The packets so far.
pub(super) struct Trace {
    filter: Filter,
    packets: HashMap<Mark, Seen>,
    count: usize,
    /// Packets that came before are not followed.
    begin: Tick,
}

impl Trace {
    pub(super) fn new(filter: Filter, count: usize, begin: Tick) -> Self {
        Self { filter, packets: HashMap::new(), count, begin }
    }

    /// Follows packets until all have ended, or something else ends it.
    pub(super) fn fill(
        &mut self,
        session: &mut Session,
        longest: Duration,
        mut has_left: impl FnMut() -> bool,
    ) {
        let (start, mut full_since) = (Instant::now(), None);
        loop {
            let taken = self.take(session);
            if self.packets.len() >= self.count {
                let since = *full_since.get_or_insert_with(Instant::now);
                if since.elapsed() > LINGER || self.packets.values().all(Seen::has_ended) {
                    return;
                }
            }
            if has_left() || start.elapsed() > longest {
                return;
            }
            if taken == 0 {
                nap(LOOK);
            }
        }
    }

    /// Takes what has come. Returns how many records there were.
    fn take(&mut self, session: &mut Session) -> usize {
        session.take(|record, frame| {
            self.add(record, frame);
            true
        })
    }

    fn add(&mut self, record: &PacketRecord, frame: &[u8]) {
        if record.received < self.begin {
            return;
        }
        let leaves = record.step == Step::TRANSMIT;
        let headers = headers(frame, self.filter.is_stream(record.port));
        let client = headers.map(|headers| client_of(&headers, leaves));
        let question = headers.and_then(|headers| headers.question(frame));
        let question = question.map(|(name, qtype)| (name.to_ascii_lowercase().into(), qtype));
        let packet = if record.stage.is_none() {
            let waits = |seen: &&mut Seen| {
                seen.records.first().is_some_and(|first| first.received == record.received)
                    && (seen.client, &seen.question) == (client, &question)
            };
            self.packets.values_mut().find(waits)
        } else {
            let is_full = self.packets.len() >= self.count;
            let mark = (record.frame, record.received);
            match is_full {
                true => self.packets.get_mut(&mark),
                false => Some(self.packets.entry(mark).or_insert_with(|| Seen {
                    client,
                    question,
                    records: Vec::new(),
                })),
            }
        };
        if let Some(packet) = packet
            && packet.records.len() < MAX_STEPS
        {
            packet.records.push(*record);
        }
    }

    pub(super) fn report(self, mut facts: Facts<'_>, dropped: u64) -> TraceReport {
        let mut packets: Vec<Seen> = self.packets.into_values().collect();
        for packet in &mut packets {
            packet.records.sort_by_key(|record| record.seen);
        }
        packets.sort_by_key(|packet| {
            packet.records.first().map(|record| (record.received, record.seen))
        });
        let packets = packets.into_iter().map(|packet| packet.report(&mut facts));
        TraceReport { packets: packets.collect(), dropped }
    }
}

impl Seen {
    fn report(self, facts: &mut Facts<'_>) -> TracedPacket {
        let Facts { ports, clock, find_rule, .. } = facts;
        let (shard, bucket) = self.bucket(facts.cache).unzip();
        let asked = self.question.as_ref().map(|(name, qtype)| TracedQuestion {
            client: self.client,
            name,
            qtype: *qtype,
        });
        let rule = asked.and_then(|asked| find_rule(&asked, &self.records));
        let steps = self.records.iter().map(|record| TracedStep {
            stage: record.stage.map_or("slow_path", |stage| stage.name()).to_owned(),
            exit: record.step.to_string(),
            cycles: record.ticks,
            after_ns: u64::try_from(
                clock.duration_of(record.seen.saturating_sub(record.received)).as_nanos(),
            )
            .unwrap_or(u64::MAX),
            answer: answer(record.answer),
        });
        let (first, last) = (self.records.first(), self.records.iter().rev());
        TracedPacket {
            port: first
                .and_then(|one| ports.get(usize::from(one.port)).cloned())
                .unwrap_or_default(),
            client: self.client,
            question: self
                .question
                .map(|(name, qtype)| format!("{} {}", readable(&name), type_name(qtype))),
            view: last.clone().map(|record| record.view).find(|view| *view > 0).unwrap_or(0),
            frame: first.map_or(0, |record| record.frame),
            key: last.clone().map(|record| record.key).find(|key| *key > 0).unwrap_or(0),
            shard,
            bucket,
            rule,
            steps: steps.collect(),
        }
    }

    /// Where the cache was searched for its answer: the shard, and the bucket there.
    fn bucket(&self, cache: &Cache) -> Option<(u64, u64)> {
        let (name, qtype) = self.question.as_ref()?;
        let is_lookup = |record: &&PacketRecord| record.stage == Some(StageName::Lookup);
        let record = self.records.iter().find(is_lookup)?;
        let (qclass, flags) = record.class_and_flags;
        let key = Key { name, qtype: *qtype, qclass, flags };
        let (shard, bucket) = cache.bucket_of(key.hash(cache.seed(), record.key));
        Some((shard as u64, bucket as u64))
    }
}

fn answer(answer: RecordedAnswer) -> Option<String> {
    match answer {
        RecordedAnswer::None => None,
        RecordedAnswer::Rcode(rcode) => Some(format!("rcode {rcode}")),
        RecordedAnswer::Truncated => Some("truncated".to_owned()),
        RecordedAnswer::Cached(place) => {
            Some(format!("cached, shard {} line {}", place >> 32, place & 0xffff_ffff))
        }
        RecordedAnswer::Local(place) => Some(format!("by a rule, entry {place:#x}")),
        RecordedAnswer::Fixed => Some("fixed".to_owned()),
    }
}

#[cfg(test)]
mod tests;
