//! Upstreams that are added, removed and drained at run time, or get another weight.

use pmdns_config::{Config, DEFAULT_GROUP, Strategy, Upstream, UpstreamAddress};
use pmdns_control::{NewUpstream, Refusal, UpstreamState, named};

use super::authored::{AuthoredChange, line_of};
use super::{Overlay, UpstreamChange};
use crate::upstream_override::{Presence, UpstreamOverride};
use crate::{Author, JournalLine, Refused, Subject};

impl Overlay {
    /// Takes a change in. Returns what it does, and the line that keeps it.
    pub(super) fn change_upstream(
        &mut self,
        change: &UpstreamChange,
        base: &Config,
        author: &Author,
    ) -> Result<(String, JournalLine), Refused> {
        let (UpstreamChange::Add(NewUpstream { address, .. })
        | UpstreamChange::Remove(address)
        | UpstreamChange::Set(address, _)) = change;
        let wrong = |why: String| (Refusal::Wrong, format!("`{address}`: {why}"));
        let address: UpstreamAddress =
            address.parse().map_err(|error| wrong(format!("{error}")))?;
        let of_file = base.upstreams.iter().find(|one| is_at(one, &address));
        let subject = Subject::Upstream(address.to_string());
        let is_passing = self.is_passing(&subject, author);
        let place = self.upstreams.iter().position(|said| is_same(&said.what.address, &address));
        let said = place.map(|place| self.upstreams.remove(place).what);
        let is_asked = match said.as_ref().map(|said| &said.presence) {
            Some(Presence::Removed) => false,
            Some(Presence::Added(_)) => true,
            Some(Presence::AsInFile) | None => of_file.is_some(),
        };
        // What is said of one that the file has no more can be taken back.
        let is_known =
            is_asked || said.as_ref().is_some_and(|said| said.presence == Presence::AsInFile);
        let needs_none = match change {
            UpstreamChange::Add(_) => true,
            UpstreamChange::Remove(_) => is_passing,
            UpstreamChange::Set(..) => false,
        };
        if !is_known && !needs_none {
            let asked =
                self.apply(base).map_or_else(|_| base.upstreams.clone(), |one| one.upstreams);
            let asked = asked.iter().filter(|one| !is_at(one, &address));
            let asked = named(asked.map(|one| one.address.to_string()));
            let why = format!("upstream {address} is not asked; {asked}");
            return Err((Refusal::Unknown, why));
        }
        let fresh = |presence| UpstreamOverride::new(address.clone(), presence);
        let (said, done) = match change {
            UpstreamChange::Add(_) if is_asked && !is_passing => {
                return Err(wrong("this upstream is asked already".to_owned()));
            }
            UpstreamChange::Add(NewUpstream { group, .. }) => {
                match added(&address, group.as_ref(), of_file).map_err(wrong)? {
                    Presence::AsInFile => {
                        (fresh(Presence::AsInFile), "is asked again, as the file says".to_owned())
                    }
                    added => (fresh(added), "is asked".to_owned()),
                }
            }
            UpstreamChange::Remove(_) => {
                let presence = of_file.map_or(Presence::AsInFile, |_| Presence::Removed);
                (fresh(presence), "is not asked any more".to_owned())
            }
            UpstreamChange::Set(_, state) => {
                let mut said = said.unwrap_or_else(|| fresh(Presence::AsInFile));
                let done = set(&mut said, *state, of_file).map_err(wrong)?;
                (said, done)
            }
        };
        let done = format!("upstream {address} {done}");
        if said.is_nothing() {
            return Ok((done, JournalLine::Unset(subject)));
        }
        let said = AuthoredChange { what: said, author: author.clone() };
        let line = line_of(&said);
        self.upstreams.push(said);
        Ok((done, line))
    }

    /// Whether what is said of an upstream ends with the process.
    pub fn is_upstream_passing(&self, address: &UpstreamAddress) -> bool {
        let mut passing = self.upstreams.iter().filter(|said| said.author.until_restart);
        passing.any(|said| is_same(&said.what.address, address))
    }

    pub(super) fn apply_upstreams(&self, base: &Config, config: &mut Config) -> Result<(), String> {
        for AuthoredChange {
            what: UpstreamOverride { address, presence, drained, weight }, ..
        } in &self.upstreams
        {
            let place = config.upstreams.iter().position(|one| is_at(one, address));
            let upstream = match (presence, place) {
                (Presence::Removed, Some(place)) => {
                    config.upstreams.remove(place);
                    continue;
                }
                (Presence::Added(group), None) => {
                    let (group, address) = (group.clone(), address.clone());
                    config.upstreams.push(Upstream { group, ..Upstream::at(address) });
                    config.upstreams.last_mut()
                }
                (Presence::Added(_) | Presence::AsInFile, Some(place)) => {
                    config.upstreams.get_mut(place)
                }
                // The file has it no more.
                (Presence::Removed | Presence::AsInFile, None) => continue,
            };
            let Some(upstream) = upstream else { continue };
            upstream.is_drained = *drained;
            upstream.weight = weight.unwrap_or(upstream.weight);
            let (group, of_upstream) = (upstream.group.clone(), upstream.weight);
            let counts = of_upstream == 1 || config.strategy_of(&group) == Strategy::RoundRobin;
            if weight.is_some() && !counts {
                return Err(format!(
                    "weights mean nothing in group {group}, which is not asked by turns. Write strategy = \"round_robin\" into its \
                     [[group]] in the file and reload, or give upstream {address} the weight 1"
                ));
            }
        }
        for Upstream { group, .. } in base.upstreams.iter().chain(&config.upstreams) {
            let is_asked = |one: &Upstream| one.group == *group && !one.is_drained;
            if !config.upstreams.iter().any(is_asked) {
                return Err(format!(
                    "nobody would be asked in group {group}, as the others are drained or removed at run time; \
                     resume or add one first"
                ));
            }
        }
        Ok(())
    }
}

/// How an upstream is there that is to be asked again, or as well.
fn added(
    address: &UpstreamAddress,
    group: Option<&String>,
    of_file: Option<&Upstream>,
) -> Result<Presence, String> {
    match (of_file, group) {
        (Some(one), Some(group)) if one.group != *group => Err(format!(
            "the file has it in group {}; leave the group out, or change the file and reload",
            one.group
        )),
        (Some(_), _) => Ok(Presence::AsInFile),
        (None, _) if address.plain().is_none() => {
            Err("only upstreams over UDP and TCP are added at run time; write an encrypted one into the file"
                .to_owned())
        }
        (None, group) => {
            Ok(Presence::Added(group.cloned().unwrap_or_else(|| DEFAULT_GROUP.to_owned())))
        }
    }
}

/// Changes what is said of an upstream, and says what that does.
fn set(
    said: &mut UpstreamOverride,
    UpstreamState { drained, weight }: UpstreamState,
    of_file: Option<&Upstream>,
) -> Result<String, String> {
    let mut done = Vec::new();
    if let Some(is_drained) = drained {
        said.drained = is_drained;
        let what = if is_drained { "gets no new questions" } else { "gets questions again" };
        done.push(what.to_owned());
    }
    if let Some(weight) = weight {
        let usual = of_file.map_or(1, |one| one.weight);
        said.weight = Some(weight).filter(|weight| *weight != usual);
        done.push(format!("has the weight {weight}"));
    }
    match done.is_empty() {
        true => Err("nothing would change; write `drained` or `weight`".to_owned()),
        false => Ok(done.join(" and ")),
    }
}

pub(super) fn is_at(upstream: &Upstream, address: &UpstreamAddress) -> bool {
    is_same(&upstream.address, address)
}

/// However it was written.
fn is_same(one: &UpstreamAddress, other: &UpstreamAddress) -> bool {
    one.endpoint() == other.endpoint()
}

#[cfg(test)]
mod tests {
    use pmdns_config::Group;
    use pmdns_control::answers::RuntimeChange;

    use super::*;
    use crate::overlay::{ConfigChange, MAX_CHANGES};
    use crate::testing::{author, config};

    const A: &str = "192.0.2.1:53";
    const B: &str = "192.0.2.2:53";
    const NEW: &str = "192.0.2.3:53";

    fn reports_of(overlay: &Overlay) -> Vec<RuntimeChange> {
        overlay.changes().map(|change| change.report()).collect()
    }

    /// A configuration that asks these.
    fn base(addresses: &[&str]) -> Config {
        let mut config = config("");
        config.upstreams =
            addresses.iter().map(|address| Upstream::at(address.parse().unwrap())).collect();
        config
    }

    fn add(address: &str) -> UpstreamChange {
        UpstreamChange::Add(NewUpstream { address: address.into(), group: None })
    }

    fn drain(address: &str) -> UpstreamChange {
        set(address, Some(true), None)
    }

    fn resume(address: &str) -> UpstreamChange {
        set(address, Some(false), None)
    }

    fn weigh(address: &str, weight: u32) -> UpstreamChange {
        set(address, None, Some(weight))
    }

    fn set(address: &str, drained: Option<bool>, weight: Option<u32>) -> UpstreamChange {
        UpstreamChange::Set(address.into(), UpstreamState { drained, weight })
    }

    fn remove(address: &str) -> UpstreamChange {
        UpstreamChange::Remove(address.into())
    }

    /// Makes these changes, or says why the first that cannot be made is refused.
    fn changed(base: &Config, changes: &[UpstreamChange]) -> Result<Overlay, Refused> {
        changes.iter().try_fold(Overlay::default(), |overlay, change| {
            let change = ConfigChange::Upstream(change.clone());
            Ok(overlay.with(&change, base, &author())?.overlay)
        })
    }

    /// The upstreams that are asked then, each with whether it is drained.
    fn asked(base: &Config, overlay: &Overlay) -> Vec<(String, bool)> {
        let config = overlay.apply(base).unwrap();
        config.upstreams.iter().map(|one| (one.address.to_string(), one.is_drained)).collect()
    }

    fn refusal(base: &Config, changes: &[UpstreamChange]) -> (Refusal, String) {
        changed(base, changes).unwrap_err()
    }

    #[test]
    fn each_change_is_undone_by_its_opposite() {
        let base = base(&[A, B]);
        for (change, undo, expected) in [
            (drain(A), resume(A), vec![(A, true), (B, false)]),
            (remove(A), add(A), vec![(B, false)]),
            (add(NEW), remove(NEW), vec![(A, false), (B, false), (NEW, false)]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(address, drained)| (address.to_owned(), drained))
                .collect();
            let overlay = changed(&base, std::slice::from_ref(&change)).unwrap();
            assert_eq!(asked(&base, &overlay), expected);
            let told = reports_of(&overlay);
            assert_eq!((told.len(), &*told[0].by, told[0].since), (1, "user 0", 7), "{told:?}");
            assert!(changed(&base, &[change, undo]).unwrap().is_empty());
        }
        let both = changed(&base, &[add(NEW), drain(NEW)]).unwrap();
        assert_eq!(asked(&base, &both)[2], (NEW.to_owned(), true));
        assert_eq!(
            reports_of(&both)[0].change,
            format!("upstream {NEW} added to group default, drained")
        );
        let back = changed(&base, &[drain(A), remove(A), add(A)]).unwrap();
        assert!(back.is_empty(), "it comes back as the file says");
    }

    #[test]
    fn a_group_keeps_somebody_to_ask() {
        let base = base(&[A, B]);
        for changes in [
            [drain(A), drain(B)],
            [remove(A), remove(B)],
            [drain(A), remove(B)],
            [remove(A), drain(B)],
        ] {
            let (refusal, why) = refusal(&base, &changes);
            assert!(refusal == Refusal::Unable && why.contains("group default"), "{why}");
        }
        assert!(changed(&base, &[add(NEW), remove(A), remove(B)]).is_ok());
    }

    #[test]
    fn what_cannot_be_changed_is_named() {
        let base = base(&[A, B]);
        for (changes, expected, part) in [
            (vec![drain(NEW)], Refusal::Unknown, "is not asked"),
            (vec![remove(A), resume(A)], Refusal::Unknown, "is not asked"),
            (vec![add(A)], Refusal::Wrong, "asked already"),
            (vec![add("192.0.2.9")], Refusal::Wrong, "not an address with a port"),
            (vec![add("tls://192.0.2.9")], Refusal::Wrong, "write an encrypted one into the file"),
            (vec![add("224.0.0.1:53")], Refusal::Unable, "upstream[2].address"),
        ] {
            let (refusal, why) = refusal(&base, &changes);
            assert!(refusal == expected && why.contains(part), "{refusal:?} {why}");
        }
        let to = |address: &str, group: &str| {
            let (address, group) = (address.to_owned(), Some(group.to_owned()));
            UpstreamChange::Add(NewUpstream { address, group })
        };
        let (_, why) = refusal(&base, &[to(NEW, "corp")]);
        assert!(why.contains("upstream[2].group"), "no name is asked of that group: {why}");
        let (_, why) = refusal(&base, &[remove(A), to(A, "corp")]);
        assert!(why.contains("the file has it in group default"), "{why}");
    }

    /// A configuration that asks these by turns.
    fn by_turns(addresses: &[&str]) -> Config {
        let mut config = base(addresses);
        let (name, strategy) = (DEFAULT_GROUP.to_owned(), Strategy::RoundRobin);
        config.groups = vec![Group { name, strategy, parallel: 2 }];
        config
    }

    fn weights(base: &Config, overlay: &Overlay) -> Vec<u32> {
        overlay.apply(base).unwrap().upstreams.iter().map(|one| one.weight).collect()
    }

    #[test]
    fn a_weight_is_a_change_like_others() {
        let mut base = by_turns(&[A, B]);
        base.upstreams[0].weight = 3;
        let overlay = changed(&base, &[weigh(A, 7), drain(A), resume(A), add(NEW), weigh(NEW, 2)]);
        let overlay = overlay.unwrap();
        assert_eq!(weights(&base, &overlay), [7, 1, 2]);
        let told: Vec<_> = reports_of(&overlay).into_iter().map(|told| told.change).collect();
        let new = format!("upstream {NEW} added to group default, weight 2");
        assert_eq!(told, [format!("upstream {A} weight 7"), new]);
        let both = changed(&base, &[set(A, Some(true), Some(9))]).unwrap();
        assert_eq!((asked(&base, &both)[0].1, weights(&base, &both)[0]), (true, 9));
        assert_eq!(reports_of(&both)[0].change, format!("upstream {A} drained, weight 9"));
        for undone in [vec![weigh(A, 7), weigh(A, 3)], vec![weigh(A, 7), remove(A), add(A)]] {
            assert!(changed(&base, &undone).unwrap().is_empty(), "{undone:?}");
        }
        for (change, expected, part) in [
            (weigh(A, 0), Refusal::Unable, "allowed: 1 to 100"),
            (weigh(A, 101), Refusal::Unable, "allowed: 1 to 100"),
            (set(A, None, None), Refusal::Wrong, "write `drained` or `weight`"),
            (weigh(NEW, 2), Refusal::Unknown, "is not asked"),
        ] {
            let (refusal, why) = refusal(&base, &[change]);
            assert!(refusal == expected && why.contains(part), "{refusal:?} {why}");
        }
    }

    #[test]
    fn a_weight_needs_a_group_that_is_asked_by_turns() {
        let overlay = changed(&by_turns(&[A, B]), &[weigh(A, 2)]).unwrap();
        let by_order = base(&[A, B]);
        let why = overlay.apply(&by_order).unwrap_err();
        assert!(why.contains("group default, which is not asked by turns"), "{why}");
        assert_eq!(refusal(&by_order, &[weigh(A, 2)]), (Refusal::Unable, why));
        let mut heavy = by_turns(&[A, B]);
        heavy.upstreams[0].weight = 3;
        let overlay = changed(&heavy, &[weigh(A, 1)]).unwrap();
        assert_eq!(weights(&by_order, &overlay), [1, 1], "the way out of it");
    }

    #[test]
    fn the_file_may_change_below() {
        let overlay = changed(&base(&[A, B]), &[drain(A), add(NEW), drain(NEW)]).unwrap();
        let with_new = base(&[B, NEW]);
        assert_eq!(asked(&with_new, &overlay), [(B.to_owned(), false), (NEW.to_owned(), true)]);
        let why = overlay.apply(&base(&[A])).unwrap_err();
        assert!(why.contains("resume or add one first"), "{why}");
        let (without, resume) = (base(&[B]), ConfigChange::Upstream(resume(A)));
        let of_none = changed(&base(&[A, B]), &[drain(A)]).unwrap();
        assert_eq!(asked(&without, &of_none), [(B.to_owned(), false)]);
        assert!(of_none.with(&resume, &without, &author()).unwrap().overlay.is_empty());
    }

    #[test]
    fn changes_are_bounded() {
        let base = base(&[A]);
        let mut overlay = Overlay::default();
        let said =
            |address: &str| UpstreamOverride::new(address.parse().unwrap(), Presence::Removed);
        for number in 0..MAX_CHANGES {
            let what = said(&format!("198.51.100.{}:{}", number % 250, 53 + number));
            overlay.upstreams.push(AuthoredChange { what, author: author() });
        }
        let refused =
            overlay.with(&ConfigChange::Upstream(add(NEW)), &base, &author()).unwrap_err();
        assert!(refused.0 == Refusal::Unable && refused.1.contains("256 changes"), "{refused:?}");
    }
}
