//! Local data, up to the entries that queries are answered with.

use super::*;
use crate::policy::filter::Filter;
use crate::testing::name_of;
use crate::wire::dns::Rcode;
use crate::wire::record::Records;

fn record(name: &str, rtype: u16, data: &[u8]) -> LocalRecord {
    LocalRecord { name: name_of(name).into(), rtype, ttl: 300, data: data.into() }
}

fn address(name: &str) -> LocalRecord {
    record(name, 1, &[192, 0, 2, 1])
}

fn soa(name: &str) -> LocalRecord {
    let data = [name_of(name), name_of("admin."), vec![0; 20]].concat();
    record(name, rtype::SOA, &data)
}

fn seed() -> Seed {
    Seed::new(*b"sixteen letters!")
}

struct Served {
    local: Local,
    filter: Filter,
    entries: Entries,
}

fn local(records: &[LocalRecord]) -> Served {
    let mut entries = Entries::new(seed());
    let local = Local::new(records, |_| false, &mut entries).unwrap();
    let mut filter = Filter::with_capacity(local.names.len(), seed());
    local.names.add_to(&mut filter);
    Served { local, filter, entries }
}

impl Served {
    /// The rcode and the types of the records that the name and type are answered with; `None`: the name
    /// is not ours.
    fn ask(&self, name: &str, qtype: u16) -> Option<(Rcode, Vec<u16>)> {
        let name = name_of(name);
        let found = self.local.find(&name, &self.filter.candidates(&name), qtype)?;
        if found.is_above {
            return None;
        }
        let entry = self.entries.get(found.entry).unwrap();
        let head = entry.head();
        assert_eq!((head.learnt, head.expires, head.ttl_count), (0, u32::MAX, 0));
        assert_eq!(head.flags & !Head::LEADS_ON, Head::AUTHORITATIVE);
        assert_eq!(head.optional_at, head.body_len);
        let body = entry.words()[head.body_at..].iter().flat_map(|word| word.to_le_bytes());
        let body: Vec<u8> = body.take(usize::from(head.body_len)).collect();
        // A message as encode would write it, read by the reader that reads upstreams' messages.
        let [answers, authorities, _] = head.counts().map(|count| count as u8);
        let header = [0, 0, 0x84, 0, 0, 1, 0, answers, 0, authorities, 0, 0];
        let message = [header.as_slice(), &name, &qtype.to_be_bytes(), &[0, 1], &body].concat();
        let records = Records::new(&message).unwrap().map(Result::unwrap);
        Some((head.rcode, records.map(|record| record.rtype).collect()))
    }

    /// The types of an answer without error.
    fn types(&self, name: &str, qtype: u16) -> Option<Vec<u16>> {
        let (rcode, types) = self.ask(name, qtype)?;
        assert_eq!(rcode, Rcode::NOERROR);
        Some(types)
    }
}

#[test]
fn each_type_of_a_name_has_its_answer_and_other_types_have_none() {
    let local = local(&[
        record("a.example.", 28, &[0; 16]),
        address("a.example."),
        record("a.example.", 1, &[192, 0, 2, 2]),
        record("b.example.", 16, b"\x02hi"),
    ]);
    assert_eq!(local.types("a.example.", 1), Some(vec![1, 1]));
    assert_eq!(local.types("A.Example.", 28), Some(vec![28]));
    assert_eq!(local.types("a.example.", 16), Some(vec![6]));
    assert_eq!(local.types("b.example.", 16), Some(vec![16]));
    assert_eq!(local.types("c.example.", 1), None);
    assert_eq!(local.types("x.a.example.", 1), None);
    assert_eq!(local.types("example.", 1), None, "not ours");
}

#[test]
fn any_is_answered_with_the_first_records_of_the_file() {
    let local = local(&[
        record("a.example.", 28, &[0; 16]),
        address("a.example."),
        record("w.example.", rtype::CNAME, &name_of("a.example.")),
        address("x.y.a.example."),
    ]);
    assert_eq!(local.types("a.example.", rtype::ANY), Some(vec![28]));
    assert_eq!(local.types("w.example.", rtype::ANY), Some(vec![5]));
    assert_eq!(local.types("y.a.example.", rtype::ANY), Some(vec![6]));
}

#[test]
fn aliases_answer_every_type_with_at_least_themselves() {
    let local = local(&[
        record("w.example.", rtype::CNAME, &name_of("a.example.")),
        address("a.example."),
        record("far.example.", rtype::CNAME, &name_of("elsewhere.")),
    ]);
    assert_eq!(local.types("w.example.", 1), Some(vec![5, 1]));
    assert_eq!(local.types("w.example.", 28), Some(vec![5, 6]));
    assert_eq!(local.types("w.example.", 5), Some(vec![5]));
    assert_eq!(local.types("far.example.", 1), Some(vec![5]));
}

#[test]
fn a_name_between_local_names_exists_without_records() {
    let local = local(&[address("lan."), address("a.b.lan.")]);
    assert_eq!(local.types("b.lan.", 1), Some(vec![6]));
    assert_eq!(local.types(".", 1), None);
}

#[test]
fn below_an_soa_record_everything_is_ours() {
    let local = local(&[soa("lan."), address("a.b.lan.")]);
    assert_eq!(local.types("a.b.lan.", 1), Some(vec![1]));
    assert_eq!(local.types("a.b.lan.", 28), Some(vec![6]));
    assert_eq!(local.types("b.lan.", 1), Some(vec![6]), "an empty name exists");
    assert_eq!(local.types("lan.", 1), Some(vec![6]));
    let missing = Some((Rcode::NXDOMAIN, vec![6]));
    assert_eq!(local.ask("c.lan.", 1), missing);
    assert_eq!(local.ask("x.y.b.LAN.", 1), missing);
    assert_eq!(local.ask("x.a.b.lan.", rtype::ANY), missing);
    assert_eq!(local.ask("alan.", 1), None);
}

/// The example of RFC 4592 section 2.2.1.
#[test]
fn wildcards_answer_for_what_does_not_exist() {
    let local = local(&[
        soa("example."),
        record("example.", rtype::NS, &name_of("ns.example.com.")),
        record("*.example.", 16, b"\x02hi"),
        record("*.example.", 15, &[&[0, 10], name_of("host1.example.").as_slice()].concat()),
        record("sub.*.example.", 16, b"\x02no"),
        address("host1.example."),
        record("_ssh._tcp.host1.example.", 33, &[0; 7]),
        record("_ssh._tcp.host2.example.", 33, &[0; 7]),
        record("subdel.example.", rtype::NS, &name_of("ns.example.com.")),
    ]);
    assert_eq!(local.types("host3.example.", 15), Some(vec![15]));
    assert_eq!(local.types("host3.example.", 1), Some(vec![6]));
    assert_eq!(local.types("foo.bar.example.", 16), Some(vec![16]));
    assert_eq!(local.types("host1.example.", 15), Some(vec![6]));
    assert_eq!(local.types("sub.*.example.", 15), Some(vec![6]));
    let missing = Some((Rcode::NXDOMAIN, vec![6]));
    assert_eq!(local.ask("_telnet._tcp.host1.example.", 33), missing);
    assert_eq!(local.ask("host.subdel.example.", 1), None, "another server's");
    assert_eq!(local.ask("subdel.example.", rtype::NS), None);
    assert_eq!(local.ask("ghost.*.example.", 15), missing);
}

#[test]
fn a_wildcard_needs_no_zone() {
    let local = local(&[address("*.dev.lan."), address("x.dev.lan.")]);
    assert_eq!(local.types("a.dev.lan.", 1), Some(vec![1]));
    assert_eq!(local.types("a.b.dev.lan.", 28), Some(vec![6]));
    assert_eq!(local.types("dev.lan.", 1), None, "a wildcard is not about the name above it");
    assert_eq!(local.types("a.x.dev.lan.", 1), None, "x exists and has no wildcard");
}

#[test]
fn a_wildcard_s_alias_is_followed_from_the_name_asked_for() {
    let local = local(&[
        soa("lan."),
        record("*.lan.", rtype::CNAME, &name_of("a.lan.")),
        address("a.lan."),
    ]);
    assert_eq!(local.types("some.long.name.lan.", 1), Some(vec![5, 1]));
    assert_eq!(local.types("other.lan.", 28), Some(vec![5, 6]));
}

#[test]
fn names_below_a_dname_record_lead_on() {
    let local = local(&[
        soa("lan."),
        record("tree.lan.", rtype::DNAME, &name_of("other.")),
        record("tree.lan.", 1, &[192, 0, 2, 1]),
    ]);
    assert_eq!(local.types("tree.lan.", 1), Some(vec![1]));
    assert_eq!(local.types("tree.lan.", rtype::DNAME), Some(vec![rtype::DNAME]));
    let below = name_of("a.b.tree.lan.");
    let number = local.local.find(&below, &local.filter.candidates(&below), 1).unwrap();
    let head = local.entries.get(number.entry).unwrap().head();
    assert!(head.is_template() && head.flags & Head::LEADS_ON != 0);
    assert_eq!(local.ask("tre.lan.", 1).map(|(rcode, _)| rcode), Some(Rcode::NXDOMAIN));
}
