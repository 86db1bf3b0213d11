//! What is asked: the list, and the names made up beside it.

use std::ops::Range;

use domain::base::iana::Rtype;
use pmdns_config::narrow::to_u32;

use super::malformed;
use super::mix::{KINDS, Kind};
use super::templates::{Edns, FRESH_DIGITS, Templates};

/// The most names on the list.
pub const MAX_NAMES: usize = 1 << 24;
/// Names that do not exist and are asked for again and again.
const NXDOMAIN_NAMES: usize = 1000;
/// The label under which every name exists: the zone has a wildcard there.
pub const MISS_LABEL: &str = "miss";

/// A question of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name in wire format.
    pub name: Box<[u8]>,
    /// Type.
    pub qtype: u16,
}

/// Why there is nothing to ask.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// A line of the list.
    #[error("line {line} of the queries: {problem}; write a name and a type: www.example. A")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// An empty list.
    #[error("the queries are empty; write one a line: www.example. A")]
    Empty,
    /// Too long a list.
    #[error("there are more than {MAX_NAMES} queries; use fewer")]
    TooMany,
    /// A name that cannot be.
    #[error("the origin: {0}")]
    Origin(String),
}

/// The questions of the generated zone: `host0000000.example. A` and on.
pub fn numbered(names: usize) -> Result<Vec<Question>, QuestionError> {
    if names > MAX_NAMES {
        return Err(QuestionError::TooMany);
    }
    let questions: Vec<_> = (0..names)
        .map(|number| Question {
            name: pmdns_stages::testing::name_of(&crate::host(number)).into(),
            qtype: Rtype::A.to_int(),
        })
        .collect();
    if questions.is_empty() { Err(QuestionError::Empty) } else { Ok(questions) }
}

/// Reads a list as dnsperf has it: a name and a type on each line; `;` and `#` begin comments.
pub fn read(text: &str) -> Result<Vec<Question>, QuestionError> {
    let mut questions = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        let fail = |problem: String| QuestionError::Line { line: index + 1, problem };
        let mut words = line.split_whitespace();
        let (Some(name), Some(qtype)) = (words.next(), words.next()) else {
            return Err(fail("the type is missing".into()));
        };
        let name = wire_name(name).map_err(fail)?;
        let known: Result<Rtype, _> = qtype.parse();
        let qtype = known.map_err(|_| fail(format!("there is no type `{qtype}`")))?.to_int();
        if questions.len() == MAX_NAMES {
            return Err(QuestionError::TooMany);
        }
        questions.push(Question { name, qtype });
    }
    if questions.is_empty() { Err(QuestionError::Empty) } else { Ok(questions) }
}

/// All templates, and where those of each kind stand.
#[derive(Debug)]
pub struct Prepared {
    /// The templates.
    pub templates: Templates,
    /// Template numbers by kind.
    pub pools: [Range<u32>; KINDS],
}

/// Prepares the list and, below `origin`, names of the other kinds. `salt` goes into every fresh name, so
/// that one run's are new to a server that remembers another run's.
pub fn prepare(
    list: &[Question],
    origin: &str,
    salt: u16,
    edns: Option<Edns>,
) -> Result<Prepared, QuestionError> {
    let below = |prefix: &str| {
        let name = format!("{prefix}.{}", origin.trim_start_matches('.'));
        wire_name(&name).map_err(QuestionError::Origin)
    };
    let fresh = format!("s{salt:04x}{}", "x".repeat(FRESH_DIGITS));
    let a = Rtype::A.to_int();
    let mut templates = Templates::default();
    let mut pools = [const { 0..0 }; KINDS];
    for kind in Kind::ALL {
        let start = to_u32(templates.len());
        match kind {
            Kind::Hit => list.iter().for_each(|question| {
                templates.add_query(kind, &question.name, question.qtype, edns);
            }),
            Kind::Miss => {
                templates.add_query(kind, &below(&format!("{fresh}.{MISS_LABEL}"))?, a, edns);
            }
            Kind::Nxdomain => {
                for number in 0..NXDOMAIN_NAMES {
                    templates.add_query(kind, &below(&format!("nx{number:07}"))?, a, edns);
                }
            }
            Kind::Malformed => {
                let all = malformed::all(&below("malformed")?);
                all.iter().for_each(|malformed| templates.add_malformed(malformed));
            }
            Kind::RandomPrefix => templates.add_query(kind, &below(&fresh)?, a, edns),
        }
        pools[kind.index()] = start..to_u32(templates.len());
    }
    Ok(Prepared { templates, pools })
}

fn wire_name(text: &str) -> Result<Box<[u8]>, String> {
    let name: domain::base::Name<Vec<u8>> =
        text.parse().map_err(|error| format!("`{text}` is not a domain name: {error}"))?;
    Ok(name.into_octets().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let list = read("; comment\nwww.Example. A\n\nexample AAAA extra\n. NS\n").unwrap();
        assert_eq!(list.len(), 3);
        assert_eq!(*list[0].name, *b"\x03www\x07Example\0");
        assert_eq!((list[1].qtype, list[2].qtype, list[2].name.len()), (28, 2, 1));
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said() {
        let text = |list| read(list).unwrap_err().to_string();
        assert!(text("www.example A\nwww.example\n").contains("line 2"));
        assert!(text("www.example NOTYPE\n").contains("NOTYPE"));
        assert!(text("a..b A\n").contains("not a domain name"));
        assert_eq!(read("# nothing\n"), Err(QuestionError::Empty));
    }

    #[test]
    fn each_kind_has_its_templates() {
        let list = numbered(10).unwrap();
        let prepared = prepare(&list, "example.", 0xbeef, None).unwrap();
        assert_eq!(prepared.pools[Kind::Hit.index()], 0..10);
        for kind in Kind::ALL {
            let pool = prepared.pools[kind.index()].clone();
            assert!(!pool.is_empty());
            assert!(pool.into_iter().all(|number| prepared.templates.get(number).kind == kind));
        }
        let fresh = prepared.pools[Kind::Miss.index()].start;
        let payload = prepared.templates.payload(prepared.templates.get(fresh));
        assert!(payload.windows(5).any(|window| window == b"sbeef"));
    }
}
