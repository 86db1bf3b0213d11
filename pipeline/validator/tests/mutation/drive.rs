//! Has a validator judge a reply, with a hierarchy to fetch keys from.

use pmdns_hierarchy::{Message, NOW, Name, OwnedRecord, World};
use pmdns_validator::{
    Cost, Judgement, Progress, Question, SecurityStatus, TrustAnchor, Validator, ValidatorLimits,
};

/// Steps of one job, at most: more is a job that does not end.
const MAX_STEPS: usize = 10_000;

/// What somebody in between made of a fetch: name, type and the reply; `None`: there is none.
pub(crate) type Forged = ((Name, u16), Option<Vec<u8>>);

/// A validator that trusts the hierarchy's root.
pub(crate) fn validator(world: &World) -> Validator {
    let (owner, rtype, data) = world.anchor();
    let anchor = TrustAnchor::new(&owner, rtype, &data).unwrap();
    Validator::new(&[anchor], &[], ValidatorLimits::default())
}

/// A verdict, and what it cost.
pub(crate) struct Judged {
    pub(crate) judgement: Judgement,
    pub(crate) cost: Cost,
}

/// Has `reply` judged; fetches are answered truly, but for those that are `forged`.
pub(crate) fn judge(
    validator: &mut Validator,
    world: &World,
    (name, qtype): (&Name, u16),
    reply: &[u8],
    forged: &[Forged],
) -> Judged {
    let question = Question { name: name.wire(), qtype, qclass: 1 };
    let now = u64::from(NOW);
    let mut job = validator.start(question, reply, now);
    for _ in 0..MAX_STEPS {
        match validator.step(&mut job, now) {
            Progress::Working => {}
            Progress::Done(judgement) => return Judged { judgement, cost: job.cost() },
            Progress::Fetch { name, qtype } => {
                let (owner, _) = Name::parse(&name, 0).expect("names to fetch are names");
                let found = forged.iter().find(|((of, rtype), _)| (of, *rtype) == (&owner, qtype));
                let answer = match found {
                    Some((_, reply)) => reply.clone(),
                    None => Some(world.reply(&owner, qtype).message.to_bytes()),
                };
                validator.fetched(&mut job, &name, qtype, answer.as_deref());
            }
        }
    }
    panic!("{name} {qtype}: {MAX_STEPS} steps are not enough");
}

/// What a client gets to see: the rcode, and the answer's records that are passed on.
pub(crate) fn seen(reply: &[u8], judgement: &Judgement) -> Option<(u16, Vec<OwnedRecord>)> {
    if matches!(judgement.verdict, SecurityStatus::Bogus(_) | SecurityStatus::OverBudget(_)) {
        return None;
    }
    let message = Message::parse(reply)?;
    let kept = |at: &usize| judgement.keep.is_empty() || judgement.keep.get(*at) == Some(&true);
    let records = (0..message.sections[0].len()).filter(kept);
    let answer = records.map(|at| message.sections[0][at].clone()).collect();
    Some((message.rcode(), answer))
}
