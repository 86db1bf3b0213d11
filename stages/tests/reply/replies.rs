//! Odd replies: what clients of others get of them, and what clients of pmdns get.

use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::wire::dns::{HEADER_LEN, Rcode};
use pmdns_stages::wire::name;

/// Replies, and what clients of BIND, Unbound and dnsdist get.
const CASES: &str = include_str!("../data/replies.txt");

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: usize::MAX };

/// Rcode and number of answers.
type Told = (u8, u16);

/// What a client gets of a reply: SERVFAIL if it is no answer.
fn told(reply: &[u8]) -> Told {
    let name_len = name::length(&reply[HEADER_LEN..]).expect("a name");
    let name = reply[HEADER_LEN..HEADER_LEN + name_len].to_ascii_lowercase();
    let key = Key { name: &name, qtype: 1, qclass: 1, flags: 0 };
    let entry = Entry::from_reply(reply, key, 0, 0, &LIFETIMES);
    entry.map_or((Rcode::SERVFAIL.0, 0), |entry| (entry.head().rcode.0, entry.head().counts()[0]))
}

/// What two of three say; `None`: each says something else.
fn majority<T: PartialEq + Copy>(said: [T; 3]) -> Option<T> {
    let [one, two, three] = said;
    if one == two || one == three { Some(one) } else { (two == three).then_some(two) }
}

#[test]
fn clients_get_of_odd_replies_what_those_of_the_majority_get() {
    let mut wrong = Vec::new();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.splitn(6, ' ').collect();
        let said = [0, 1, 2].map(|at: usize| -> Told {
            let (rcode, answers) = fields[at].split_once('/').unwrap();
            (rcode.parse().unwrap(), answers.parse().unwrap())
        });
        let digits = fields[4].as_bytes().chunks(2);
        let digits = digits.map(|pair| std::str::from_utf8(pair).unwrap());
        let reply: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let ours = told(&reply);
        let is_as_others = majority(said.map(|told| told.0)).is_none_or(|rcode| rcode == ours.0)
            && majority(said).is_none_or(|told| told == ours);
        let is_exempt = match fields[3] {
            "-" => false,
            "refers" | "others" | "dropped" => true,
            other => panic!("no reason: {other}"),
        };
        if is_as_others == is_exempt {
            wrong.push(format!("{ours:?}: {} {}", fields[..4].join(" "), fields[5]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
