//! `pmdns upgrade`: waits until another process has taken over.

use std::time::{Duration, Instant};

use pmdns_control::answers::{HandOverState, InstanceState};
use pmdns_control::ask;
use pmdns_control::client::ApiClient;

/// How long the next process may take to begin, and to take over then. It begins when the one before has ended that this one has
/// taken over from, which has 100 seconds.
const BEGINNING: Duration = Duration::from_secs(120);
const PATIENCE: Duration = Duration::from_secs(180);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits for a process other than this one, or says why none has come.
pub(crate) fn wait(instance: &ApiClient, before: u32) -> Result<InstanceState, String> {
    let begun = Instant::now();
    let mut progress = Progress::default();
    loop {
        // While one gives way to the other, nobody may answer.
        let state = instance.get(ask::State).ok();
        if let Some(outcome) = progress.note(state, before, begun.elapsed()) {
            return outcome;
        }
        std::thread::sleep(PAUSE);
    }
}

/// How far it has come.
#[derive(Default)]
struct Progress {
    has_begun: bool,
    /// The process that takes over.
    next: Option<u32>,
}

impl Progress {
    /// What an instance says so long after the request; `None`: none answers. Returned is the outcome, once there is one.
    fn note(
        &mut self,
        state: Option<InstanceState>,
        before: u32,
        since: Duration,
    ) -> Option<Result<InstanceState, String>> {
        match state {
            Some(state) if state.process != before => return Some(Ok(state)),
            Some(InstanceState { hand_over: Some(HandOverState::Failed(why)), .. }) => {
                return Some(Err(why));
            }
            Some(InstanceState { hand_over: Some(HandOverState::UnderWay(next)), .. }) => {
                (self.has_begun, self.next) = (true, next);
            }
            None => self.has_begun = true,
            Some(_) => {}
        }
        let most = if self.has_begun { PATIENCE } else { BEGINNING };
        let late = || match self.next {
            Some(next) => format!(
                "process {next} takes long, and has 10 minutes: `pmdns state` shows who serves; `kill {next}` ends it"
            ),
            None => "it is started, and does not come; its log says why".to_owned(),
        };
        (since >= most).then(|| Err(late()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(process: u32, hand_over: Option<HandOverState>) -> Option<InstanceState> {
        Some(InstanceState { process, hand_over, ..InstanceState::default() })
    }

    #[test]
    fn another_process_is_the_end() {
        let mut progress = Progress::default();
        assert!(progress.note(state(1, None), 1, Duration::ZERO).is_none());
        let under_way = Some(HandOverState::UnderWay(Some(2)));
        assert!(progress.note(state(1, under_way), 1, BEGINNING).is_none());
        assert!(progress.note(None, 1, BEGINNING).is_none(), "nobody answers for a moment");
        let outcome = progress.note(state(2, None), 1, BEGINNING);
        assert_eq!(outcome.unwrap().unwrap().process, 2);
    }

    #[test]
    fn a_process_that_fails_or_does_not_come_says_so() {
        let failed = Some(HandOverState::Failed("no room".to_owned()));
        let outcome = Progress::default().note(state(1, failed), 1, Duration::ZERO);
        assert_eq!(outcome.unwrap().unwrap_err(), "no room");
        assert!(Progress::default().note(state(1, None), 1, BEGINNING).unwrap().is_err());
        let mut begun = Progress { has_begun: true, next: Some(7) };
        assert!(begun.note(state(1, None), 1, BEGINNING).is_none());
        let late = begun.note(None, 1, PATIENCE).unwrap().unwrap_err();
        assert!(late.contains("`kill 7` ends it"), "{late}");
    }
}
