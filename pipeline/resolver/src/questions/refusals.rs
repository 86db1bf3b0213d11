//! Refusals: clients that lose their place get SERVFAIL. The number of refusals a second is bounded.
//!
//! Every refusal costs a frame and a place in a ring, and would tell a flooder how fast to continue. A real client is
//! told in time, and asks another resolver.
//!
//! A pure state machine; time is an argument.

use std::time::Duration;

use crate::questions::hashed::HashedMap;
use crate::questions::prefixes::ClientPrefix;

/// Refusals of one thread in a second.
const MAX_A_SECOND: u32 = 1000;
/// Refusals to one client prefix in a second.
const MAX_TO_A_PREFIX: u32 = 20;

/// The refusals of this second.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    second: u64,
    all: u32,
    /// At most [`MAX_A_SECOND`] prefixes.
    by_prefix: HashedMap<ClientPrefix, u32>,
}

impl Refusals {
    /// Whether a client of `prefix` may be told now. If so, it is counted as told.
    pub(crate) fn may_notify(&mut self, prefix: ClientPrefix, now: Duration) -> bool {
        if self.second != now.as_secs() {
            self.second = now.as_secs();
            self.all = 0;
            self.by_prefix.clear();
        }
        if self.all >= MAX_A_SECOND {
            return false;
        }
        let told = self.by_prefix.entry(prefix).or_insert(0);
        let may_notify = *told < MAX_TO_A_PREFIX;
        if may_notify {
            *told += 1;
            self.all += 1;
        }
        may_notify
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::questions::prefixes::tests::lengths;

    const START: Duration = Duration::from_secs(100);

    fn notified(refusals: &mut Refusals, number: u16, times: u32, now: Duration) -> u32 {
        let [high, low] = number.to_be_bytes();
        let client = Ipv4Addr::new(10, high, low, 1);
        let prefix = lengths().prefix(client.into(), 53);
        (0..times).filter(|_| refusals.may_notify(prefix, now)).count() as u32
    }

    #[test]
    fn one_prefix_does_not_use_up_what_others_are_told() {
        let mut refusals = Refusals::default();
        assert_eq!(notified(&mut refusals, 1, 5000, START), MAX_TO_A_PREFIX);
        assert_eq!(notified(&mut refusals, 2, 5, START), 5);
        assert_eq!(
            notified(&mut refusals, 1, 5, START + Duration::from_secs(1)),
            5,
            "a new second"
        );
    }

    #[test]
    fn so_many_are_told_in_a_second_and_so_many_are_remembered() {
        let mut refusals = Refusals::default();
        let all: u32 = (0..5000).map(|number| notified(&mut refusals, number, 2, START)).sum();
        assert_eq!(all, MAX_A_SECOND);
        assert!(refusals.by_prefix.len() <= MAX_A_SECOND as usize);
    }
}
