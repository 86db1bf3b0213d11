//! What an operator does to the cache: answers are lost, written down and taken back. What is written down is held against the
//! truth.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pmdns_hierarchy::Message;
use pmdns_resolver::{Block, Job, LoadPart};
use pmdns_stages::cache::{Entry, Head, Key, NameBuffer, Purge};

use crate::clients::Promise;
use crate::stepping::Stepping;
use crate::truth::Realm;

/// Has a thread lose all answers of one realm.
pub(crate) fn purge(line: &mut Stepping, thread: usize, realm: Realm) {
    let purge = Purge { name: realm.apex().wire().into(), below: true, qtype: None };
    line.slow_path[thread].order(Job::Purge(purge, Box::new(|_| ())));
}

/// What threads have written down of their parts of the cache, and how much of it has been looked at.
#[derive(Clone, Default)]
pub(crate) struct Dump {
    /// By thread.
    blocks: Vec<Rc<RefCell<Vec<Block>>>>,
    checked: Vec<usize>,
}

impl Dump {
    /// Has every thread begin to write its part down.
    pub(crate) fn begin(line: &mut Stepping) -> Self {
        let mut dump = Self::default();
        for thread in &mut line.slow_path {
            let blocks = Rc::<RefCell<Vec<Block>>>::default();
            dump.blocks.push(Rc::clone(&blocks));
            dump.checked.push(0);
            thread.order(Job::Dump(Box::new(move |block| {
                blocks.borrow_mut().push(block);
                Ok(())
            })));
        }
        dump
    }

    /// Holds the entries that have been written down since the last time against the truth.
    pub(crate) fn check(
        &mut self,
        line: &Stepping,
        now: Duration,
        promise: &Promise,
    ) -> Result<(), String> {
        for (blocks, checked) in self.blocks.iter().zip(&mut self.checked) {
            let blocks = blocks.borrow();
            for block in &blocks[*checked..] {
                for entry in entries(line, block) {
                    check_entry(&entry.ok_or("an entry is not sound")?, now, promise)?;
                }
            }
            *checked = blocks.len();
        }
        Ok(())
    }

    /// Has every thread take back what it has written down so far.
    pub(crate) fn load(&self, line: &mut Stepping) {
        for (thread, blocks) in self.blocks.iter().enumerate() {
            let blocks = blocks.borrow();
            let taken = blocks.iter().map(|block| entries(line, block).flatten().collect());
            let mut taken = taken.map(LoadPart::Entries).collect::<Vec<_>>().into_iter();
            let from = move || taken.next().unwrap_or(LoadPart::End);
            line.slow_path[thread].order(Job::Load(Box::new(from), Box::new(|_| ())));
        }
    }
}

/// The entries of a block, learnt when they were.
fn entries<'b>(line: &Stepping, mut block: &'b [u64]) -> impl Iterator<Item = Option<Entry>> + 'b {
    let seed = line.seed();
    std::iter::from_fn(move || {
        if block.is_empty() {
            return None;
        }
        let head = Head::read(&block);
        let Some((entry, after)) = block.split_at_checked(head.words().max(1)) else {
            block = &[];
            return Some(None);
        };
        block = after;
        Some(Entry::restored(entry, seed, 0, head.learnt))
    })
}

fn check_entry(entry: &Entry, now: Duration, promise: &Promise) -> Result<(), String> {
    let head = entry.head();
    // Nothing is in it but that UDP does not do, or that a rule denies it.
    if head.flags & (Head::TOO_LONG | Head::REWRITTEN) != 0 {
        return Ok(());
    }
    let mut name = NameBuffer::default();
    let key = entry.key(&mut name);
    // What the validator fetches for itself is not validated, and nobody else gets it who wants validation.
    if promise.is_signed && key.flags & Key::CD != 0 {
        return Ok(());
    }
    let message = Message::parse(&entry.message()).ok_or("an entry is no message")?;
    let what = (head.flags & Head::AUTHENTIC != 0, key.scope() != 0);
    let checked = promise.check(&message, u16::from(head.rcode.0), what, now);
    checked.map_err(|why| format!("the cache holds a falsehood: {why}"))
}
