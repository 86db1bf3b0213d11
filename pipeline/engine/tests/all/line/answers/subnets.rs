//! Clients that say which network they are in (RFC 7871), from query to answer.

use hickory_proto::op::ResponseCode;
use pmdns_config::{ClientSubnet, SubnetPolicy};
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::miss::Miss;
use pmdns_stages::testing::{QueryFrame, at, name_of, query};
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::subnet::Subnet;
use pmdns_stages::{Answer, Step};

use super::line::{BLOCKED, LOCAL, Line, Setup, address, options, read};

/// 192.0.2.0/24.
const NETWORK: [u8; 7] = [0, 1, 24, 0, 192, 0, 2];
/// An IPv6 network of 33 bits.
const NETWORK_V6: [u8; 9] = [0, 2, 33, 0, 0x20, 1, 0xd, 0xb8, 0x80];
/// Somebody who does not want to say.
const OPTED_OUT: [u8; 4] = [0, 1, 0, 0];

fn line(policy: SubnetPolicy) -> Line {
    let client_subnet = ClientSubnet { policy, ..ClientSubnet::default() };
    let cookies = Some(Cookies::new([1; 16], None, false, Calendar::default()));
    Setup { client_subnet, cookies, ..Setup::default() }.line()
}

fn plain() -> QueryFrame {
    query("a.example. A").edns(1232, false)
}

fn from(network: &[u8]) -> QueryFrame {
    plain().option(option::SUBNET, network)
}

#[test]
fn an_answer_for_everybody_repeats_the_network_with_a_scope_of_zero() {
    for policy in [SubnetPolicy::Forward, SubnetPolicy::Add] {
        let mut line = line(policy);
        line.learn(&from(&NETWORK), &[(0, 1, 300, address(1))], 0);
        for network in [&NETWORK[..], &NETWORK_V6, &OPTED_OUT] {
            let packet = line.ask(&from(network), 1);
            let answer = read(&packet, &from(network));
            assert_eq!(answer.answers.len(), 1);
            assert_eq!(options(&answer), [(option::SUBNET, network.to_vec())]);
        }
        assert_eq!(line.ask(&plain(), 1).step, Step::SLOW_PATH, "who says nothing is kept apart");
        line.learn(&plain(), &[(0, 1, 300, address(1))], 0);
        assert_eq!(options(&read(&line.ask(&plain(), 1), &plain())), []);
    }
}

#[test]
fn what_is_answered_here_is_for_everybody_too() {
    let mut line = line(SubnetPolicy::Forward);
    for name in [LOCAL, BLOCKED] {
        let asked = QueryFrame { name: name_of(name), ..from(&NETWORK) };
        let given = options(&read(&line.ask(&asked, 0), &asked));
        assert_eq!(given[0], (option::SUBNET, NETWORK.to_vec()), "{name}");
    }
}

#[test]
fn malformed_subnets_are_format_errors_where_they_are_read() {
    let malformed: [&[u8]; 5] = [
        &[],
        &[0, 1, 24, 0, 192, 0],
        &[0, 1, 23, 0, 192, 0, 3],
        &[0, 7, 8, 0, 192],
        // A scope, which only answers have.
        &[0, 1, 24, 24, 192, 0, 2],
    ];
    for data in malformed {
        let asked = from(data);
        for policy in [SubnetPolicy::Forward, SubnetPolicy::Add] {
            let answer = read(&line(policy).ask(&asked, 0), &asked);
            assert_eq!(answer.metadata.response_code, ResponseCode::FormErr, "{data:?}");
            assert_eq!(options(&answer), []);
        }
        let mut stripping = line(SubnetPolicy::Strip);
        stripping.learn(&plain(), &[(0, 1, 300, address(1))], 0);
        let answer = read(&stripping.ask(&asked, 0), &asked);
        assert_eq!((answer.answers.len(), options(&answer).len()), (1, 0), "it is not there");
    }
}

#[test]
fn a_miss_knows_the_network_and_its_answer_the_scope() {
    let mut line = line(SubnetPolicy::Forward);
    for cookie in [&[][..], &[7; 8]] {
        for (network, scope) in [(&NETWORK[..], 20), (&NETWORK_V6, 33), (&OPTED_OUT, 0)] {
            let mut asked = from(network);
            if !cookie.is_empty() {
                asked = asked.option(option::COOKIE, cookie);
            }
            let entry = line.entry(&asked, &[(0, 1, 60, address(2))], 0);
            let missed = line.ask(&asked, 0);
            assert_eq!(missed.step, Step::SLOW_PATH);
            let said = Miss::of(&missed, 0).subnet();
            assert_eq!(said, Subnet::read(network).map(|(subnet, _)| subnet));
            let mut packet = Line::rebuilt(&missed, Answer::None);
            packet.set_scope(scope);
            packet.step = line.stages.encode.answer_with(&mut packet, &entry, &at(0));
            let given = options(&read(&packet, &asked));
            let mut expected = network.to_vec();
            expected[3] = scope;
            assert_eq!(given.last(), Some(&(option::SUBNET, expected)));
            assert_eq!(given.len(), 1 + usize::from(!cookie.is_empty()));
        }
    }
    let mut silent = Line::rebuilt(&line.ask(&plain(), 0), Answer::None);
    let before = silent.frame.bytes().to_vec();
    silent.set_scope(24);
    assert_eq!(silent.frame.bytes(), before, "who said nothing is told nothing");
}

#[test]
fn of_several_subnets_the_first_counts() {
    let mut line = line(SubnetPolicy::Forward);
    let asked = from(&NETWORK).option(option::SUBNET, &[1]);
    line.learn(&asked, &[(0, 1, 300, address(1))], 0);
    let answer = read(&line.ask(&asked, 1), &asked);
    assert_eq!(options(&answer), [(option::SUBNET, NETWORK.to_vec())]);
}
