//! Block lists that are added at run time.

use std::path::{Path, PathBuf};

use pmdns_config::limits::MAX_NAME;
use pmdns_config::{Blocklist, Config, Host, UpstreamAddress};
use pmdns_control::{NewList, Refusal, named};

use super::authored::{AddedList, AuthoredChange, line_of};
use super::{HeldBack, ListChange, Overlay};
use crate::{Author, JournalLine, Reach, Refused, Subject, What};

/// The longest URL of a list.
const MAX_URL: usize = 2048;

impl Overlay {
    /// Whether the list with this file was added at run time.
    pub fn has_list(&self, file: &Path) -> bool {
        self.lists.iter().any(|said| said.what.file() == file)
    }

    /// Holds lists back that `check` refuses beside those of the file and those before them: the next start tries them again.
    pub fn hold_back_lists(
        &mut self,
        base: &Config,
        check: impl Fn(&Config) -> Result<(), String>,
    ) {
        let tried = |this: &Self| this.apply(base).and_then(|config| check(&config));
        if self.lists.is_empty() || tried(self).is_ok() {
            return;
        }
        let all = std::mem::take(&mut self.lists);
        if tried(self).is_err() {
            // It is for the start to say what is wrong with those of the file.
            self.lists = all;
            return;
        }
        for said in all {
            let change = (&said).into();
            self.lists.push(said);
            if let Err(why) = tried(self) {
                self.lists.pop();
                self.held_back.push(HeldBack { change, why: Some(why) });
            }
        }
    }

    /// The lists that could not be used at the start, and why.
    pub fn unusable_lists(&self) -> impl Iterator<Item = (&NewList, &str)> {
        self.held_back.iter().filter_map(|HeldBack { change, why }| match &change.what {
            What::List(new) => Some((new, why.as_deref()?)),
            _ => None,
        })
    }

    /// Whether the list with this file was added until the restart.
    pub fn is_list_passing(&self, file: &Path) -> bool {
        let mut passing = self.lists.iter().filter(|said| said.author.until_restart);
        passing.any(|said| said.what.file() == file)
    }

    /// The file of a list that is not in `other`.
    pub(super) fn list_beyond(&self, other: &Self) -> Option<PathBuf> {
        let mut files = self.lists.iter().map(|said| said.what.file());
        files.find(|file| !other.has_list(file)).cloned()
    }

    /// Takes a change in. Returns what it does, and the line that keeps it.
    pub(super) fn change_list(
        &mut self,
        change: &ListChange,
        base: &Config,
        author: &Author,
    ) -> Result<(String, JournalLine), Refused> {
        match change {
            ListChange::Add(new) => {
                let said = AuthoredChange { what: self.added(new, base)?, author: author.clone() };
                let line = line_of(&said);
                self.lists.push(said);
                Ok((format!("list {} is added", new.name), line))
            }
            ListChange::Remove(name) => {
                if let Some(place) = self.lists.iter().position(|said| said.what.new.name == *name)
                {
                    self.lists.remove(place);
                    let line = JournalLine::Unset(Subject::List(name.clone()));
                    return Ok((format!("list {name} is removed"), line));
                }
                let subject = Subject::List(name.clone());
                if self.is_passing(&subject, author) {
                    let done = format!("list {name} does not come back after a restart");
                    return Ok((done, JournalLine::Unset(subject)));
                }
                Err(match base.blocklists.iter().any(|list| is_called(&list.file, name)) {
                    true => (
                        Refusal::Unable,
                        format!(
                            "list {name} is one of the file; remove its [[blocklist]] there, and reload"
                        ),
                    ),
                    false => {
                        let added = self.lists.iter().map(|said| said.what.new.name.clone());
                        let why = format!("no list `{name}` was added; {}", named(added));
                        (Refusal::Unknown, why)
                    }
                })
            }
        }
    }

    pub(super) fn added(&self, new: &NewList, base: &Config) -> Result<AddedList, Refused> {
        let NewList { name, url, address, refresh_seconds, views } = new;
        let wrong = |why: String| (Refusal::Wrong, why);
        if url.len() > MAX_URL {
            return Err(wrong(format!("the URL has {} bytes; allowed: {MAX_URL}", url.len())));
        }
        let Some(folder) = &base.control.lists else {
            let why = "there is no folder for lists of run time; write `lists` into [control], as in \
                       lists = \"/var/lib/pmdns/lists\", and reload";
            return Err((Refusal::Unable, why.to_owned()));
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            return Err(wrong(format!(
                "`{}` is no name of a list; write 1 to {MAX_NAME} letters, digits, `-` and `_`",
                name.escape_debug()
            )));
        }
        let is_taken = base.blocklists.iter().any(|list| is_called(&list.file, name))
            || self.lists.iter().any(|said| said.what.new.name == *name);
        if is_taken {
            return Err(wrong(format!("there is a list `{name}` already; choose another name")));
        }
        if let Some((scheme, _)) = url.split_once("://")
            && scheme != "https"
        {
            return Err(wrong(format!(
                "`{}://` is no way to fetch a list; write https://, over which nobody can change it",
                scheme.escape_debug()
            )));
        }
        let url: UpstreamAddress =
            url.parse().map_err(|error| wrong(format!("`{}`: {error}", url.escape_debug())))?;
        let reach = Reach::Public(base.control.list_networks.clone());
        let written = url.server().and_then(|server| match &server.host {
            Host::Address(address) => Some(*address),
            Host::Name(_) => None,
        });
        if let Some(address) = address.iter().chain(&written).find(|one| !reach.allows(**one)) {
            return Err(wrong(format!(
                "{address} is not public, and lists that are added at run time come from public servers; write its \
                 network into `control.list_networks`, or the list into the file, and reload"
            )));
        }
        let list = Blocklist {
            file: folder.join(name),
            url: Some(url),
            address: *address,
            refresh_seconds: *refresh_seconds,
            views: views.clone(),
            ..Blocklist::default()
        };
        Ok(AddedList { new: new.clone(), list: list.into() })
    }

    pub(super) fn apply_lists(&self, config: &mut Config) {
        let lists = self.lists.iter().map(|said| Blocklist::clone(&said.what.list));
        config.blocklists.extend(lists);
    }
}

/// Whether requests mean a list by this name.
pub(super) fn is_called(file: &Path, name: &str) -> bool {
    file.file_name().is_some_and(|last| last == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::ConfigChange;
    use crate::testing::{author, config};

    const URL: &str = "https://lists.example/ads.txt";

    /// A configuration with a list, a view and a folder.
    fn base() -> Config {
        config(
            "lists = \"/var/lib/pmdns/lists\"\n[[blocklist]]\nfile = \"/etc/pmdns/games\"\nviews = [\"kids\"]\n\
             [[view]]\nname = \"kids\"\nclients = [\"192.0.2.0/24\"]\n",
        )
    }

    fn new(name: &str) -> NewList {
        let (name, url) = (name.to_owned(), URL.to_owned());
        NewList { name, url, address: None, refresh_seconds: None, views: Vec::new() }
    }

    fn remove(name: &str) -> ListChange {
        ListChange::Remove(name.to_owned())
    }

    fn changed(base: &Config, changes: &[ListChange]) -> Result<Overlay, Refused> {
        changes.iter().try_fold(Overlay::default(), |overlay, change| {
            let change = ConfigChange::List(change.clone());
            Ok(overlay.with(&change, base, &author())?.overlay)
        })
    }

    #[test]
    fn a_list_is_added_behind_those_of_the_file_and_removed() {
        let base = base();
        let kids = NewList {
            address: Some([192, 0, 2, 7].into()),
            refresh_seconds: Some(600),
            views: vec!["kids".to_owned()],
            ..new("ads")
        };
        let overlay = changed(&base, &[ListChange::Add(kids)]).unwrap();
        let config = overlay.apply(&base).unwrap();
        let list = &config.blocklists[1];
        assert_eq!(list.file, Path::new("/var/lib/pmdns/lists/ads"));
        assert_eq!((list.address.is_some(), list.refresh_seconds), (true, Some(600)));
        assert_eq!((&*list.views[0], list.url.as_ref().unwrap().to_string()), ("kids", URL.into()));
        assert!(overlay.has_list(&list.file));
        assert!(!overlay.has_list(Path::new("/etc/pmdns/games")), "it is one of the file");
        let told: Vec<_> = overlay.changes().map(|change| change.report()).collect();
        assert_eq!((told.len(), &*told[0].by), (1, "user 0"));
        assert_eq!(told[0].change, format!("list ads added from {URL}"));
        let both = [ListChange::Add(new("ads")), remove("ads")];
        assert!(changed(&base, &both).unwrap().is_empty());
    }

    #[test]
    fn a_list_without_room_is_left_out_at_the_start_and_can_be_removed_for_good() {
        let base = base();
        let lists = ["l1", "large", "l2"].map(|name| ListChange::Add(new(name)));
        let kept = changed(&base, &lists).unwrap();
        let fits = |config: &Config| {
            let is_large = config.blocklists.iter().any(|list| is_called(&list.file, "large"));
            let is_full = is_large && config.blocklists.len() > 2;
            if is_full { Err("too many".to_owned()) } else { Ok(()) }
        };
        let mut overlay = kept.clone();
        overlay.hold_back_lists(&base, fits);
        let names = |overlay: &Overlay| -> Vec<String> {
            overlay.lists.iter().map(|said| said.what.new.name.clone()).collect()
        };
        assert_eq!(names(&overlay), ["l1", "l2"]);
        assert_eq!(overlay.unusable_lists().collect::<Vec<_>>(), [(&new("large"), "too many")]);
        let remove = ConfigChange::List(remove("large"));
        let passing = Author { until_restart: true, ..author() };
        assert!(overlay.with(&remove, &base, &passing).is_err(), "it does not hold");
        let removed = overlay.with(&remove, &base, &author()).unwrap();
        let subject = Subject::List("large".to_owned());
        assert_eq!(removed.line, Some(JournalLine::Unset(subject)));
        assert_eq!(removed.overlay.unusable_lists().count(), 0);
        let mut overlay = kept;
        overlay.hold_back_lists(&base, |_| Err("the list of the file".to_owned()));
        assert_eq!(names(&overlay).len(), 3, "that is no fault of theirs");
    }

    #[test]
    fn what_cannot_be_added_or_removed_is_named() {
        let base = base();
        let mut without = base.clone();
        without.control.lists = None;
        let (_, why) = changed(&without, &[ListChange::Add(new("ads"))]).unwrap_err();
        assert!(why.contains("write `lists` into [control]"), "{why}");
        let add = |change: fn(&mut NewList)| {
            let mut list = new("ads");
            change(&mut list);
            ListChange::Add(list)
        };
        for (change, expected, part) in [
            (add(|list| list.name = "../entries".into()), Refusal::Wrong, "no name of a list"),
            (add(|list| list.name = ".ads".into()), Refusal::Wrong, "no name of a list"),
            (add(|list| list.name.clear()), Refusal::Wrong, "no name of a list"),
            (add(|list| list.name = "n".repeat(33)), Refusal::Wrong, "1 to 32 letters"),
            (add(|list| list.name = "games".into()), Refusal::Wrong, "a list `games` already"),
            (add(|list| list.url = "ads".into()), Refusal::Wrong, "`ads`: "),
            (add(|list| list.url += &"a".repeat(2048)), Refusal::Wrong, "allowed: 2048"),
            (add(|list| list.url = "tls://a.example".into()), Refusal::Wrong, "write https://"),
            (
                add(|list| list.url = "http://a.example/l".into()),
                Refusal::Wrong,
                "`http://` is no way",
            ),
            (
                add(|list| list.url = "https://10.0.0.1/l".into()),
                Refusal::Wrong,
                "10.0.0.1 is not public",
            ),
            (
                add(|list| list.address = Some([127, 0, 0, 1].into())),
                Refusal::Wrong,
                "`control.list_networks`, or the list into the file, and reload",
            ),
            (add(|list| list.refresh_seconds = Some(1)), Refusal::Unable, "allowed: 60 to"),
            (
                add(|list| list.views.push("lab".into())),
                Refusal::Unable,
                "no [[view]] of that name",
            ),
            (remove("games"), Refusal::Unable, "one of the file"),
            (remove("other"), Refusal::Unknown, "there are none"),
        ] {
            let (refusal, why) = changed(&base, &[change]).unwrap_err();
            assert!(refusal == expected && why.contains(part), "{refusal:?} {why}");
        }
        let twice = [ListChange::Add(new("ads")), ListChange::Add(new("ads"))];
        assert!(changed(&base, &twice).unwrap_err().1.contains("already"));
    }

    #[test]
    fn a_network_of_the_file_may_have_servers_of_lists() {
        let mut base = base();
        base.control.list_networks = vec!["10.0.0.0/8".parse().unwrap()];
        let ads = NewList { address: Some([10, 0, 0, 1].into()), ..new("ads") };
        assert!(changed(&base, &[ListChange::Add(ads)]).is_ok());
    }

    #[test]
    fn lists_are_added_while_a_view_is_gone() {
        let before = base();
        let (views, blocklists) = (Vec::new(), Vec::new());
        let base = Config { views, blocklists, ..before.clone() }.following(&before).unwrap();
        assert!(base.views[0].is_gone());
        let overlay = changed(&base, &[ListChange::Add(new("ads"))]).unwrap();
        assert_eq!(overlay.apply(&base).unwrap().blocklists.len(), 1);
    }

    #[test]
    fn there_are_64_lists_at_most() {
        let all: Vec<_> =
            (1..64).map(|number| ListChange::Add(new(&format!("l{number}")))).collect();
        let base = base();
        let overlay = changed(&base, &all).unwrap();
        let one_more = ConfigChange::List(ListChange::Add(new("more")));
        let refused = overlay.with(&one_more, &base, &author()).unwrap_err();
        assert!(refused.1.contains("65 block lists; allowed: at most 64"), "{refused:?}");
    }
}
