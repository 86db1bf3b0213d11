//! Stage: local records and blocked names.
//!
//! Both are looked up by names made ready at load. A query that is for neither costs one branch when there
//! is no such data, and a look at a slot or two for each of its labels when there is.

mod local;
mod names;
mod zone;

use std::sync::Arc;

use pmdns_config::LocalRecord;

use crate::cache::Entry;
use crate::packet::{Answer, Packet};
use crate::step::Step;
use crate::wire::dns::Rcode;
use crate::wire::edns::ExtendedError;
use crate::wire::name::Seed;
use crate::{Context, Stage, StageName};
use local::Local;
pub use local::LocalError;
use names::{MAX_NAMES, Names};
use zone::check_name;

/// The stage that answers for local and blocked names.
#[derive(Clone, Debug)]
pub struct Policy {
    data: Arc<LocalData>,
    /// There is no such data, as in most deployments.
    idle: bool,
}

impl Policy {
    /// A stage that answers from `data`.
    pub fn new(data: Arc<LocalData>) -> Self {
        let idle = data.local.is_empty() && data.blocked.is_empty();
        Self { data, idle }
    }
}

impl Stage for Policy {
    const NAME: StageName = StageName::Policy;

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.idle
    }

    #[inline(always)]
    fn hint(&self, packet: &Packet) {
        self.data.prefetch(packet.key);
    }

    #[inline]
    fn act(&mut self, packet: &mut Packet, _context: &Context) -> Step {
        if self.idle {
            return Step::at(StageName::Lookup);
        }
        let query = packet.query();
        match self.data.answer(packet.key, query.name(), query.qtype()) {
            Some(answer) => {
                packet.answer = answer;
                if let Answer::Rcode(_) = answer {
                    packet.extended_error = Some(ExtendedError::BLOCKED);
                }
                Step::at(StageName::Encode)
            }
            None => Step::at(StageName::Lookup),
        }
    }
}

/// Local records and blocked names, ready to answer from. Read by every core, written by none.
#[derive(Debug)]
pub struct LocalData {
    local: Local,
    blocked: Names,
}

impl LocalData {
    /// The data of these records, and of these names in wire format that are blocked, each with everything
    /// below it. `seed` is the one that parse hashes names with.
    ///
    /// A local name is answered from its records even if it is blocked.
    ///
    /// # Errors
    ///
    /// A [`LocalError`] that names the records which contradict each other, or the name that is none.
    pub fn new(
        records: &[LocalRecord],
        blocked: &[Box<[u8]>],
        seed: Seed,
    ) -> Result<Self, LocalError> {
        if blocked.len() > MAX_NAMES {
            return Err(LocalError::TooMany);
        }
        let mut names = Names::with_capacity(blocked.len(), seed);
        for name in blocked {
            check_name(name)?;
            names.add(name);
        }
        Ok(Self { local: Local::new(records, &names, seed)?, blocked: names })
    }

    /// The entry that [`Answer::Local`] of this very data speaks of. Its TTLs do not count down.
    #[inline]
    pub fn entry(&self, index: u32) -> &Entry {
        self.local.entry(index)
    }

    /// The answer to a query, if it is for us to give. `hash` is the hash of `name`.
    #[inline]
    fn answer(&self, hash: u64, name: &[u8], qtype: u16) -> Option<Answer> {
        if let Some(index) = self.local.find(hash, name, qtype) {
            return Some(Answer::Local(index));
        }
        self.blocked.covers(hash, name).then_some(Answer::Rcode(Rcode::NXDOMAIN))
    }

    /// Starts loading what an answer is looked for in.
    #[inline]
    fn prefetch(&self, hash: u64) {
        self.local.prefetch(hash);
        self.blocked.prefetch(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Parse;
    use crate::ports::Port;
    use crate::testing::{OUR_IPV4, OUR_MAC, act_once, at, name_of, query};

    const ON: Step = Step::at(StageName::Lookup);
    const ANSWERED: Step = Step::at(StageName::Encode);
    const BLOCKED: Answer = Answer::Rcode(Rcode::NXDOMAIN);

    fn seed() -> Seed {
        Seed::new(*b"sixteen letters!")
    }

    /// A stage with A records for these names and with those names blocked.
    fn policy(local: &[&str], blocked: &[&str]) -> Policy {
        let address = |name| LocalRecord {
            name: name_of(name).into(),
            rtype: 1,
            ttl: 300,
            data: Box::new([192, 0, 2, 1]),
        };
        let records: Vec<_> = local.iter().map(|name| address(name)).collect();
        let blocked: Vec<_> = blocked.iter().map(|name| name_of(name).into()).collect();
        Policy::new(Arc::new(LocalData::new(&records, &blocked, seed()).unwrap()))
    }

    /// What the stage makes of a query that parse has read.
    fn ask(policy: &mut Policy, text: &str) -> (Step, Answer) {
        let ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
        let packet = act_once(&mut Parse::new(ports, seed()), query(text).packet(), &at(0));
        assert_eq!(packet.step, Step::at(StageName::Acl));
        let packet = act_once(policy, packet, &at(0));
        (packet.step, packet.answer)
    }

    #[test]
    fn without_data_everything_goes_on() {
        assert_eq!(ask(&mut policy(&[], &[]), "www.example. A"), (ON, Answer::None));
    }

    #[test]
    fn a_local_name_is_answered_in_any_letter_case() {
        let mut policy = policy(&["www.example."], &[]);
        let (step, Answer::Local(index)) = ask(&mut policy, "WWW.example. A") else {
            panic!("a local answer")
        };
        assert_eq!(step, ANSWERED);
        assert_eq!(policy.data.entry(index).head().counts(), [1, 0, 0]);
        let (_, Answer::Local(index)) = ask(&mut policy, "www.example. TXT") else {
            panic!("a local answer")
        };
        assert_eq!(policy.data.entry(index).head().counts(), [0, 0, 0]);
        assert_eq!(ask(&mut policy, "example. A"), (ON, Answer::None));
        assert_eq!(ask(&mut policy, "x.www.example. A"), (ON, Answer::None));
    }

    #[test]
    fn a_blocked_name_is_denied_with_everything_below_it() {
        let mut policy = policy(&[], &["ads.example."]);
        for text in ["ads.example. A", "x.y.ADS.example. TXT", "ads.example. ANY"] {
            assert_eq!(ask(&mut policy, text), (ANSWERED, BLOCKED), "{text}");
        }
        for text in ["example. A", "roads.example. A", "www.example. A"] {
            assert_eq!(ask(&mut policy, text), (ON, Answer::None), "{text}");
        }
    }

    #[test]
    fn a_local_name_beats_a_blocked_one_that_is_not_longer() {
        let mut policy = policy(
            &["same.example.", "www.ads.example.", "short.example."],
            &["same.example.", "ads.example.", "x.short.example."],
        );
        let mut is_local = |text| matches!(ask(&mut policy, text), (ANSWERED, Answer::Local(_)));
        assert!(is_local("same.example. A"));
        assert!(is_local("www.ads.example. A"));
        assert!(is_local("short.example. A"));
        assert!(is_local("ads.example. A"), "it exists, for the name below it does");
        assert_eq!(ask(&mut policy, "x.short.example. A"), (ANSWERED, BLOCKED));
        assert_eq!(ask(&mut policy, "other.ads.example. A"), (ANSWERED, BLOCKED));
        assert_eq!(ask(&mut policy, "x.www.ads.example. A"), (ANSWERED, BLOCKED));
    }

    #[test]
    fn what_is_no_name_cannot_be_blocked() {
        let error = LocalData::new(&[], &[Box::from(b"\x03www".as_slice())], seed()).err();
        assert_eq!(error, Some(LocalError::Name { name: "\\x03www".into() }));
    }
}
