//! What a denial of a name says of the names below it.

use hickory_proto::op::{Message, OpCode, Query as Question, ResponseCode};
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::testing::{self, query};
use pmdns_stages::wire::dns::Rcode;

use super::line::{BLOCKED, LOCAL, line, read};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn a_denial_of_a_name_is_read_back_as_one_of_those_below_it() {
    let mut line = line();
    let seed = line.seed();
    let mut denial = Message::response(7, OpCode::Query);
    denial.metadata.response_code = ResponseCode::NXDomain;
    denial.add_query(Question::query(name("gone.example."), RecordType::A));
    let soa = SOA::new(name("ns.gone.example."), name("admin.example."), 1, 2, 3, 4, 300);
    denial.add_authority(Record::from_rdata(name("example."), 600, RData::SOA(soa)));
    let denied = query("gone.example. A");
    let key = Key { name: &denied.name, qtype: 1, qclass: 1, flags: 0 };
    let lifetimes =
        Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 300, max_body: 1232 };
    let hash = key.hash(seed, seed.hash(key.name));
    let bytes = denial.to_vec().unwrap();
    assert!(bytes.windows(2).any(|pair| pair[0] == 0xc0), "there is something to be moved");
    let entry = Entry::from_reply(&bytes, key, hash, 10, &lifetimes).unwrap();
    for asked in ["gone.example. A", "x.gone.example. A", "a.very-long-label.b.c.gone.example. TXT"]
    {
        let asked = query(asked);
        let key = Key { name: &asked.name, qtype: asked.qtype, qclass: 1, flags: 0 };
        let hash = key.hash(seed, seed.hash(key.name));
        let cut = entry.cut_for(key, hash).unwrap();
        let mut packet =
            testing::act_once(&mut line.stages.parse, asked.packet(), &testing::at(12));
        packet.step = line.stages.encode.answer_with(&mut packet, &cut, &testing::at(12));
        let message = read(&packet, &asked);
        assert_eq!(message.metadata.response_code, ResponseCode::NXDomain);
        let mut expected = denial.authorities.clone();
        expected[0].ttl = 298;
        assert_eq!(message.authorities, expected);
    }
    let other = query("x.gone.example. A").edns(1232, true);
    let key = Key { name: &other.name, qtype: 1, qclass: 1, flags: Key::DO };
    assert_eq!(entry.cut_for(key, 0), None, "who wants proof gets none of this");
    let by_policy = entry.without_records(key, Rcode::NXDOMAIN, 0);
    assert_eq!(by_policy.cut_for(key, 0), None, "policy says nothing of the names below");
}

/// RFC 2308 section 5: what has no SOA record is not kept, so clients would ask again at once.
#[test]
fn denials_by_rules_say_for_how_long_clients_may_keep_them() {
    let mut line = line();
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}.{BLOCKED}", "b".repeat(44));
    for (owner, code) in [
        (BLOCKED, ResponseCode::NXDomain),
        (&*longest, ResponseCode::NXDomain),
        (LOCAL, ResponseCode::NoError),
    ] {
        let plain = query(&format!("{owner} TXT"));
        for asked in [plain.clone(), plain.clone().edns(512, false), plain.edns(1232, true)] {
            let packet = line.ask(&asked, 0);
            let message = read(&packet, &asked);
            assert_eq!((message.metadata.response_code, message.answers.len()), (code, 0));
            assert!(!message.metadata.truncation, "{owner}");
            let [soa] = &*message.authorities else { panic!("{owner}: {message}") };
            assert_eq!((&soa.name, soa.ttl), (&message.queries[0].name, 60), "{owner}");
            let RData::SOA(data) = &soa.data else { panic!("{soa}") };
            assert_eq!(data.minimum, 60);
        }
    }
}
