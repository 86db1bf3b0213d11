//! The journal of an instance that is simulated: what its thread has, and the bytes that a crash leaves. Writes take their time,
//! and some fail.

use std::collections::BTreeMap;

use crossbeam_channel::Sender;

use super::Chance;
use crate::change::Key;
use crate::journal::text_of;
use crate::testing::parse;
use crate::{CHANGES, JournalLine, KeptChanges, OperatorChange, Receipt, Subject};

/// The journal.
pub(super) struct Disk {
    /// With what is on its way.
    kept: KeptChanges,
    bytes: Vec<u8>,
    /// A write has failed, so the next one writes all.
    is_torn: bool,
    waiting: Vec<(JournalLine, Sender<bool>)>,
    /// By subject what may hold after a crash: what was confirmed last, and what was not confirmed after it.
    after: BTreeMap<Key, Vec<Option<OperatorChange>>>,
}

/// The text of lines, torn at some place.
fn torn(lines: &[(JournalLine, Sender<bool>)], chance: &mut Chance) -> Vec<u8> {
    let mut text: Vec<u8> = lines.iter().flat_map(|(line, _)| text_of(line).into_bytes()).collect();
    text.truncate(chance.below(text.len() + 1));
    text
}

impl Disk {
    /// One that keeps these.
    pub(super) fn new(kept: KeptChanges) -> Self {
        let after = kept.iter().map(|one| (one.what.subject().key(), vec![Some(one.clone())]));
        let after = after.collect();
        let mut this = Self { kept, bytes: Vec::new(), is_torn: false, waiting: Vec::new(), after };
        this.write_all();
        this
    }

    fn write_all(&mut self) {
        let lines = self.kept.history().map(|line| text_of(&line));
        self.bytes = [CHANGES.head.to_owned()].into_iter().chain(lines).collect::<String>().into();
        self.is_torn = false;
    }

    /// Takes a line whose change has this effect.
    pub(super) fn keep(
        &mut self,
        line: JournalLine,
        (subject, effect): (&Subject, Option<OperatorChange>),
    ) -> Receipt {
        let (receipt, tell) = Receipt::new();
        self.kept.take(line.clone());
        self.waiting.push((line, tell));
        self.after.entry(subject.key()).or_insert_with(|| vec![None]).push(effect);
        receipt
    }

    /// Writes what waits, if the system lets it.
    pub(super) fn write(&mut self, chance: &mut Chance) {
        if self.waiting.is_empty() {
            return;
        }
        let is_written = chance.below(4) > 0;
        match (is_written, self.is_torn) {
            (true, true) => self.write_all(),
            (true, false) => {
                let text = self.waiting.iter().flat_map(|(line, _)| text_of(line).into_bytes());
                self.bytes.extend(text);
            }
            // The file is replaced when all of it is written.
            (false, true) => {}
            (false, false) => {
                self.bytes.extend(torn(&self.waiting, chance));
                self.is_torn = true;
            }
        }
        if is_written {
            self.after.values_mut().for_each(|all| drop(all.drain(..all.len() - 1)));
        }
        self.waiting.drain(..).for_each(|(_, tell)| tell.send(is_written).unwrap());
    }

    /// Whether everything that was said to be kept is on the disk.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && !self.is_torn
    }

    /// What the next process reads.
    pub(super) fn crash(&mut self, chance: &mut Chance) -> KeptChanges {
        if !self.is_torn {
            self.bytes.extend(torn(&self.waiting, chance));
        }
        parse(&self.bytes).expect("only the last line is torn").0
    }

    /// What may hold of a subject after a crash.
    pub(super) fn after(&self, subject: &Subject) -> &[Option<OperatorChange>] {
        self.after.get(&subject.key()).map_or(&[None], Vec::as_slice)
    }
}
