//! Drives a validator to its verdict, with the hierarchy as the resolver.

use pmdns_hierarchy::{Message, NOW, Name, OwnedRecord, SigningKey, World, rtype};
use pmdns_validator::{
    Cost, Judgement, Progress, Question, SecurityStatus, TrustAnchor, Validator, ValidatorLimits,
};

/// Steps of one job; more mean that it does not end.
const MAX_STEPS: usize = 5000;

/// A verdict with what it took.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) verdict: SecurityStatus,
    pub(crate) judgement: Judgement,
    pub(crate) cost: Cost,
    /// What was asked for.
    pub(crate) fetched: Vec<(Name, u16)>,
    /// The most signatures that one step checked.
    pub(crate) widest_step: u32,
}

/// A validator that trusts the root of the hierarchy.
pub(crate) fn validator(world: &World) -> Validator {
    let (owner, rtype, data) = world.anchor();
    let anchor = TrustAnchor::new(&owner, rtype, &data).unwrap();
    Validator::new(&[anchor], &[], ValidatorLimits::default())
}

/// The verdict on a reply, with the hierarchy to ask.
pub(crate) fn judge(world: &World, reply: &Message) -> Judged {
    let honest = |name: &Name, qtype| Some(world.reply(name, qtype).message.to_bytes());
    judge_by(&mut validator(world), reply, honest)
}

/// The same with any resolver.
pub(crate) fn judge_by(
    validator: &mut Validator,
    reply: &Message,
    resolver: impl FnMut(&Name, u16) -> Option<Vec<u8>>,
) -> Judged {
    let (name, qtype, _) = &reply.question;
    judge_bytes(validator, name, *qtype, &reply.to_bytes(), resolver)
}

/// The same of bytes.
pub(crate) fn judge_bytes(
    validator: &mut Validator,
    name: &Name,
    qtype: u16,
    reply: &[u8],
    mut resolver: impl FnMut(&Name, u16) -> Option<Vec<u8>>,
) -> Judged {
    let now = u64::from(NOW);
    let question = Question { name: name.wire(), qtype, qclass: 1 };
    let mut job = validator.start(question, reply, now);
    let (mut fetched, mut widest_step) = (Vec::new(), 0);
    for _ in 0..MAX_STEPS {
        let before = job.cost().checks;
        let progress = validator.step(&mut job, now);
        widest_step = widest_step.max(job.cost().checks - before);
        match progress {
            Progress::Working => {}
            Progress::Fetch { name: wire, qtype } => {
                let (name, _) = Name::parse(&wire, 0).unwrap();
                let reply = resolver(&name, qtype);
                fetched.push((name, qtype));
                validator.fetched(&mut job, &wire, qtype, reply.as_deref());
            }
            Progress::Done(judgement) => {
                let verdict = judgement.verdict;
                return Judged { verdict, judgement, cost: job.cost(), fetched, widest_step };
            }
        }
    }
    panic!("{name} {qtype} does not end: {:?}", job.cost());
}

/// The reply that a zone of this many labels would have, unsigned.
pub(crate) fn unsigned(name: &Name, qtype: u16, data: &[u8]) -> Message {
    let mut message = Message::reply(name, qtype);
    message.sections[0].push(OwnedRecord::new(name, qtype, data));
    message
}

/// A signature over `set` by a key that nobody trusts, which says it is of `signer`.
pub(crate) fn forged(signer: &Name, set: &[OwnedRecord]) -> OwnedRecord {
    let key = SigningKey::of_zone(&Name::new("forger.invalid."), "csk", 15);
    key.sign_set(signer, set, [pmdns_hierarchy::INCEPTION, pmdns_hierarchy::EXPIRATION])
}

pub(crate) const A: u16 = rtype::A;
