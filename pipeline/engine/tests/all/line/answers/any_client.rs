//! Any cached answer, encoded for any client, is read back equal by another library.

use hickory_proto::rr::{RData, RecordType};
use pmdns_config::{AnswerSettings, ClientSubnet, SubnetPolicy};
use pmdns_stages::Step;
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::testing::{QueryFrame, ReplyRecord, query};
use pmdns_stages::wire::edns::COOKIE_LEN;
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::subnet::Subnet;
use proptest::prelude::*;

use super::line::{Line, MAX_UDP_SIZE, Setup, opened, options, read};

const NAME: &str = "node 7";
const QTYPE: u16 = 1000;

fn any_record() -> impl Strategy<Value = ReplyRecord> {
    let data = proptest::collection::vec(any::<u8>(), 1..60);
    (0usize..3, QTYPE..QTYPE + 4, 1u32..100_000, data)
}

/// A client, and how its answer's options shall be.
#[derive(Clone, Debug)]
struct Client {
    query: QueryFrame,
    asks_for_name: bool,
    cookie: Option<Vec<u8>>,
    subnet: Option<Vec<u8>>,
}

/// A subnet option's data.
fn any_subnet() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 16]>(), any::<bool>(), 0u8..129).prop_map(|(address, is_ipv4, length)| {
        let address = if is_ipv4 { &address[..4] } else { &address };
        Subnet::of_address(address).cut(length).data(0).to_vec()
    })
}

prop_compose! {
    fn any_client()(
        labels in proptest::collection::vec("[a-zA-Z0-9_-]{1,20}", 1..5),
        ipv6: bool,
        edns in proptest::option::of((0u16..5000, any::<bool>())),
        vlans in prop_oneof![Just(vec![]), Just(vec![5]), Just(vec![5, 6])],
        asks_for_name: bool,
        cookie in proptest::option::of(prop_oneof![
            proptest::collection::vec(any::<u8>(), 8),
            proptest::collection::vec(any::<u8>(), 16..41),
        ]),
        subnet in proptest::option::of(any_subnet()),
        unknown in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
        flags in prop_oneof![Just(0x140), Just(0x100), Just(0x120)],
    ) -> Client {
        let mut query = query(&format!("{}. TYPE{QTYPE}", labels.join(".")));
        (query.edns, query.vlans, query.flags) = (edns, vlans, flags);
        if let Some(unknown) = unknown {
            query = query.option(65_001, &unknown);
        }
        if let Some(cookie) = &cookie {
            query = query.option(option::COOKIE, cookie);
        }
        if let Some(subnet) = &subnet {
            query = query.option(option::SUBNET, subnet);
        }
        if asks_for_name {
            query = query.option(option::NSID, &[]);
        }
        if ipv6 {
            query = query.over_ipv6();
        }
        Client { query, asks_for_name, cookie, subnet }
    }
}

fn line() -> Line {
    let answers = AnswerSettings { nsid: Some(NAME.into()), ..AnswerSettings::default() };
    let cookies = Some(Cookies::new([5; 16], None, false, Calendar::default()));
    let client_subnet = ClientSubnet { policy: SubnetPolicy::Forward, ..ClientSubnet::default() };
    Setup { answers, cookies, client_subnet, ..Setup::default() }.line()
}

/// The codes of the options that the client's answer shall have.
fn expected_options(client: &Client) -> Vec<u16> {
    let cookie = client.cookie.is_some().then_some(option::COOKIE);
    let name = client.asks_for_name.then_some(option::NSID);
    let subnet = client.subnet.is_some().then_some(option::SUBNET);
    cookie.into_iter().chain(subnet).chain(name).collect()
}

proptest! {
    #[test]
    fn any_answer_for_any_client_is_read_back(
        client in any_client(),
        records in proptest::collection::vec(any_record(), 1..12),
        elapsed in prop_oneof![0u32..3, 0u32..100_000],
    ) {
        let asked = &client.query;
        let mut line = line();
        let mut learnt = asked.clone();
        learnt.name = learnt.name.to_ascii_lowercase();
        line.learn(&learnt, &records, 100);
        let packet = line.ask(asked, 100 + elapsed);
        let positive = records.iter().any(|record| record.0 == 0 && record.1 == QTYPE);
        let least = records.iter().map(|record| record.2.min(86_400)).min().unwrap_or(0);
        if !positive || elapsed >= least {
            prop_assert_eq!(packet.step, Step::SLOW_PATH, "nothing that could be kept so long");
            return Ok(());
        }
        let room = asked.edns.map_or(512, |(size, _)| size.clamp(512, MAX_UDP_SIZE));
        prop_assert!(opened(&packet, asked).len() <= usize::from(room));
        let message = read(&packet, asked);
        prop_assert_eq!(message.edns.is_some(), asked.edns.is_some());
        if let (Some(edns), Some((_, dnssec_ok))) = (&message.edns, asked.edns) {
            prop_assert_eq!((edns.version(), edns.max_payload()), (0, MAX_UDP_SIZE));
            prop_assert_eq!((edns.flags().dnssec_ok, edns.flags().z), (dnssec_ok, 0));
            let given = options(&message);
            let codes: Vec<u16> = given.iter().map(|(code, _)| *code).collect();
            prop_assert_eq!(codes, expected_options(&client));
            for (code, data) in given {
                match (code, &client.cookie) {
                    (option::COOKIE, Some(cookie)) => {
                        prop_assert_eq!((data.len(), &data[..8]), (COOKIE_LEN, &cookie[..8]));
                    }
                    (option::SUBNET, _) => prop_assert_eq!(Some(data), client.subnet.clone()),
                    _ => prop_assert_eq!(&data[..], NAME.as_bytes()),
                }
            }
        }
        if message.metadata.truncation {
            prop_assert!(message.answers.is_empty());
            return Ok(());
        }
        let sections = [&message.answers, &message.authorities, &message.additionals];
        for (section, got) in sections.into_iter().enumerate() {
            let sent: Vec<_> = records.iter().filter(|record| record.0 == section).collect();
            let dnssec_ok = asked.edns.is_some_and(|(_, dnssec_ok)| dnssec_ok);
            let may_lack = section == 2 || (section == 1 && !dnssec_ok);
            if may_lack && got.is_empty() && message.additionals.is_empty() {
                continue;
            }
            prop_assert_eq!(got.len(), sent.len());
            for (got, (_, rtype, ttl, data)) in got.iter().zip(sent) {
                prop_assert_eq!(got.record_type(), RecordType::from(*rtype));
                prop_assert_eq!(got.ttl, (*ttl).min(86_400) - elapsed);
                let RData::Unknown { rdata, .. } = &got.data else { panic!("an unknown type") };
                prop_assert_eq!(&rdata.anything[..], &data[..]);
            }
        }
    }
}
