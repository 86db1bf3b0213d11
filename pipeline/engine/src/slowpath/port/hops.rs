//! The next hops of queries over ports, as one slow path thread sees them. Thread 0 looks for them, and publishes where they
//! are. All threads choose among them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pmdns_nics::{Burst, FramePool};
use pmdns_stages::Packet;
use pmdns_stages::neighbor::NeighborMessage;
use pmdns_stages::next_hop::{HopChange, HopPlan, HopTable, NextHop, NextHops, Routes};

use crate::line_budget::LineBudget;
use crate::news::AllPortNews;
use crate::ports::mac_text;

/// How long no query over a next hop is answered until it is doubted.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a thread looks at the links, for next hops in doubt, and whether the way to an upstream is open again.
const LOOK: Duration = Duration::from_millis(5);

/// The next hops, for one thread.
pub struct Hops {
    /// Over which next hop each upstream is asked.
    pub routes: Arc<Routes>,
    /// Where the next hops are.
    pub table: Arc<HopTable>,
    /// Looks for them; only thread 0 has it.
    pub seeker: Option<Seeker>,
}

/// The search for next hops.
pub struct Seeker {
    /// Their states.
    pub hops: NextHops,
    /// The news of the ports.
    pub news: AllPortNews,
    /// The ports' names, for the log.
    pub names: Vec<String>,
}

/// The next hops of a thread that runs.
pub(super) struct HopWatch {
    parts: Hops,
    next_look: Duration,
    /// How often each link had come up at the last look.
    ups: Vec<u32>,
    /// Whether each upstream had a next hop at the last look.
    open: Vec<bool>,
    /// When the first query left over each next hop since the last reply over it, or since the last doubt.
    unanswered: Vec<Option<Duration>>,
    /// Of the log's lines: a link may flap, and somebody on it may claim to be a next hop at any rate.
    budget: LineBudget,
}

impl HopWatch {
    /// Nothing has been looked at yet.
    pub(super) fn new(parts: Hops, upstreams: usize) -> Self {
        let ups = parts.seeker.iter().flat_map(|seeker| seeker.news.iter().map(|_| 0)).collect();
        let unanswered = vec![None; parts.routes.plans().len()];
        let open = vec![false; upstreams];
        let budget = LineBudget::default();
        Self { parts, next_look: Duration::ZERO, ups, open, unanswered, budget }
    }

    /// Where a query to an upstream goes. If there is nobody to send it to, all who might be are looked for.
    pub(super) fn choose(&self, upstream: usize) -> Option<NextHop> {
        let Hops { routes, table, .. } = &self.parts;
        let chosen = routes.choose(upstream, table);
        if chosen.is_none() {
            routes.doubt_all(upstream, table);
        }
        chosen
    }

    /// A query leaves over a next hop.
    pub(super) fn note_query(&mut self, hop: usize, now: Duration) {
        if let Some(unanswered) = self.unanswered.get_mut(hop) {
            unanswered.get_or_insert(now);
        }
    }

    /// A query over a next hop has got a reply.
    pub(super) fn note_reply(&mut self, hop: usize) {
        if let Some(unanswered) = self.unanswered.get_mut(hop) {
            *unanswered = None;
        }
    }

    /// Takes in what a data core has heard of a next hop.
    pub(super) fn receive(&mut self, packet: &Packet, now: Duration) {
        if let Some(seeker) = &mut self.parts.seeker
            && let Some(message) = NeighborMessage::read(packet.frame.bytes(), packet.layout)
        {
            seeker.hops.receive(usize::from(packet.frame.port()), &message, now);
        }
    }

    /// Writes the questions for next hops that are due. From time to time it also doubts next hops over which no query is
    /// answered. It looks for upstreams whose way is open again, and passes them to `opened`.
    pub(super) fn turn(
        &mut self,
        now: Duration,
        pool: &FramePool,
        frames: &mut Burst,
        mut opened: impl FnMut(usize),
    ) {
        if let Some(seeker) = &mut self.parts.seeker {
            seeker.hops.turn(now, pool, frames);
        }
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        for (hop, unanswered) in self.unanswered.iter_mut().enumerate() {
            if unanswered.take_if(|since| now >= *since + PATIENCE).is_some() {
                self.parts.table.doubt(hop);
            }
        }
        if let Some(seeker) = &mut self.parts.seeker {
            seeker.poll(&mut self.ups, &mut self.budget, now);
        }
        for upstream in 0..self.open.len() {
            let is_open = self.parts.routes.choose(upstream, &self.parts.table).is_some();
            if is_open && !self.open[upstream] {
                opened(upstream);
            }
            self.open[upstream] = is_open;
        }
    }
}

impl Seeker {
    /// Asks anew on links that have come up, and for next hops in doubt, and tells what has changed.
    fn poll(&mut self, ups: &mut [u32], budget: &mut LineBudget, now: Duration) {
        for (port, (news, before)) in self.news.iter().zip(ups).enumerate() {
            if std::mem::replace(before, news.ups()) != *before {
                self.hops.note_link_up(port, now);
            }
        }
        self.hops.heed_doubts(now);
        if let Some(left_out) = budget.turn(Instant::now()) {
            tracing::warn!(
                "{left_out} more changes of next hops were not logged; `pmdns stats` shows where they are now"
            );
        }
        let names = &self.names;
        self.hops.report_changes(|plan, change| match line(budget, names, plan, change) {
            Some((true, text)) => tracing::info!("{text}"),
            Some((false, text)) => tracing::warn!("{text}"),
            None => {}
        });
    }
}

/// The line about what has become of a next hop, and whether it is good news; none: there is no room for it.
fn line(
    budget: &mut LineBudget,
    names: &[String],
    plan: &HopPlan,
    change: HopChange,
) -> Option<(bool, String)> {
    if !budget.has_room() {
        return None;
    }
    let (port, address) = (names.get(plan.port).map_or("", String::as_str), plan.address);
    let text = match change {
        HopChange::Found(mac) => format!("is at {}", mac_text(mac)),
        HopChange::Moved { from, to } => format!(
            "has moved from {} to {}; if nobody replaced it, somebody on the link claims to be it",
            mac_text(from),
            mac_text(to)
        ),
        HopChange::Lost => {
            "does not answer any more; queries through it fail until it does".to_owned()
        }
        HopChange::Missing => {
            let text = format!(
                "port {port}: nobody answers for the next hop {address}; queries through it fail until somebody does. Check \
                 port.gateways, upstream.address, the first of port.vlans, and the link"
            );
            return Some((false, text));
        }
    };
    let is_good = matches!(change, HopChange::Found(_));
    Some((is_good, format!("port {port}: the next hop {address} {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_flaps_or_a_host_that_claims_to_be_the_gateway_cannot_fill_the_log() {
        let (mut budget, now, names) = (LineBudget::default(), Instant::now(), ["p0".to_owned()]);
        let plan = HopPlan { port: 0, address: [192, 0, 2, 1].into(), from: [192, 0, 2, 2].into() };
        let (one, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let changes = [
            HopChange::Found(one),
            HopChange::Lost,
            HopChange::Moved { from: one, to: other },
            HopChange::Missing,
        ];
        let mut lines_at = |now| {
            let left_out = budget.turn(now);
            let all = changes.into_iter().cycle().take(1000);
            let lines: Vec<_> =
                all.filter_map(|change| line(&mut budget, &names, &plan, change)).collect();
            (left_out, lines)
        };
        let (left_out, lines) = lines_at(now);
        assert_eq!((left_out, lines.len()), (None, 20));
        let start = "port p0: the next hop 192.0.2.1 is at 02:00:00:00:00:01";
        assert_eq!(lines[0], (true, start.to_owned()));
        assert!(lines[1..4].iter().all(|(is_good, text)| !is_good && text.contains("192.0.2.1")));
        assert_eq!(lines_at(now + crate::line_budget::PERIOD).0, Some(980));
    }
}
