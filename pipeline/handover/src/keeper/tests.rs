//! What a keeper does as its processes start, talk, crash and end.

use super::*;

/// A keeper, and the number of the process that it starts next.
struct Kept {
    keeper: Keeper,
    next: ProcessId,
    now: Instant,
    done: Vec<KeeperOutput>,
    /// Whether programs can be started.
    can_start: bool,
}

impl Kept {
    fn new() -> Self {
        let (keeper, now) = (Keeper::new(false), Instant::now());
        Self { keeper, next: 1, now, done: Vec::new(), can_start: true }.turned()
    }

    /// Carries everything out, and notes what is not a start.
    fn turned(mut self) -> Self {
        self.turn();
        self
    }

    fn turn(&mut self) {
        self.keeper.turn(self.now);
        while let Some(output) = self.keeper.next_output() {
            if let KeeperOutput::Start(_) = output {
                let started = if self.can_start { Ok(self.next) } else { Err("gone".to_owned()) };
                self.keeper.started(started, self.now);
                self.next += u32::from(self.can_start);
            }
            self.done.push(output);
        }
    }

    fn says(&mut self, id: ProcessId, message: &str) {
        self.keeper.receive(id, &Notice::read(message.as_bytes()), self.now);
        self.turn();
    }

    fn ends(&mut self, id: ProcessId, end: ChildEnd) {
        self.keeper.ended(id, end, self.now);
        self.turn();
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.turn();
    }

    /// What was done since the last call.
    fn take(&mut self) -> Vec<KeeperOutput> {
        std::mem::take(&mut self.done)
    }

    /// The same, without what the manager of this service is told.
    fn take_acts(&mut self) -> Vec<KeeperOutput> {
        let is_report = |output: &KeeperOutput| matches!(output, KeeperOutput::Report(_));
        self.take().into_iter().filter(|output| !is_report(output)).collect()
    }
}

const READY: KeeperOutput = KeeperOutput::Report(KeeperEvent::Ready);
const ALIVE: KeeperOutput = KeeperOutput::Report(KeeperEvent::Alive);

fn start(start: ChildStart) -> KeeperOutput {
    KeeperOutput::Start(start)
}

fn serving() -> Kept {
    let mut kept = Kept::new();
    kept.says(1, "READY=1");
    assert_eq!(kept.take(), [start(ChildStart::Plain), READY]);
    kept
}

#[test]
fn a_process_that_cannot_start_ends_the_keeper_with_its_code() {
    let mut kept = Kept::new();
    kept.ends(1, ChildEnd::Code(78));
    assert_eq!(kept.take().last(), Some(&KeeperOutput::End(78)));
}

#[test]
fn a_crash_is_followed_by_a_process_with_what_was_kept() {
    let mut kept = serving();
    kept.ends(1, ChildEnd::Fault);
    assert_eq!(kept.take(), [start(ChildStart::WithKept), ALIVE]);
    kept.says(2, "READY=1");
    assert_eq!(kept.take(), [READY]);
}

#[test]
fn crashes_in_a_row_cost_pauses_then_the_cache_and_then_all_that_is_kept() {
    let mut kept = serving();
    kept.ends(1, ChildEnd::Fault);
    kept.take();
    kept.ends(2, ChildEnd::Fault);
    assert_eq!(kept.take(), [], "the second one has a pause");
    kept.passes(PAUSE);
    assert_eq!(kept.take(), [start(ChildStart::WithKept)]);
    kept.ends(3, ChildEnd::Fault);
    kept.passes(PAUSE);
    assert_eq!(kept.take(), []);
    kept.passes(PAUSE);
    assert_eq!(kept.take(), [start(ChildStart::WithoutCache)]);
    for id in 4..60 {
        kept.ends(id, ChildEnd::Fault);
        kept.passes(MAX_PAUSE);
        let without_cache = id < 2 * MOST_WITH_CACHE;
        let how = if without_cache { ChildStart::WithoutCache } else { ChildStart::WithoutKept };
        assert_eq!(kept.take_acts(), [start(how)]);
    }
    kept.says(60, "READY=1");
    kept.passes(SILENCE / 2);
    kept.now += LONG;
    kept.ends(60, ChildEnd::Fault);
    assert_eq!(kept.take_acts().last(), Some(&start(ChildStart::WithKept)));
}

#[test]
fn after_a_process_that_has_served_for_a_while_there_is_no_pause() {
    let mut kept = serving();
    for id in 1..3 * MOST_WITH_CACHE {
        kept.says(id, "READY=1");
        kept.passes(SERVED);
        kept.take();
        kept.ends(id, ChildEnd::Fault);
        assert!(matches!(kept.take_acts()[..], [KeeperOutput::Start(_)]), "crash {id}");
    }
    assert_eq!(kept.keeper.faults, 3 * MOST_WITH_CACHE - 1, "they are a row all the same");
}

#[test]
fn the_cache_is_no_cause_of_what_comes_from_outside() {
    let mut kept = serving();
    for id in 1..20 {
        kept.ends(id, if id % 2 == 0 { ChildEnd::Killed } else { ChildEnd::Terminated });
        kept.passes(MAX_PAUSE);
        assert_eq!(kept.take_acts(), [start(ChildStart::WithKept)]);
    }
}

#[test]
fn the_cache_is_no_cause_of_what_a_process_refuses() {
    let mut kept = serving();
    kept.ends(1, ChildEnd::Fault);
    assert_eq!(kept.take_acts(), [start(ChildStart::WithKept)]);
    for id in 2..10 {
        kept.ends(id, ChildEnd::Code(2));
        kept.passes(MAX_PAUSE);
        // It may refuse what is kept.
        let with_kept = id < 2 * MOST_WITH_CACHE;
        let how = if with_kept { ChildStart::WithKept } else { ChildStart::WithoutKept };
        assert_eq!(kept.take_acts(), [start(how)]);
    }
    kept.says(10, "READY=1");
    kept.ends(10, ChildEnd::Code(1));
    kept.passes(MAX_PAUSE);
    assert_eq!(kept.take_acts(), [start(ChildStart::WithoutKept)]);
    assert_eq!(kept.keeper.cache_faults, 2, "it has served");
}

#[test]
fn a_program_that_cannot_be_started_is_tried_after_growing_pauses() {
    let mut kept = serving();
    kept.can_start = false;
    kept.ends(1, ChildEnd::Fault);
    assert_eq!(kept.take_acts(), [start(ChildStart::WithKept)]);
    for pause in [PAUSE, PAUSE * 2, PAUSE * 4] {
        kept.passes(pause - Duration::from_millis(1));
        assert_eq!(kept.take_acts(), []);
        kept.passes(Duration::from_millis(1));
        assert_eq!(kept.take_acts(), [start(ChildStart::WithKept)]);
    }
    kept.can_start = true;
    kept.passes(MAX_PAUSE);
    kept.says(2, "READY=1");
    assert_eq!(kept.take().last(), Some(&READY));
}

#[test]
fn while_no_process_serves_the_service_counts_as_alive_for_some_time() {
    let mut kept = serving();
    kept.ends(1, ChildEnd::Fault);
    kept.take();
    for _ in 0..4 {
        assert_eq!(kept.keeper.next_due(), Some(kept.now + SILENCE / 2));
        kept.passes(SILENCE / 2);
        assert_eq!(kept.take(), [ALIVE]);
    }
    // Another crash begins no other absence.
    kept.ends(2, ChildEnd::Fault);
    kept.passes(PAUSE);
    kept.passes(MAX_ABSENCE);
    kept.take();
    assert!(kept.keeper.absence.is_none());
    kept.says(3, "READY=1");
    kept.ends(3, ChildEnd::Fault);
    assert_eq!(kept.take(), [READY, ALIVE], "it has served");
}

#[test]
fn the_next_process_serves_when_the_one_before_ends() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    assert_eq!(kept.take(), [start(ChildStart::Plain)]);
    kept.says(1, crate::SUCCESSOR);
    assert_eq!(kept.take(), [], "one takes over at a time");
    kept.says(2, "READY=1");
    kept.ends(1, ChildEnd::Code(0));
    kept.says(2, "WATCHDOG=1");
    assert_eq!(kept.take(), [READY, ALIVE]);
    kept.ends(2, ChildEnd::Fault);
    assert_eq!(kept.take_acts(), [start(ChildStart::WithKept)]);
}

#[test]
fn who_asks_before_the_one_before_has_ended_gets_the_next_one_then() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    kept.says(2, "READY=1");
    kept.take();
    kept.says(2, crate::SUCCESSOR);
    assert_eq!(kept.take(), [], "one takes over at a time");
    kept.ends(1, ChildEnd::Code(0));
    assert_eq!(kept.take(), [start(ChildStart::Plain)]);
    kept.ends(3, ChildEnd::Code(1));
    assert!(matches!(kept.take()[..], [KeeperOutput::Tell(2, _)]), "it was asked for once");
}

#[test]
fn a_next_process_that_fails_costs_nothing() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    kept.ends(2, ChildEnd::Code(1));
    kept.says(1, "WATCHDOG=1");
    let tell = |why: &str| KeeperOutput::Tell(1, why.to_owned());
    let ended = tell("the next process has ended with exit code 1");
    assert_eq!(kept.take()[1..], [ended, ALIVE]);
    kept.says(1, crate::SUCCESSOR);
    assert_eq!(kept.take(), [], "not at once");
    assert_eq!(kept.keeper.next_due(), Some(kept.now + REST));
    kept.passes(REST);
    assert_eq!(kept.take(), [start(ChildStart::Plain)], "it may be tried again");
    kept.says(3, "STATUS=no such file");
    kept.ends(3, ChildEnd::Code(1));
    assert_eq!(kept.take(), [tell("no such file")]);
    kept.passes(REST);
    kept.can_start = false;
    kept.says(1, crate::SUCCESSOR);
    kept.says(1, crate::SUCCESSOR);
    assert_eq!(kept.take(), [start(ChildStart::Plain), tell("gone")], "nor if there is no program");
}

#[test]
fn a_process_that_says_nothing_is_ended() {
    let mut kept = serving();
    kept.passes(SILENCE / 2);
    kept.says(1, "WATCHDOG=1");
    kept.passes(SILENCE / 2);
    assert_eq!(kept.take(), [ALIVE]);
    assert_eq!(kept.keeper.next_due(), Some(kept.now + SILENCE / 2));
    kept.passes(SILENCE / 2);
    assert_eq!(kept.take(), [KeeperOutput::Signal(1, KeeperSignal::Abort), ALIVE]);
    kept.turn();
    assert_eq!(kept.take(), []);
    kept.passes(SILENCE);
    assert_eq!(kept.take(), [KeeperOutput::Signal(1, KeeperSignal::Kill), ALIVE]);
    kept.ends(1, ChildEnd::Killed);
    assert_eq!(kept.keeper.faults, 1, "nobody else has killed it");
}

#[test]
fn a_process_that_ends_may_say_nothing() {
    let mut kept = serving();
    kept.says(1, "STOPPING=1");
    kept.passes(SILENCE * 2);
    assert_eq!(kept.take(), [], "it writes a snapshot");
    assert_eq!(kept.keeper.next_due(), None);
}

#[test]
fn a_stop_ends_all_and_then_the_keeper() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    kept.take();
    kept.keeper.stop();
    kept.turn();
    let terminate = |id| KeeperOutput::Signal(id, KeeperSignal::Terminate);
    assert_eq!(
        kept.take(),
        [KeeperOutput::Report(KeeperEvent::Stopping), terminate(1), terminate(2)]
    );
    kept.ends(2, ChildEnd::Code(1));
    kept.ends(1, ChildEnd::Code(0));
    assert_eq!(kept.take(), [KeeperOutput::End(0)]);
}

#[test]
fn a_process_that_ends_because_it_was_told_to_has_not_failed() {
    let ends_with = |is_ready: bool, end| {
        let mut kept = serving();
        kept.ends(1, ChildEnd::Fault);
        if is_ready {
            kept.says(2, "READY=1");
        }
        kept.keeper.stop();
        kept.ends(2, end);
        kept.take().pop().unwrap()
    };
    assert_eq!(ends_with(false, ChildEnd::Code(5)), KeeperOutput::End(0));
    assert_eq!(ends_with(false, ChildEnd::Terminated), KeeperOutput::End(0));
    assert_eq!(ends_with(true, ChildEnd::Terminated), KeeperOutput::End(0));
    assert_eq!(ends_with(true, ChildEnd::Code(5)), KeeperOutput::End(5));
    assert_eq!(ends_with(true, ChildEnd::Killed), KeeperOutput::End(1));
}

#[test]
fn others_have_no_say() {
    let mut kept = serving();
    for message in ["READY=1", "WATCHDOG=1", crate::SUCCESSOR] {
        kept.says(7, message);
    }
    kept.ends(7, ChildEnd::Fault);
    assert_eq!(kept.take(), []);
}

#[test]
fn a_process_that_ends_by_itself_ends_the_keeper() {
    let mut kept = serving();
    kept.ends(1, ChildEnd::Code(0));
    assert_eq!(kept.take(), [KeeperOutput::End(0)]);
}

#[test]
fn who_has_handed_over_and_ends_leaves_nobody_behind() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    kept.says(2, "READY=1");
    kept.says(1, "STOPPING=1");
    kept.ends(2, ChildEnd::Killed);
    kept.take();
    kept.ends(1, ChildEnd::Code(0));
    assert_eq!(kept.take_acts(), [start(ChildStart::WithKept)]);
    kept.says(3, "READY=1");
    kept.ends(3, ChildEnd::Code(0));
    assert_eq!(kept.take_acts(), [KeeperOutput::End(0)], "now it was told to");
}

#[test]
fn a_row_of_crashes_goes_on_if_the_start_takes_long_and_the_work_does_not() {
    let mut kept = serving();
    for id in 1..=MOST_WITH_CACHE {
        kept.take();
        kept.ends(id, ChildEnd::Fault);
        kept.passes(MAX_PAUSE);
        kept.passes(LONG);
        kept.says(id + 1, "READY=1");
    }
    assert_eq!(kept.take_acts(), [start(ChildStart::WithoutCache)]);
}

#[test]
fn a_process_that_does_not_become_ready_is_ended_and_another_one_can_follow() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    kept.take();
    let signal = |signal| KeeperOutput::Signal(2, signal);
    for (wait, expected) in [
        (MAX_START - SILENCE, None),
        (SILENCE, Some(KeeperSignal::Abort)),
        (SILENCE, Some(KeeperSignal::Kill)),
    ] {
        kept.says(1, "WATCHDOG=1");
        kept.now += wait;
        kept.says(1, "WATCHDOG=1");
        let acts: Vec<_> = expected.map(signal).into_iter().collect();
        assert_eq!(kept.take_acts(), acts, "{wait:?}");
    }
    kept.ends(2, ChildEnd::Killed);
    kept.passes(REST);
    kept.says(1, crate::SUCCESSOR);
    let tell = KeeperOutput::Tell(1, "the next process has not become ready".to_owned());
    assert_eq!(kept.take_acts(), [tell, start(ChildStart::Plain)]);
}

/// While none serves nobody waits for long, but a start that takes long comes to its end at last.
#[test]
fn a_process_that_is_slow_at_its_start_gives_way_once_none_serves() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    kept.passes(SILENCE / 2);
    kept.ends(1, ChildEnd::Killed);
    kept.take();
    let mut patience = START;
    for id in 2..9 {
        kept.passes(patience - Duration::from_millis(1));
        assert_eq!(kept.take_acts(), []);
        kept.passes(Duration::from_millis(1));
        assert_eq!(kept.take_acts(), [KeeperOutput::Signal(id, KeeperSignal::Abort)]);
        kept.ends(id, ChildEnd::Fault);
        kept.now = kept.keeper.due.unwrap_or(kept.now);
        kept.turn();
        assert!(matches!(kept.take_acts()[..], [KeeperOutput::Start(_)]));
        patience = (2 * patience).min(MAX_START);
    }
    assert_eq!(patience, MAX_START);
    kept.says(9, "READY=1");
    kept.ends(9, ChildEnd::Killed);
    assert_eq!(kept.keeper.patience(), START, "the row is over");
}
