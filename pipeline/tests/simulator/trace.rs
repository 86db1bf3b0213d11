//! The events of a history, line by line. They are printed on demand, and always hashed, so that two runs of one seed
//! can be compared.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A trace; copies write to the same.
#[derive(Clone, Debug)]
pub(crate) struct Trace(Rc<RefCell<Lines>>);

#[derive(Debug)]
struct Lines {
    hash: u64,
    is_printed: bool,
    line: String,
}

/// FNV-1a.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Trace {
    /// An empty one.
    pub(crate) fn new(is_printed: bool) -> Self {
        Self(Rc::new(RefCell::new(Lines { hash: OFFSET, is_printed, line: String::new() })))
    }

    /// Adds a line.
    pub(crate) fn note(&self, now: Duration, what: fmt::Arguments<'_>) {
        let mut lines = self.0.borrow_mut();
        let Lines { hash, is_printed, line } = &mut *lines;
        line.clear();
        let written = fmt::write(line, format_args!("{:>12.6} {what}", now.as_secs_f64()));
        written.expect("a String takes it");
        for byte in line.bytes() {
            *hash = (*hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        if *is_printed {
            println!("{line}");
        }
    }

    /// What stands for all lines so far.
    pub(crate) fn hash(&self) -> u64 {
        self.0.borrow().hash
    }
}
