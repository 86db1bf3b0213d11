//! What a file has kept of the changes of operators, as a start finds it.
//!
//! The configuration may have been edited since. What it says by now is dropped, and so is what contradicts it: with a sentence in
//! the log, and a copy of the file if something is lost by that. No start fails for it.

use std::path::PathBuf;

use pmdns_changes::names::NameTable;
use pmdns_changes::overlay::{DroppedChange, Overlay};
use pmdns_changes::{
    JournalError, JournalLine, KeptChanges, OperatorChange, What, ZoneLimitKept, read,
};
use pmdns_config::Config;

/// The contents of the file, over a configuration.
#[derive(Debug)]
pub struct OpenChanges {
    pub(super) path: Option<PathBuf>,
    pub(super) kept: KeptChanges,
    /// Whether that is all that the file has and could be used.
    pub(super) is_all: bool,
    pub(super) names: NameTable,
    /// The changes of upstreams and lists.
    pub overlay: Overlay,
    /// The configuration with them.
    pub config: Config,
    /// Limits on zones.
    pub limits: Vec<OperatorChange>,
    /// Prefixes of the client table.
    pub clients: Vec<OperatorChange>,
}

impl OpenChanges {
    /// Reads the file that `base` names, at this time in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn read(base: &Config, now: u64) -> Result<Self, JournalError> {
        let path = base.control.entries.clone();
        let kept = path.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(Self::over(base, (path, kept), now))
    }

    fn over(base: &Config, (path, mut kept): (Option<PathBuf>, KeptChanges), now: u64) -> Self {
        let (names, no_names) = NameTable::of_kept(&kept);
        let (overlay, left_out) = Overlay::of_kept(&kept, base);
        let no_names = no_names.into_iter().map(|(subject, why)| {
            let is_needless = false;
            DroppedChange { subject, why, is_needless }
        });
        let mut is_all = true;
        for DroppedChange { subject, why, is_needless } in left_out.into_iter().chain(no_names) {
            tracing::warn!("a change of run time ends: {why}");
            is_all &= is_needless;
            kept.take(JournalLine::Unset(subject));
        }
        let config = overlay.apply(base).unwrap_or_else(|why| {
            debug_assert!(false, "it was tried: {why}");
            base.clone()
        });
        let (mut limits, mut clients) = (Vec::new(), Vec::new());
        let mut over = Vec::new();
        for change in kept.iter() {
            match &change.what {
                What::Limit(ZoneLimitKept { until: Some(until), .. }) if *until <= now => {
                    over.push(change.what.subject());
                }
                What::Limit(_) => limits.push(change.clone()),
                What::Client(_) => clients.push(change.clone()),
                _ => {}
            }
        }
        over.into_iter().for_each(|subject| kept.take(JournalLine::Unset(subject)));
        Self { path, kept, is_all, names, overlay, config, limits, clients }
    }

    /// Takes the clients out, which have a file of their own from now on.
    pub fn without_clients(mut self) -> Self {
        for change in std::mem::take(&mut self.clients) {
            self.kept.take(JournalLine::Unset(change.what.subject()));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use pmdns_changes::Author;
    use pmdns_engine::testing::config;

    use super::*;

    #[test]
    fn a_limit_ends_at_its_time_although_nothing_ran_then() {
        let mut kept = KeptChanges::default();
        for (zone, until) in
            [("a.example", Some(100)), ("b.example", Some(101)), ("c.example", None)]
        {
            let what = What::Limit(ZoneLimitKept { zone: zone.to_owned(), rate: 1, until });
            let author = Author { by: "user 0".into(), since: 7, until_restart: false };
            kept.take(JournalLine::Set(Box::new(OperatorChange { what, author })));
        }
        let open = OpenChanges::over(&config(""), (None, kept), 100);
        let zones: Vec<_> = open.limits.iter().map(|limit| limit.what.subject()).collect();
        let zone = |zone: &str| pmdns_changes::Subject::Limit(zone.to_owned());
        assert_eq!(zones, [zone("b.example"), zone("c.example")]);
        assert_eq!((open.kept.len(), open.is_all), (2, true));
    }
}
