//! What a file has kept, over a configuration that may have been edited since.

use pmdns_config::{Config, Upstream};

use super::authored::AuthoredChange;
use super::lists::is_called;
use super::upstreams::is_at;
use super::{HeldBack, MAX_CHANGES, Overlay};
use crate::upstream_override::{Presence, UpstreamOverride};
use crate::{KeptChanges, OperatorChange, Subject, What};

/// How often changes are tried that contradict those before them.
const ROUNDS: usize = 3;

/// A kept change that does not hold any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedChange {
    /// What it was about.
    pub subject: Subject,
    /// The sentence about it.
    pub why: String,
    /// Whether the file says the same by now, so that nothing is lost.
    pub is_needless: bool,
}

impl Overlay {
    /// What `kept` says over this configuration, and what of it does not hold any more.
    pub fn of_kept(kept: &KeptChanges, base: &Config) -> (Self, Vec<DroppedChange>) {
        let (mut left_out, mut waiting) = (Vec::new(), Vec::new());
        for change in kept.iter() {
            match fitting(change, base) {
                Some(Ok(change)) => waiting.push(change),
                Some(Err((why, is_needless))) => {
                    left_out.push(left_out_of(change, &why, is_needless));
                }
                None => {}
            }
        }
        let mut overlay = Self::default();
        // Most often all of them hold together.
        let all = waiting.iter().try_fold(overlay.clone(), |all, change| all.and(change, base));
        if let Some(all) = all.ok().filter(|all| all.apply(base).is_ok()) {
            return (all, left_out);
        }
        // A change may need a later one, as the removal of the last upstream needs another.
        let mut reasons = Vec::new();
        for _ in 0..ROUNDS {
            reasons.clear();
            let before = waiting.len();
            for change in std::mem::take(&mut waiting) {
                let next = overlay.and(&change, base);
                match next.and_then(|next| next.apply(base).map(|_| next)) {
                    Ok(next) => overlay = next,
                    Err(why) => {
                        reasons.push(why);
                        waiting.push(change);
                    }
                }
            }
            if waiting.len() == before {
                break;
            }
        }
        let rest = waiting.iter().zip(&reasons);
        left_out.extend(rest.map(|(change, why)| left_out_of(change, why, false)));
        (overlay, left_out)
    }

    /// Holds back what a file has kept, where something else is said until the restart.
    pub fn hold_back_kept(&mut self, kept: &KeptChanges) {
        let hidden = kept.hidden(self.passing()).into_iter();
        let ours = hidden.filter(|one| matches!(one.what, What::Upstream(_) | What::List(_)));
        self.held_back.extend(ours.map(|change| HeldBack { change, why: None }));
    }

    /// The overlay with a change that is kept.
    fn and(&self, change: &OperatorChange, base: &Config) -> Result<Self, String> {
        let (mut next, author) = (self.clone(), change.author.clone());
        match &change.what {
            What::Upstream(what) => {
                next.upstreams.push(AuthoredChange { what: what.clone(), author })
            }
            What::List(new) => {
                let what = next.added(new, base).map_err(|(_, why)| why)?;
                next.lists.push(AuthoredChange { what, author });
            }
            _ => {}
        }
        match next.count() > MAX_CHANGES {
            true => Err(format!("there are {MAX_CHANGES} changes already")),
            false => Ok(next),
        }
    }
}

fn left_out_of(change: &OperatorChange, why: &str, is_needless: bool) -> DroppedChange {
    let why = format!("{}, by {}: {why}", change.what, change.author.by);
    DroppedChange { subject: change.what.subject(), why, is_needless }
}

/// The change as it fits the file; an error: why it does not, and whether that loses nothing. `None`: it is of another kind.
fn fitting(
    change: &OperatorChange,
    base: &Config,
) -> Option<Result<OperatorChange, (String, bool)>> {
    let is_of_file = match &change.what {
        What::Upstream(one) => base.upstreams.iter().any(|of_file| is_at(of_file, &one.address)),
        What::List(new) => base.blocklists.iter().any(|list| is_called(&list.file, &new.name)),
        _ => return None,
    };
    let nothing_left = |why: &str| Some(Err((why.to_owned(), true)));
    let What::Upstream(one) = &change.what else {
        return match is_of_file {
            true => nothing_left("the file has a list of this name"),
            false => Some(Ok(change.clone())),
        };
    };
    let mut fitted = UpstreamOverride::clone(one);
    match (&one.presence, is_of_file) {
        (Presence::Added(_), true) => {
            let of_file = base.upstreams.iter().find(|of_file| is_at(of_file, &one.address));
            let usual = of_file.map(|Upstream { weight, .. }| *weight);
            fitted.presence = Presence::AsInFile;
            fitted.weight = fitted.weight.filter(|weight| Some(*weight) != usual);
            if fitted.is_nothing() {
                return nothing_left("the file has it");
            }
        }
        (Presence::Removed | Presence::AsInFile, false) => {
            return nothing_left("the file has no such upstream");
        }
        (Presence::Added(_), false) | (Presence::Removed | Presence::AsInFile, true) => {}
    }
    Some(Ok(OperatorChange { what: What::Upstream(fitted), author: change.author.clone() }))
}

#[cfg(test)]
mod tests {
    use pmdns_control::NewList;

    use super::*;
    use crate::JournalLine;
    use crate::testing::{author, config};

    const A: &str = "192.0.2.1:53";
    const B: &str = "192.0.2.2:53";
    const NEW: &str = "192.0.2.3:53";

    fn base(addresses: &[&str]) -> Config {
        let mut config = config("lists = \"/var/lib/pmdns/lists\"\n");
        let upstream = |address: &&str| Upstream::at(address.parse().unwrap());
        config.upstreams = addresses.iter().map(upstream).collect();
        config
    }

    fn kept(all: &[What]) -> KeptChanges {
        let mut kept = KeptChanges::default();
        for what in all {
            let change = OperatorChange { what: what.clone(), author: author() };
            kept.take(JournalLine::Set(Box::new(change)));
        }
        kept
    }

    fn upstream(address: &str, presence: Presence, drained: bool) -> What {
        let new = UpstreamOverride::new(address.parse().unwrap(), presence);
        What::Upstream(UpstreamOverride { drained, ..new })
    }

    fn added() -> Presence {
        Presence::Added("default".to_owned())
    }

    fn list(name: &str, view: Option<&str>) -> What {
        What::List(NewList {
            name: name.to_owned(),
            url: "https://lists.example/l".to_owned(),
            address: None,
            refresh_seconds: None,
            views: view.map(str::to_owned).into_iter().collect(),
        })
    }

    /// What holds of these changes over upstreams of the file, and the sentences about the rest.
    fn over(addresses: &[&str], all: &[What]) -> (Vec<String>, Vec<(String, bool)>) {
        let (overlay, left_out) = Overlay::of_kept(&kept(all), &base(addresses));
        let holds = overlay.changes().map(|change| change.what.to_string()).collect();
        (holds, left_out.into_iter().map(|one| (one.why, one.is_needless)).collect())
    }

    #[test]
    fn what_the_file_says_by_now_is_needless_and_what_it_has_no_more_is_too() {
        let all = [
            upstream(NEW, added(), false),
            upstream(A, Presence::Removed, false),
            upstream(B, Presence::AsInFile, true),
        ];
        let holds = [
            "upstream 192.0.2.3:53 added to group default".to_owned(),
            "upstream 192.0.2.1:53 removed".to_owned(),
            "upstream 192.0.2.2:53 drained".to_owned(),
        ];
        assert_eq!(over(&[A, B], &all), (holds.to_vec(), vec![]));
        let (holds, left_out) = over(&[B, NEW], &all);
        assert_eq!(holds, ["upstream 192.0.2.2:53 drained"]);
        let told = [
            "upstream 192.0.2.3:53 added to group default, by user 0: the file has it",
            "upstream 192.0.2.1:53 removed, by user 0: the file has no such upstream",
        ];
        assert_eq!(left_out, told.map(|why| (why.to_owned(), true)));
        let (holds, left_out) = over(&[A, NEW], &[upstream(NEW, added(), true)]);
        assert_eq!(
            (&*holds, &*left_out),
            (&["upstream 192.0.2.3:53 drained".to_owned()][..], &[][..])
        );
    }

    #[test]
    fn what_has_passed_holds_and_what_the_file_has_beside_it_comes_back() {
        let base = base(&[A, B]);
        let mut passed = kept(&[upstream(A, Presence::AsInFile, true), list("ads", None)]);
        let mut passing = OperatorChange { what: list("games", None), author: author() };
        passing.author.until_restart = true;
        passed.take(JournalLine::Set(Box::new(passing.clone())));
        let of_file = kept(&[
            upstream(A, Presence::AsInFile, true),
            upstream(NEW, added(), false),
            list("ads", None),
            list("games", None),
        ]);
        let mut overlay = Overlay::of_kept(&passed, &base).0;
        overlay.hold_back_lists(&base, |config| match config.blocklists.len() {
            2 => Err("too many".to_owned()),
            _ => Ok(()),
        });
        overlay.hold_back_kept(&of_file);
        let texts = |changes: Vec<OperatorChange>| -> Vec<String> {
            changes.iter().map(|change| change.what.to_string()).collect()
        };
        let ads = "list ads added from https://lists.example/l";
        let games = ads.replace("ads", "games");
        assert_eq!(texts(overlay.changes().collect()), ["upstream 192.0.2.1:53 drained", ads]);
        let next: Vec<_> = overlay.passing().collect();
        assert_eq!(next[2], passing, "the next start tries it again");
        let held_back = overlay.held_back.iter().map(|one| one.change.clone()).collect();
        let added = "upstream 192.0.2.3:53 added to group default".to_owned();
        assert_eq!(texts(held_back), [games.clone(), added, games]);
    }

    #[test]
    fn a_change_may_need_a_later_one_and_one_that_leaves_nobody_to_ask_is_left_out() {
        let all = [
            upstream(A, Presence::Removed, false),
            upstream(B, Presence::Removed, false),
            upstream(NEW, added(), false),
        ];
        assert_eq!(over(&[A, B], &all).0.len(), 3);
        let (holds, left_out) = over(&[A, B], &all[..2]);
        assert_eq!(holds, ["upstream 192.0.2.1:53 removed"]);
        let [(why, false)] = &left_out[..] else { panic!("{left_out:?}") };
        assert!(why.contains("192.0.2.2:53 removed, by user 0: nobody would be asked"), "{why}");
        let heavy = UpstreamOverride::new(A.parse().unwrap(), Presence::AsInFile);
        let heavy = What::Upstream(UpstreamOverride { weight: Some(7), ..heavy });
        let (holds, left_out) = over(&[A, B], &[heavy, all[2].clone(), all[1].clone()]);
        assert_eq!((holds.len(), left_out.len()), (2, 1), "only the weight contradicts");
    }

    #[test]
    fn a_list_without_its_view_or_its_folder_is_left_out() {
        let all = [list("ads", None), list("games", Some("kids"))];
        let (holds, left_out) = over(&[A], &all);
        assert_eq!(holds, ["list ads added from https://lists.example/l"]);
        assert!(left_out[0].0.contains("no [[view]] of that name"), "{left_out:?}");
        let mut without = base(&[A]);
        without.control.lists = None;
        let (overlay, left_out) = Overlay::of_kept(&kept(&all[..1]), &without);
        assert!(overlay.is_empty() && left_out[0].why.contains("write `lists` into [control]"));
    }
}
