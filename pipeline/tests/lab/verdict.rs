//! How the answers of pmdns and Unbound to one question differ, and the rules that say which differences are meant.

use std::time::Duration;

use hickory_proto::op::Message;
use hickory_proto::rr::Record;
use pmdns_stages::testing::QueryFrame;

/// TTLs may be a second off, for clocks tick when they like.
const SLACK: u32 = 2;
/// The longest TTL that pmdns keeps by default.
const MAX_TTL: u32 = 86_400;

/// One question, and what came back.
pub(crate) struct Answers<'q> {
    pub(crate) question: &'q QueryFrame,
    /// Of pmdns.
    pub(crate) ours: Message,
    /// Of Unbound.
    pub(crate) theirs: Message,
    /// Of NSD, whom both ask.
    pub(crate) source: Message,
    /// Since the first question.
    pub(crate) elapsed: Duration,
}

/// In what two answers can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Rcode,
    /// AA, TC, RD, RA, AD, CD.
    Flags,
    /// The question is not repeated letter for letter.
    Question,
    /// An OPT record that only one of them has, or another size or DO in it.
    Edns,
    Answer,
    Authority,
    Additional,
    /// One of our TTLs is above the source's, or has counted down more than time has passed.
    Ttl,
}

/// A kind of difference that is meant to be, and why.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    explains: fn(&Answers<'_>, Difference) -> bool,
}

/// Every difference that is meant to be.
pub(crate) const RULES: &[Rule] = &[Rule {
    // What nobody asked for is not relayed (docs/adr/0029): it could be anybody's word about other names.
    name: "pmdns leaves out authority records of a positive answer, and additional records",
    explains: |answers, difference| match difference {
        Difference::Authority => {
            answers.ours.authorities.is_empty() && !answers.ours.answers.is_empty()
        }
        Difference::Additional => answers.ours.additionals.is_empty(),
        _ => false,
    },
}];

impl Answers<'_> {
    /// In what they differ.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        let (ours, theirs) = (&self.ours, &self.theirs);
        let mut found = Vec::new();
        let mut check = |same: bool, difference| {
            if !same {
                found.push(difference);
            }
        };
        check(ours.metadata.response_code == theirs.metadata.response_code, Difference::Rcode);
        check(flags(ours) == flags(theirs), Difference::Flags);
        check(self.repeats_the_question(), Difference::Question);
        check(edns(ours) == edns(theirs), Difference::Edns);
        check(same_records(&ours.answers, &theirs.answers), Difference::Answer);
        check(same_records(&ours.authorities, &theirs.authorities), Difference::Authority);
        check(same_records(&ours.additionals, &theirs.additionals), Difference::Additional);
        check(self.ttls_are_right(MAX_TTL), Difference::Ttl);
        found
    }

    /// The rule that explains a difference.
    pub(crate) fn rule_for(&self, difference: Difference) -> Option<&'static Rule> {
        RULES.iter().find(|rule| (rule.explains)(self, difference))
    }

    /// Everything there is to know about a difference.
    pub(crate) fn describe(&self, difference: Difference) -> String {
        let QueryFrame { name, qtype, edns, flags, .. } = self.question;
        let name = name.escape_ascii();
        let mut text =
            format!("{difference:?}: {name} type {qtype} flags {flags:#06x} EDNS {edns:?}");
        for (server, message) in
            [("pmdns", &self.ours), ("Unbound", &self.theirs), ("NSD", &self.source)]
        {
            // Without what is in the first line.
            let lines = message.to_string();
            let lines = lines
                .lines()
                .filter(|line| !line.starts_with("; query") && !line.starts_with(";;"));
            text += &format!("\n  {server}: {}", lines.collect::<Vec<_>>().join("\n    "));
        }
        text
    }

    fn repeats_the_question(&self) -> bool {
        let [query] = &self.ours.queries[..] else { return false };
        let sent = &self.question.name;
        let labels: Vec<u8> =
            query.name.iter().flat_map(|label| [&[label.len() as u8], label].concat()).collect();
        labels == sent[..sent.len() - 1] && u16::from(query.query_type) == self.question.qtype
    }

    /// Every record of ours that the source has too has its TTL, less the time since the first question at most.
    fn ttls_are_right(&self, longest: u32) -> bool {
        let source = all_records(&self.source);
        all_records(&self.ours).iter().all(|ours| {
            source.iter().filter(|theirs| is_same(ours, theirs)).all(|theirs| {
                let most = theirs.ttl.min(longest);
                let least = most.saturating_sub(self.elapsed.as_secs() as u32 + SLACK);
                (least..=most).contains(&ours.ttl)
            })
        })
    }
}

fn all_records(message: &Message) -> Vec<Record> {
    [&message.answers[..], &message.authorities, &message.additionals].concat()
}

fn flags(message: &Message) -> [bool; 6] {
    let head = &message.metadata;
    [
        head.authoritative,
        head.truncation,
        head.recursion_desired,
        head.recursion_available,
        head.authentic_data,
        head.checking_disabled,
    ]
}

fn edns(message: &Message) -> Option<(u16, bool, u8)> {
    message.edns.as_ref().map(|edns| (edns.max_payload(), edns.flags().dnssec_ok, edns.version()))
}

/// Whether both have the same records, in whatever order, TTLs apart.
fn same_records(left: &[Record], right: &[Record]) -> bool {
    let mut rest: Vec<&Record> = right.iter().collect();
    let all_found = left.iter().all(|record| {
        let found = rest.iter().position(|other| is_same(record, other));
        found.map(|index| rest.swap_remove(index)).is_some()
    });
    all_found && rest.is_empty()
}

fn is_same(left: &Record, right: &Record) -> bool {
    (&left.name, left.dns_class, &left.data) == (&right.name, right.dns_class, &right.data)
}
