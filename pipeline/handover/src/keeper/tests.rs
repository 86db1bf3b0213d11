//! What a keeper does as its processes start, talk, crash and end.

use super::*;

/// A keeper, and the number of the process that it starts next.
struct Kept {
    keeper: Keeper,
    next: ProcessId,
    now: Instant,
    done: Vec<KeeperOutput>,
}

impl Kept {
    fn new() -> Self {
        let (keeper, now) = (Keeper::new(false), Instant::now());
        Self { keeper, next: 1, now, done: Vec::new() }.turned()
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
                self.keeper.started(Ok(self.next), self.now);
                self.next += 1;
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
}

const READY: KeeperOutput = KeeperOutput::Report(KeeperEvent::Ready);

fn serving() -> Kept {
    let mut kept = Kept::new();
    kept.says(1, "READY=1");
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::Plain), READY]);
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
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::WithKept)]);
    kept.says(2, "READY=1");
    assert_eq!(kept.take(), [READY]);
}

#[test]
fn crashes_in_a_row_cost_pauses_and_then_the_cache() {
    let mut kept = serving();
    kept.ends(1, ChildEnd::Fault);
    kept.take();
    kept.ends(2, ChildEnd::Code(101));
    assert_eq!(kept.take(), [], "the second one has a pause");
    kept.passes(PAUSE);
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::WithKept)]);
    kept.ends(3, ChildEnd::Fault);
    kept.passes(PAUSE);
    assert_eq!(kept.take(), []);
    kept.passes(PAUSE);
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::WithoutCache)]);
    for id in 4..60 {
        kept.ends(id, ChildEnd::Fault);
        kept.passes(MAX_PAUSE);
        assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::WithoutCache)]);
    }
    kept.says(60, "READY=1");
    kept.passes(SILENCE / 2);
    kept.now += LONG;
    kept.ends(60, ChildEnd::Fault);
    assert_eq!(kept.take().last(), Some(&KeeperOutput::Start(ChildStart::WithKept)));
}

#[test]
fn the_cache_is_no_cause_of_what_comes_from_outside() {
    let mut kept = serving();
    for id in 1..10 {
        kept.ends(id, ChildEnd::Killed);
        kept.passes(MAX_PAUSE);
        assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::WithKept)]);
    }
}

#[test]
fn the_next_process_serves_when_the_one_before_ends() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::Plain)]);
    kept.says(1, crate::SUCCESSOR);
    assert_eq!(kept.take(), [], "one takes over at a time");
    kept.says(2, "READY=1");
    kept.ends(1, ChildEnd::Code(0));
    kept.says(2, "WATCHDOG=1");
    assert_eq!(kept.take(), [READY, KeeperOutput::Report(KeeperEvent::Alive)]);
    kept.ends(2, ChildEnd::Fault);
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::WithKept)]);
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
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::Plain)]);
    kept.ends(3, ChildEnd::Code(1));
    assert_eq!(kept.take(), [], "it was asked for once");
}

#[test]
fn a_next_process_that_fails_costs_nothing() {
    let mut kept = serving();
    kept.says(1, crate::SUCCESSOR);
    kept.ends(2, ChildEnd::Code(1));
    kept.says(1, "WATCHDOG=1");
    assert_eq!(kept.take().last(), Some(&KeeperOutput::Report(KeeperEvent::Alive)));
    kept.says(1, crate::SUCCESSOR);
    assert_eq!(kept.take(), [KeeperOutput::Start(ChildStart::Plain)], "it may be tried again");
}

#[test]
fn a_process_that_says_nothing_is_ended() {
    let mut kept = serving();
    kept.passes(SILENCE / 2);
    kept.says(1, "WATCHDOG=1");
    kept.passes(SILENCE / 2);
    assert_eq!(kept.take(), [KeeperOutput::Report(KeeperEvent::Alive)]);
    assert_eq!(kept.keeper.next_due(), Some(kept.now + SILENCE / 2));
    kept.passes(SILENCE / 2);
    assert_eq!(kept.take(), [KeeperOutput::Signal(1, KeeperSignal::Abort)]);
    kept.turn();
    assert_eq!(kept.take(), []);
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
fn others_have_no_say() {
    let mut kept = serving();
    for message in ["READY=1", "WATCHDOG=1", crate::SUCCESSOR] {
        kept.says(7, message);
    }
    kept.ends(7, ChildEnd::Fault);
    assert_eq!(kept.take(), []);
    assert!(kept.keeper.knows(1) && !kept.keeper.knows(7));
}

#[test]
fn a_process_that_ends_by_itself_ends_the_keeper() {
    let mut kept = serving();
    kept.ends(1, ChildEnd::Code(0));
    assert_eq!(kept.take(), [KeeperOutput::End(0)]);
}
