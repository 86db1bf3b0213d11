//! Which client is in which view, and who said so: the file, or an operator at run time. What is said at run time stands
//! before the file. Every change goes to the table that data cores read.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use pmdns_config::Prefix;
use pmdns_stages::client_table::ClientTableWriter;

/// The view of a prefix, and who said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PrefixView {
    /// The view that the file gives it.
    file: Option<u8>,
    /// What was said at run time: a view, or that it is removed.
    run_time: Option<Option<u8>>,
}

impl PrefixView {
    fn view(self) -> Option<u8> {
        self.run_time.unwrap_or(self.file)
    }
}

/// Who has said something of a prefix, when, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) by: Arc<str>,
    pub(super) since: u64,
    pub(super) until_restart: bool,
}

/// Everything that is said.
#[derive(Debug)]
pub(super) struct Book {
    said: BTreeMap<Prefix, PrefixView>,
    /// Who has said at run time what is in `said`.
    whose: BTreeMap<Prefix, Whose>,
    /// What holds again after a restart, because something else is said until then.
    held_back: BTreeMap<Prefix, (Option<u8>, Whose)>,
    writer: ClientTableWriter,
    max_entries: usize,
}

/// The prefixes that were not taken from a file, and those that left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Prefixes that there was no room for.
    pub(super) left_out: usize,
    /// Prefixes of which something was said at run time that is forgotten.
    pub(super) forgotten: Vec<Prefix>,
    /// Prefixes that were removed at run time, and that the file has no more.
    pub(super) needless: Vec<Prefix>,
}

impl Book {
    /// A book for this empty table of so many entries.
    pub(super) fn new(writer: ClientTableWriter, max_entries: usize) -> Self {
        let (said, whose, held_back) = Default::default();
        Self { said, whose, held_back, writer, max_entries }
    }

    /// Prefixes with a view.
    pub(super) fn len(&self) -> usize {
        self.writer.len()
    }

    /// Prefixes of which something was said at run time.
    pub(super) fn at_run_time(&self) -> usize {
        self.whose.len()
    }

    /// How many more prefixes fit.
    pub(super) fn room(&self) -> usize {
        self.max_entries - self.len()
    }

    /// The view of exactly this prefix.
    pub(super) fn view(&self, prefix: &Prefix) -> Option<u8> {
        self.said.get(prefix)?.view()
    }

    /// Puts a prefix into a view at run time, or removes it. Says whether there was room for it.
    pub(super) fn say(&mut self, prefix: Prefix, view: Option<u8>, whose: &Whose) -> bool {
        let before = self.said.get(&prefix).copied().unwrap_or_default();
        match view {
            Some(view) if self.writer.set(&prefix, view).is_err() => return false,
            Some(_) => {}
            None => drop(self.writer.remove(&prefix)),
        }
        // Nothing has to be hidden that the file does not say.
        let run_time = (view.is_some() || before.file.is_some()).then_some(view);
        let said_before = match run_time {
            Some(_) => self.whose.insert(prefix, whose.clone()),
            None => self.whose.remove(&prefix),
        };
        match (before.run_time, said_before) {
            _ if !whose.until_restart => drop(self.held_back.remove(&prefix)),
            (Some(view), Some(said)) if !said.until_restart => {
                self.held_back.insert(prefix, (view, said));
            }
            _ => {}
        }
        match (before.file, run_time) {
            (None, None) => drop(self.said.remove(&prefix)),
            (file, run_time) => drop(self.said.insert(prefix, PrefixView { file, run_time })),
        }
        true
    }

    /// Takes over what the file says now; of two lines about a prefix the later counts. What was said at run time of views that
    /// are gone is forgotten.
    pub(super) fn take_file(
        &mut self,
        file: Vec<(Prefix, u8)>,
        is_gone: impl Fn(u8) -> bool,
    ) -> Taken {
        let mut taken = Taken::default();
        let mut fresh: BTreeMap<Prefix, u8> = file.into_iter().collect();
        let Self { said, whose, held_back, writer, .. } = self;
        held_back.retain(|prefix, (view, _)| {
            let is_forgotten = view.is_some_and(&is_gone);
            taken.forgotten.extend(is_forgotten.then_some(*prefix));
            !is_forgotten
        });
        // What leaves makes room for what comes.
        said.retain(|prefix, said| {
            let before = said.view();
            said.file = fresh.remove(prefix);
            if said.run_time.flatten().is_some_and(&is_gone) {
                said.run_time = None;
                taken.forgotten.push(*prefix);
            }
            if said.file.is_none() && said.run_time == Some(None) {
                said.run_time = None;
                taken.needless.push(*prefix);
            }
            match said.view() {
                None if before.is_some() => drop(writer.remove(prefix)),
                Some(view) if before != Some(view) => {
                    let done = writer.set(prefix, view);
                    debug_assert!(done.is_ok(), "it is in the table");
                }
                _ => {}
            }
            if said.run_time.is_none() {
                whose.remove(prefix);
            }
            *said != PrefixView::default()
        });
        for (prefix, view) in fresh {
            match writer.set(&prefix, view) {
                Ok(()) => {
                    said.insert(prefix, PrefixView { file: Some(view), run_time: None });
                }
                Err(_) => taken.left_out += 1,
            }
        }
        taken
    }

    /// The longest prefix with a view that an address is in.
    pub(super) fn find(&self, address: IpAddr) -> Option<(Prefix, u8)> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (0..=longest).rev().find_map(|length| {
            let prefix = Prefix::of(address, length);
            Some((prefix, self.view(&prefix)?))
        })
    }

    /// Prefixes with their views after one, in their order.
    pub(super) fn after(&self, after: Option<Prefix>) -> impl Iterator<Item = (Prefix, u8)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let said = self.said.range((start, Bound::Unbounded));
        said.filter_map(|(prefix, said)| Some((*prefix, said.view()?)))
    }

    /// What was said of a prefix at run time, and by whom.
    fn override_of(&self, prefix: &Prefix) -> Option<(Option<u8>, &Whose)> {
        Some((self.said.get(prefix)?.run_time?, self.whose.get(prefix)?))
    }

    /// Whether that ends with the process.
    pub(super) fn is_passing(&self, prefix: &Prefix) -> bool {
        self.override_of(prefix).is_some_and(|(_, whose)| whose.until_restart)
    }

    /// The same as it holds after a restart.
    pub(super) fn kept_of(&self, prefix: &Prefix) -> Option<(Option<u8>, &Whose)> {
        match self.held_back.get(prefix) {
            Some((view, whose)) => Some((*view, whose)),
            None => self.override_of(prefix).filter(|(_, whose)| !whose.until_restart),
        }
    }

    /// Has this hold again after a restart, unless something is said of the prefix that does. Nothing has to be hidden then that
    /// the file does not say.
    pub(super) fn hold_back(&mut self, prefix: Prefix, view: Option<u8>, whose: Whose) {
        let is_of_file = || self.said.get(&prefix).is_some_and(|said| said.file.is_some());
        if self.kept_of(&prefix).is_none() && (view.is_some() || is_of_file()) {
            self.held_back.insert(prefix, (view, whose));
        }
    }

    /// Whether all that was said holds after a restart, and nothing else.
    pub(super) fn is_all_lasting(&self) -> bool {
        self.held_back.is_empty() && self.whose.values().all(|whose| !whose.until_restart)
    }

    /// What was said at run time.
    pub(super) fn history(&self) -> impl Iterator<Item = (Prefix, Option<u8>, &Whose)> {
        self.whose.keys().filter_map(|prefix| {
            let (view, whose) = self.override_of(prefix)?;
            Some((*prefix, view, whose))
        })
    }

    /// What holds after a restart.
    pub(super) fn kept(&self) -> impl Iterator<Item = (Prefix, Option<u8>, &Whose)> {
        let kept = self.history().filter(|(.., whose)| !whose.until_restart);
        kept.chain(self.hidden())
    }

    /// What comes back with a restart.
    pub(super) fn hidden(&self) -> impl Iterator<Item = (Prefix, Option<u8>, &Whose)> {
        self.held_back.iter().map(|(prefix, (view, whose))| (*prefix, *view, whose))
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::client_table::ClientTable;
    use pmdns_stages::wire::name::Seed;
    use proptest::prelude::*;

    use super::*;

    fn book(max_entries: usize) -> (Arc<ClientTable>, Book) {
        let (table, writer) = ClientTable::on_heap(max_entries, Seed::new([3; 16]));
        (table, Book::new(writer, max_entries))
    }

    /// Takes over a file, while all views are there. Returns how many prefixes there was no room for.
    fn take(book: &mut Book, file: &[(Prefix, u8)]) -> usize {
        book.take_file(file.to_vec(), |_| false).left_out
    }

    fn whose() -> Whose {
        Whose { by: "user 0".into(), since: 7, until_restart: false }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_said_at_run_time_stands_before_the_file() {
        let (table, mut book) = book(3);
        let [one, two, three] = ["10.0.0.1", "10.0.0.2", "10.0.0.0/24"].map(prefix);
        assert_eq!(take(&mut book, &[(one, 1), (two, 1), (two, 2)]), 0);
        assert!(
            book.say(one, Some(5), &whose())
                && book.say(two, None, &whose())
                && book.say(three, Some(7), &whose())
        );
        assert_eq!(
            [1, 2, 3].map(|last| table.find(&[10, 0, 0, last])),
            [Some(5), Some(7), Some(7)]
        );
        assert_eq!(book.find("10.0.0.2".parse().unwrap()), Some((three, 7)));
        assert_eq!((book.len(), book.at_run_time(), book.room()), (2, 3, 1));
        assert_eq!(take(&mut book, &[(one, 3)]), 0);
        assert_eq!(table.find(&[10, 0, 0, 1]), Some(5), "still");
        let history: Vec<_> = book.kept().map(|(prefix, view, _)| (prefix, view)).collect();
        assert_eq!(history, [(three, Some(7)), (one, Some(5))], "nothing hides two any more");
        assert!(book.say(one, None, &whose()) && book.say(three, None, &whose()));
        assert_eq!((book.len(), book.at_run_time()), (0, 1));
        assert_eq!(take(&mut book, &[]), 0);
        assert_eq!(book.at_run_time(), 0);
    }

    #[test]
    fn what_was_said_of_a_view_ends_with_it_and_the_file_holds_again() {
        let (table, mut book) = book(3);
        let [one, two, three] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(prefix);
        let file = vec![(one, 1)];
        assert_eq!(take(&mut book, &file), 0);
        assert!(
            book.say(one, Some(5), &whose())
                && book.say(two, Some(5), &whose())
                && book.say(three, Some(6), &whose())
        );
        let taken = book.take_file(file, |view| view == 5);
        let (forgotten, needless) = (vec![one, two], Vec::new());
        assert_eq!(taken, Taken { left_out: 0, forgotten, needless });
        let found = [1, 2, 3].map(|last| table.find(&[10, 0, 0, last]));
        assert_eq!(found, [Some(1), None, Some(6)]);
        assert_eq!((book.len(), book.at_run_time()), (2, 1));
    }

    #[test]
    fn what_is_said_until_a_restart_holds_back_what_is_kept() {
        let (_, mut book) = book(3);
        let [one, two] = ["10.0.0.1", "10.0.0.2"].map(prefix);
        let until_restart = Whose { until_restart: true, ..whose() };
        let kept = |book: &Book| -> Vec<_> {
            book.kept().map(|(prefix, view, _)| (prefix, view)).collect()
        };
        assert!(book.say(one, Some(5), &whose()) && book.say(two, Some(6), &until_restart));
        assert_eq!(kept(&book), [(one, Some(5))]);
        for view in [Some(7), None] {
            assert!(book.say(one, view, &until_restart));
            assert_eq!((book.view(&one), kept(&book)), (view, vec![(one, Some(5))]));
        }
        assert!(book.say(one, Some(8), &whose()));
        assert_eq!(kept(&book), [(one, Some(8))], "then that holds");
    }

    #[test]
    fn what_ends_with_a_new_file_is_told_so_that_no_journal_keeps_it() {
        let (_, mut book) = book(3);
        let [one, two] = ["10.0.0.1", "10.0.0.2"].map(prefix);
        take(&mut book, &[(one, 1)]);
        assert!(book.say(one, None, &whose()) && book.say(two, Some(5), &whose()));
        assert!(book.say(two, None, &Whose { until_restart: true, ..whose() }));
        let taken = book.take_file(Vec::new(), |view| view == 5);
        assert_eq!((taken.forgotten, taken.needless), (vec![two], vec![one]));
        assert_eq!((book.kept_of(&one), book.kept_of(&two)), (None, None));
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let (table, mut book) = book(2);
        let [one, two, three] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(prefix);
        assert!(book.say(three, Some(1), &whose()));
        assert_eq!(take(&mut book, &[(one, 1), (two, 1)]), 1);
        assert!(!book.say(two, Some(1), &whose()));
        assert_eq!(take(&mut book, &[(two, 2)]), 0, "one leaves, two comes");
        assert_eq!([1, 2, 3].map(|last| table.find(&[10, 0, 0, last])), [None, Some(2), Some(1)]);
    }

    proptest! {
        #[test]
        fn the_table_has_what_the_book_says(
            steps in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec((0u8..8, any::<Option<u8>>()), 1..8)), 1..20
            ),
        ) {
            let (table, mut book) = book(6);
            for (is_file, said) in steps {
                let said = said.into_iter().map(|(last, view)| (prefix(&format!("10.0.0.{last}")), view));
                match is_file {
                    true => {
                        let file = said.filter_map(|(prefix, view)| Some((prefix, view? % 32)));
                        book.take_file(file.collect(), |view| view == 9);
                    }
                    false => said.for_each(|(prefix, view)| {
                        book.say(prefix, view.map(|view| view % 32), &whose());
                    }),
                }
                for last in 0..8 {
                    let found = book.find([10, 0, 0, last].into()).map(|(_, view)| view);
                    prop_assert_eq!(table.find(&[10, 0, 0, last]), found);
                }
                prop_assert_eq!(book.after(None).count(), book.len());
                prop_assert_eq!(book.history().count(), book.at_run_time());
            }
        }
    }
}
