//! Fuzz target: replies and keys of up to 65,535 bytes, tampered with, that the validator judges.
//!
//! The first byte says how the rest is read. If it is even, the rest is a message, whose own question was asked. If it
//! is odd, two bytes choose a question that the hierarchy of `pmdns-hierarchy` can answer. Changes to that answer, or
//! to records fetched for it, follow. No change has a signed zone's key, so an answer that passes has to be true.

use crate::check::question;
use crate::input::Input;
use pmdns_hierarchy::{Message, NOW, Name, OwnedRecord, World, oracle, rtype};
use pmdns_validator::{
    Progress, Question, SecurityStatus, TrustAnchor, Validator, ValidatorLimits,
};

/// Bytes of a message, at most: its length is written in 16 bits.
const MAX_MESSAGE: usize = 65_535;
/// Records of a message that is made, at most.
const MAX_RECORDS: usize = 2048;
/// Changes that are made, at most.
const MAX_CHANGES: usize = 64;
/// Steps of a job, at most.
const MAX_STEPS: u32 = 10_000;

/// A reply to a fetch that is not the true one.
type Forged = ((Name, u16), Vec<u8>);

thread_local! {
    static WORLD: World = World::new();
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    WORLD.with(|world| {
        if input.byte() & 1 == 0 {
            raw(world, input.rest());
        } else {
            changed(world, &mut input);
        }
    });
}

/// A message as it stands, as the reply and as what is fetched.
fn raw(world: &World, message: &[u8]) {
    // What does not repeat one question is not taken for a reply.
    if message.get(4..6) != Some(&[0, 1]) {
        return;
    }
    let Some((name, qtype, qclass)) = question(message) else { return };
    let Some((name, _)) = Name::parse(name, 0) else { return };
    let fetches = [((name.clone(), rtype::DS), message.to_vec())];
    judge(world, (&name, qtype, qclass), message, &[]);
    judge(world, (&name, qtype, qclass), message, &fetches);
}

/// A correct answer with changes.
fn changed(world: &World, input: &mut Input<'_>) {
    let questions = world.questions();
    let (name, qtype) = &questions[usize::from(input.number()) % questions.len()];
    let mut reply = world.reply(name, *qtype).message;
    let mut fetches: Vec<((Name, u16), Message)> = Vec::new();
    for _ in 0..MAX_CHANGES {
        if input.is_empty() {
            break;
        }
        let which = input.byte();
        if which < 192 {
            change(world, &mut reply, input, which);
            continue;
        }
        // Of the names above, one: its DS or DNSKEY records.
        let above: Vec<Name> = name.chain().collect();
        let owner = &above[usize::from(which >> 1 & 15) % above.len()];
        let key = (owner.clone(), if which & 1 == 0 { rtype::DS } else { rtype::DNSKEY });
        if fetches.iter().all(|(one, _)| *one != key) {
            fetches.push((key.clone(), world.reply(&key.0, key.1).message));
        }
        let fetch = fetches.iter_mut().find(|(one, _)| *one == key);
        let kind = input.byte() % 192;
        change(world, &mut fetch.expect("it was just put there").1, input, kind);
    }
    let fetches: Vec<Forged> =
        fetches.into_iter().map(|(key, message)| (key, bytes(message))).collect();
    judge(world, (name, *qtype, 1), &bytes(reply), &fetches);
}

/// As it is sent; what is too much for a message is left out.
fn bytes(mut message: Message) -> Vec<u8> {
    let mut bytes = message.to_bytes();
    while bytes.len() > MAX_MESSAGE {
        let longest = message.sections.iter_mut().max_by_key(|section| section.len());
        let longest = longest.expect("there are three sections");
        longest.truncate(longest.len() / 2);
        bytes = message.to_bytes();
    }
    bytes
}

/// Changes one record or adds some; `kind` says how.
fn change(world: &World, message: &mut Message, input: &mut Input<'_>, kind: u8) {
    let (place, value) = (input.byte(), input.number());
    let section = &mut message.sections[usize::from(place >> 6) % 3];
    let at = usize::from(place & 63) % section.len().max(1);
    if kind % 16 >= 11 || section.is_empty() {
        return add(world, message, input, (kind, place, value));
    }
    let record = &mut section[at];
    match kind % 16 {
        0 => drop(section.remove(at)),
        1 => record.owner = name(world, value),
        2 => record.rtype = TYPES[usize::from(value) % TYPES.len()],
        3 => record.class = value,
        4 => record.ttl = u32::from(value) << 16,
        5 => {
            let len = record.data.len().max(1);
            if let Some(byte) = record.data.get_mut(usize::from(value >> 8) % len) {
                *byte ^= value as u8;
            }
        }
        // The fields of a signature, or the numbers of a denial.
        6 => {
            let bytes = input.bytes(usize::from(value % 32));
            let end = bytes.len().min(record.data.len());
            record.data[..end].copy_from_slice(&bytes[..end]);
        }
        7 => record.data = input.bytes(usize::from(value)).to_vec(),
        8 => {
            record.data.extend(vec![kind; usize::from(value)]);
            record.data.truncate(MAX_MESSAGE);
        }
        9 => record.data = name(world, value).wire().to_vec(),
        _ => record.data.truncate(usize::from(value) % record.data.len().max(1)),
    }
}

fn add(
    world: &World,
    message: &mut Message,
    input: &mut Input<'_>,
    (kind, place, value): (u8, u8, u16),
) {
    let count = message.records().count();
    let section = &mut message.sections[usize::from(place >> 6) % 3];
    let questions = world.questions();
    let (asked, qtype) = &questions[usize::from(value) % questions.len()];
    match kind % 16 {
        // Another answer's section, true as it is.
        11 => {
            let other = world.reply(asked, *qtype).message;
            section.extend(other.sections[usize::from(place & 3) % 3].iter().cloned());
        }
        12 => message.set_rcode(value),
        // Many that differ: keys, signatures, denials.
        13 => {
            let Some(first) = section.get(usize::from(place & 63) % section.len().max(1)) else {
                return;
            };
            let first = first.clone();
            // No more than a message has room for.
            let room = MAX_RECORDS.saturating_sub(count).min(MAX_MESSAGE / (first.data.len() + 11));
            for number in 0..usize::from(value).min(room) {
                let mut other = first.clone();
                if let Some(byte) = other.data.last_mut() {
                    *byte ^= number as u8;
                }
                section.push(other);
            }
        }
        14 => {
            let zone = world.zone(asked);
            let denials: Vec<&OwnedRecord> = zone.denials().collect();
            if let Some(denial) = denials.get(usize::from(place & 63) % denials.len().max(1)) {
                section.extend(zone.signed(std::slice::from_ref(denial)));
            }
        }
        _ => {
            let rtype = TYPES[usize::from(place & 63) % TYPES.len()];
            let len = usize::from(input.byte());
            section.push(OwnedRecord::new(&name(world, value), rtype, input.bytes(len)));
        }
    }
}

const TYPES: [u16; 14] = [1, 2, 5, 6, 15, 16, 28, 39, 43, 46, 47, 48, 50, 65_280];

/// A name that is asked for somewhere, or one above or below.
fn name(world: &World, value: u16) -> Name {
    let questions = world.questions();
    let name = &questions[usize::from(value & 0x0fff) % questions.len()].0;
    match value >> 13 {
        0 => name.parent().unwrap_or_else(Name::root),
        1 => name.child("*"),
        2 => name.child("x"),
        _ => name.clone(),
    }
}

/// Has a reply judged: within the limits, and what passes is true.
fn judge(world: &World, (name, qtype, qclass): (&Name, u16, u16), reply: &[u8], forged: &[Forged]) {
    let (owner, rtype, data) = world.anchor();
    let anchor = TrustAnchor::new(&owner, rtype, &data).expect("the root has a DS record");
    let limits = ValidatorLimits::default();
    let mut validator = Validator::new(&[anchor], &[], limits);
    let now = u64::from(NOW);
    let question = Question { name: name.wire(), qtype, qclass };
    let mut job = validator.start(question, reply, now);
    for steps in 0.. {
        assert!(steps < MAX_STEPS, "a job ends");
        match validator.step(&mut job, now) {
            Progress::Working => {}
            Progress::Fetch { name, qtype } => {
                let (owner, _) = Name::parse(&name, 0).expect("names to fetch are names");
                let found = forged.iter().find(|((of, rtype), _)| (of, *rtype) == (&owner, qtype));
                let answer = match found {
                    Some((_, reply)) => reply.clone(),
                    None => world.reply(&owner, qtype).message.to_bytes(),
                };
                validator.fetched(&mut job, &name, qtype, Some(&answer));
            }
            Progress::Done(judgement) => {
                let cost = job.cost();
                assert!(cost.checks <= limits.checks && cost.fetches <= limits.fetches, "{cost:?}");
                assert!(cost.failed_checks <= limits.failed_checks, "{cost:?}");
                assert!(cost.hash_blocks <= limits.hash_blocks, "{cost:?}");
                let (SecurityStatus::Secure | SecurityStatus::Insecure) = judgement.verdict else {
                    return;
                };
                let message = Message::parse(reply).expect("what passes can be read");
                let is_kept = |at: usize| judgement.keep.get(at).is_none_or(|is_kept| *is_kept);
                let answer = message.sections[0].iter().enumerate();
                let answer = answer.filter(|(at, _)| is_kept(*at)).map(|(_, record)| record);
                let answer: Vec<OwnedRecord> = answer.cloned().collect();
                let is_secure = judgement.verdict == SecurityStatus::Secure;
                let truth =
                    oracle::check(world, (name, qtype), is_secure, message.rcode(), &answer);
                assert_eq!(truth, Ok(()), "{:?} passes: {message}", judgement.verdict);
                return;
            }
        }
    }
}
