//! What processes have kept: descriptors in groups, each under a name. systemd keeps the same, should the keeper itself end.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use pmdns_handover::ProcessId;

/// Names under which descriptors are kept. A process has one, and for a moment two.
const MAX_NAMES: usize = 6;

/// Everything that is kept. `tell` tells systemd.
pub(super) struct KeptGroups<T> {
    /// In the order in which they came.
    groups: Vec<Group>,
    tell: T,
}

/// Descriptors that came together.
struct Group {
    name: String,
    /// `None`: a process of an earlier keeper.
    owner: Option<ProcessId>,
    descriptors: Vec<OwnedFd>,
}

impl<T: Fn(&str, &[BorrowedFd<'_>])> KeptGroups<T> {
    /// What systemd has kept of processes before.
    pub(super) fn new(inherited: Vec<(String, OwnedFd)>, tell: T) -> Self {
        let mut groups = Vec::<Group>::new();
        for (name, descriptor) in inherited {
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.descriptors.push(descriptor),
                None => groups.push(Group { name, owner: None, descriptors: vec![descriptor] }),
            }
        }
        Self { groups, tell }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// A process has these kept. A group of the same name gives way, and else the oldest one, if there are too many.
    pub(super) fn keep(&mut self, owner: ProcessId, name: String, descriptors: Vec<OwnedFd>) {
        self.remove(&name);
        if self.groups.len() == MAX_NAMES {
            let oldest = self.groups.first().map(|group| group.name.clone());
            self.remove(&oldest.unwrap_or_default());
        }
        let group = Group { name, owner: Some(owner), descriptors };
        self.store(&group);
        self.groups.push(group);
    }

    /// A process has this kept no longer.
    pub(super) fn remove(&mut self, name: &str) {
        self.drop_if(|group| group.name == name);
    }

    /// What processes have left that do not run any more is dropped, once one that runs has something kept.
    pub(super) fn drop_left(&mut self, runs: impl Fn(ProcessId) -> bool) {
        let is_left = |group: &Group| !group.owner.is_some_and(&runs);
        if !self.groups.iter().all(is_left) {
            self.drop_if(is_left);
        }
    }

    /// Nothing is kept any more.
    pub(super) fn clear(&mut self) {
        self.drop_if(|_| true);
    }

    /// Every descriptor with its name. The newest come first: of too many the oldest are left out.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (&str, &OwnedFd)> {
        let newest = self.groups.iter().rev();
        newest.flat_map(|Group { name, descriptors, .. }| {
            descriptors.iter().map(move |one| (name.as_str(), one))
        })
    }

    fn drop_if(&mut self, is_dropped: impl Fn(&Group) -> bool) {
        let dropped: Vec<_> = self.groups.extract_if(.., |group| is_dropped(group)).collect();
        for Group { name, .. } in &dropped {
            (self.tell)(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]);
        }
        // systemd keeps a file once, however many names it came under, and so has dropped what these share with others.
        if !dropped.is_empty() {
            self.groups.iter().for_each(|group| self.store(group));
        }
    }

    fn store(&self, Group { name, descriptors, .. }: &Group) {
        let descriptors: Vec<_> = descriptors.iter().map(|one| one.as_fd()).collect();
        (self.tell)(&format!("FDSTORE=1\nFDNAME={name}"), &descriptors);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::File;

    use super::*;

    fn descriptor() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    /// Words and the name of each message, with how many descriptors came.
    type Told = RefCell<Vec<(String, usize)>>;
    type Tell<'t> = Box<dyn Fn(&str, &[BorrowedFd<'_>]) + 't>;

    fn groups<'t>(told: &'t Told, inherited: &[&str]) -> KeptGroups<Tell<'t>> {
        let inherited = inherited.iter().map(|name| ((*name).to_owned(), descriptor()));
        let tell = |message: &str, descriptors: &[BorrowedFd<'_>]| {
            let words = message.replace("=1\nFDNAME=", " ");
            told.borrow_mut().push((words, descriptors.len()));
        };
        KeptGroups::new(inherited.collect(), Box::new(tell))
    }

    fn names<T: Fn(&str, &[BorrowedFd<'_>])>(groups: &KeptGroups<T>) -> Vec<&str> {
        groups.newest_first().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_remains_is_stored_again_after_a_name_was_removed() {
        let told = Told::default();
        let mut groups = groups(&told, &[]);
        groups.keep(1, "a".to_owned(), vec![descriptor()]);
        groups.keep(1, "b".to_owned(), vec![descriptor(), descriptor()]);
        groups.remove("a");
        groups.remove("a");
        let told = told.borrow();
        let told: Vec<_> = told.iter().map(|(words, count)| (words.as_str(), *count)).collect();
        assert_eq!(
            told,
            [("FDSTORE a", 1), ("FDSTORE b", 2), ("FDSTOREREMOVE a", 0), ("FDSTORE b", 2)]
        );
    }

    #[test]
    fn what_a_process_leaves_goes_once_another_one_has_something_kept() {
        let told = Told::default();
        let mut groups = groups(&told, &["old", "old"]);
        assert_eq!(names(&groups), ["old", "old"]);
        groups.drop_left(|id| id == 1);
        assert_eq!(names(&groups), ["old", "old"], "process 1 has nothing kept");
        groups.keep(1, "a".to_owned(), vec![descriptor()]);
        groups.drop_left(|id| id == 1);
        assert_eq!(names(&groups), ["a"]);
        groups.keep(2, "b".to_owned(), vec![descriptor()]);
        groups.drop_left(|id| id == 3);
        assert_eq!(names(&groups), ["b", "a"], "it is for the next process");
        groups.drop_left(|id| id == 1);
        assert_eq!(names(&groups), ["a"]);
        groups.clear();
        assert!(groups.is_empty());
        assert_eq!(told.borrow().last().unwrap().0, "FDSTOREREMOVE a");
    }

    #[test]
    fn the_oldest_name_gives_way() {
        let told = Told::default();
        let mut groups = groups(&told, &[]);
        for name in 0..=MAX_NAMES {
            groups.keep(1, name.to_string(), vec![descriptor()]);
        }
        groups.keep(1, "3".to_owned(), vec![descriptor()]);
        assert_eq!(names(&groups), ["3", "6", "5", "4", "2", "1"]);
    }
}
