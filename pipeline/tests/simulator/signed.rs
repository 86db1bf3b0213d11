//! A hierarchy of signed zones, which some histories ask about: what its servers say, and whether an answer is true.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_hierarchy::{Message, Name, OwnedRecord, Rng, Status, World, oracle};

use crate::truth::is_of_a_liar;

thread_local! {
    // It keeps the signatures that it has made, and is the same in every thread.
    static WORLD: World = World::new();
}

/// What its servers say.
pub(crate) fn reply(name: &Name, qtype: u16) -> Message {
    WORLD.with(|world| world.reply(name, qtype).message)
}

/// A question worth asking.
pub(crate) fn question(chance: &mut Rng) -> (Name, u16) {
    WORLD.with(|world| chance.pick(world.questions()).expect("there are some").clone())
}

/// Whether everybody gets an answer to a question.
pub(crate) fn is_answered(name: &Name, qtype: u16) -> bool {
    let status = WORLD.with(|world| world.reply(name, qtype).status());
    matches!(status, Status::Secure | Status::Insecure)
}

/// Whether an answer is true.
pub(crate) fn check(
    (name, qtype): (&Name, u16),
    is_secure: bool,
    rcode: u16,
    answer: &[OwnedRecord],
) -> Result<(), String> {
    if answer.iter().any(is_of_a_liar) {
        return Err(format!("a lie: {answer:?}"));
    }
    WORLD.with(|world| oracle::check(world, (name, qtype), is_secure, rcode, answer))
}

/// A server that lies changes a record, or leaves one out.
pub(crate) fn falsify(reply: &mut Message, chance: &mut Rng) {
    let section = chance.below(2);
    let records = &mut reply.sections[section];
    if records.is_empty() {
        return;
    }
    let at = chance.below(records.len());
    if chance.below(3) == 0 {
        records.remove(at);
    } else if let Some(last) = records[at].data.last_mut() {
        *last ^= 1 << chance.below(8);
    }
}

/// A file with the trust anchor, for one history. Dropping it removes the file.
pub(crate) struct AnchorFile(PathBuf);

impl AnchorFile {
    /// A new file.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("pmdns-simulator-{}-anchor-{number}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, WORLD.with(World::anchor_line)).expect("a file can be written");
        Self(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for AnchorFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
