//! The memory that answers may take while they wait for clients to read.
//!
//! It is shared by client prefix ([`pmdns_config::shares`]). When all is taken, the prefix that holds most loses the answer
//! that has waited longest. Its connection ends too, because a stream cannot go on behind half an answer.

use std::sync::{Arc, Mutex};

use pmdns_config::ClientPrefix;
use pmdns_config::narrow::to_u32;
use pmdns_config::shares::{ShareTable, Ticket};

use crate::lock::lock;
use crate::reader::Reader;

/// The unit in which bytes are counted. A part of one counts whole.
const UNIT: usize = 1024;

/// A number of bytes that all connections share. Cloning it gives another handle to the same number.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    held: Arc<Mutex<ShareTable<ClientPrefix, Arc<Reader>>>>,
    units: usize,
}

/// Bytes taken from a budget. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Budget,
    ticket: Ticket,
}

impl Budget {
    /// Nothing of `limit` bytes is taken.
    pub(crate) fn new(limit: usize) -> Self {
        let units = (limit / UNIT).max(1);
        Self { held: Arc::new(Mutex::new(ShareTable::new(units))), units }
    }

    /// Takes so many bytes for a reader of `prefix`. Others may lose theirs for it. `None`: no prefix has taken more.
    pub(crate) fn take(
        &self,
        bytes: usize,
        prefix: ClientPrefix,
        reader: &Arc<Reader>,
    ) -> Option<Charge> {
        let units = to_u32(bytes.div_ceil(UNIT).min(self.units));
        let entry = lock(&self.held).enter_weight(prefix, Arc::clone(reader), units);
        entry.displaced.iter().for_each(|reader| reader.lose());
        let ticket = entry.result.ok()?;
        Some(Charge { budget: self.clone(), ticket })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        drop(lock(&self.budget.held).leave(self.ticket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prefix;

    const KIB: usize = 1024;

    fn take(budget: &Budget, kib: usize, host: u8) -> (Option<Charge>, Arc<Reader>) {
        let reader = Arc::default();
        (budget.take(kib * KIB, prefix(host), &reader), reader)
    }

    #[test]
    fn bytes_come_back_when_a_charge_goes() {
        let budget = Budget::new(10 * KIB);
        let (first, _) = take(&budget, 6, 1);
        assert!(take(&budget, 5, 1).0.is_none());
        let (second, _) = take(&budget, 4, 1);
        drop(first);
        assert!(take(&budget, 6, 1).0.is_some() && take(&budget, 7, 1).0.is_none());
        drop(second);
        assert!(take(&budget, 10, 1).0.is_some());
    }

    #[test]
    fn attack_c_who_holds_most_and_does_not_read_loses_its_connection_to_others() {
        let budget = Budget::new(10 * KIB);
        let deaf: Vec<_> = (0..10).map(|_| take(&budget, 1, 1)).collect();
        let (charge, reader) = take(&budget, 3, 2);
        assert!(charge.is_some() && !reader.has_lost());
        let lost: Vec<bool> = deaf.iter().map(|(_, reader)| reader.has_lost()).collect();
        assert_eq!(lost, [[true; 3].as_slice(), &[false; 7]].concat(), "the oldest");
        assert!(take(&budget, 1, 1).0.is_none(), "the heaviest displaces nobody");
        drop(deaf);
        assert!(take(&budget, 7, 1).0.is_some(), "what was lost is not given back twice");
    }
}
