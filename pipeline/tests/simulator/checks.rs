//! What has to hold: the invariants of docs/architecture.md that a counter can tell of.

use pmdns_counters::Totals;
use pmdns_engine::counters::Counters;
use pmdns_engine::slowpath::CountersSnapshot;
use pmdns_stages::next_hop::HopReport;
use pmdns_stages::{Exception, Reason, StageName, Step};

use crate::history::History;
use crate::stepping::port_wire::FAR_MAC;

/// What holds at any time. The sums over all counters take longer than the step that changes them.
pub(crate) fn check_sums(history: &History) -> Result<(), String> {
    let totals = history.line.totals();
    holds(totals.balance(), || format!("frames are not accounted for: {totals:?}"))?;
    let forgotten = history.clients.forgotten;
    if forgotten > 0 {
        let counted = counted(history, &totals);
        let what = "clients are past their deadline without an answer";
        holds(forgotten <= counted, || format!("{forgotten} {what}, {counted} are counted"))?;
    }
    Ok(())
}

/// What holds after each step, and is looked at after each.
pub(crate) fn check_step(history: &History) -> Result<(), String> {
    if let Some(wrong) = &history.internet.wrong {
        return Err(wrong.clone());
    }
    let settings = &history.start.config.slowpath;
    for (number, thread) in history.line.counters().enumerate() {
        let shards = history.start.config.slow_path_shards();
        let share = |limit: usize| (limit / shards).max(1) as u64;
        let (pending, waiting) = (thread.pending, thread.waiting);
        let is_bound =
            pending <= share(settings.max_pending) && waiting <= share(settings.max_waiting);
        holds(is_bound, || format!("thread {number} has {pending} pending, {waiting} waiting"))?;
        let (misses, ended) = (thread.misses, thread.ended() + waiting);
        holds(misses == ended, || format!("of {misses} misses {ended} have ended or wait"))?;
    }
    let sockets = history.line.slow_path.iter().map(|thread| thread.open_sockets());
    let most = sockets.max().unwrap_or(0);
    holds(most <= history.start.rig.sockets, || format!("{most} sockets are open"))?;
    let mut over_port = history.line.slow_path.iter().map(|thread| thread.over_port());
    holds(over_port.all(|(queries, most)| queries <= most), || {
        "too many queries over a port".into()
    })
}

/// What holds when nothing is under way any more.
pub(crate) fn check_quiet(history: &History) -> Result<(), String> {
    check_step(history)?;
    check_sums(history)?;
    for thread in &history.line.slow_path {
        holds(thread.resolver.is_idle(), || "questions are under way that nobody asks".into())?;
        let sockets = thread.open_sockets();
        holds(sockets == 0, || format!("{sockets} sockets are left"))?;
        let (queries, _) = thread.over_port();
        holds(queries == 0, || format!("{queries} UDP ports are left"))?;
    }
    if let Some(link) = &history.line.link {
        let claimed = link.sources.claimed();
        holds(claimed == 0, || format!("{claimed} UDP ports have an owner"))?;
        let mut hops = link.table.report(history.line.now());
        let is_found = |hop: HopReport| hop.state.is_usable() && hop.mac == Some(FAR_MAC);
        holds(hops.all(is_found), || "a next hop is not where it is".into())?;
        let (fed, ended) = (link.fed, ended_on_the_link(history));
        holds(fed == ended, || format!("of {fed} frames from the link {ended} have ended"))?;
    }
    let sockets = history.internet.open_sockets();
    holds(sockets == 0, || format!("{sockets} sockets are open that nobody knows of"))?;
    let fed = history.line.link.as_ref().map_or(0, |link| link.fed);
    let (totals, sent) = (history.line.totals(), history.clients.sent + fed);
    holds(totals.received == sent, || format!("{sent} frames have come: {totals:?}"))?;
    let (waiting, counted) = (history.clients.unanswered(), counted(history, &totals));
    holds(waiting == counted, || {
        format!("{waiting} queries have no answer, and {counted} are counted: {totals:?}")
    })?;
    let frames = history.line.rig.pool.in_use();
    holds(frames == 0, || format!("{frames} frames are in use"))
}

/// What holds after the end.
pub(crate) fn check_end(history: &History) -> Result<(), String> {
    let totals = history.line.totals();
    holds(totals.balance() && totals.held == 0, || format!("frames are lost: {totals:?}"))?;
    let taken = history.line.link.as_ref().map_or(0, |link| link.taken);
    let sent = history.clients.answered + taken;
    holds(totals.transmitted == sent, || format!("{sent} frames have come: {totals:?}"))?;
    for thread in history.line.counters() {
        let CountersSnapshot { misses, pending, waiting, .. } = thread;
        holds(pending == 0 && waiting == 0, || format!("{pending} pending, {waiting} waiting"))?;
        holds(misses == thread.ended(), || format!("of {misses} misses {} ended", thread.ended()))?;
    }
    Ok(())
}

/// Queries that are counted among those without an answer.
fn counted(history: &History, totals: &Totals) -> u64 {
    let threads = history.line.counters().map(|thread| unanswered(&thread));
    let of_link = history.line.link.iter().map(|_| dropped_of_link(history));
    totals.dropped + totals.exceptions + threads.sum::<u64>() - of_link.sum::<u64>()
}

/// Frames from the far end of the link that have gone to the slow path, or were dropped.
pub(crate) fn ended_on_the_link(history: &History) -> u64 {
    let workers = history.line.rig.workers.iter();
    let replies = workers.map(|worker| worker.counters().tally.replies);
    replies.sum::<u64>() + dropped_of_link(history)
}

/// Frames from the far end of the link that were dropped. No query of a client is dropped so early on the line, and what else
/// clients send is not Ethernet's.
fn dropped_of_link(history: &History) -> u64 {
    let workers = history.line.rig.workers.iter().map(|worker| worker.counters());
    workers.map(|counters| counters.tally.replies_lost + dropped_early(&counters)).sum()
}

fn dropped_early(counters: &Counters) -> u64 {
    let exits =
        [StageName::Parse, StageName::Neighbor].map(|stage| &counters.meters[stage as usize].exits);
    let reasons = Reason::ALL.iter().map(|reason| Step::drop(*reason));
    let others = [Exception::Arp, Exception::Icmp, Exception::Icmpv6].map(Step::exception);
    let steps = reasons.chain(others);
    steps.map(|step| exits.iter().map(|exits| exits.of(step)).sum::<u64>()).sum()
}

/// Misses that have ended without an answer.
fn unanswered(thread: &CountersSnapshot) -> u64 {
    let answered = thread.answered_from_cache_late
        + thread.answered
        + thread.answered_for_subnet
        + thread.stale
        + thread.nxdomain_cut
        + thread.servfail;
    thread.ended() - answered
}

fn holds(condition: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(what()) }
}
