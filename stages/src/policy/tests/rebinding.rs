//! Addresses of private networks in answers about public names.

use pmdns_config::{Rebinding, RebindingAction, View};

use super::*;

const PRIVATE: [u8; 4] = [192, 168, 1, 1];
const PUBLIC: [u8; 4] = [192, 0, 2, 1];

fn address_record(address: [u8; 4]) -> (usize, u16, u32, Vec<u8>) {
    (0, rtype::A, 60, address.to_vec())
}

/// What becomes of an upstream's answer in a scope: the rcode, the counts, and whether it is as it was.
fn kept(
    policy: &Policy,
    asked: &str,
    records: &[(usize, u16, u32, Vec<u8>)],
    scope: u8,
) -> (Rcode, [u16; 3], bool) {
    let query = query(asked);
    let entry = entry_of(&query, records, 5, seed());
    let key = Key::in_scope(&query.name, query.qtype, scope);
    let judged = policy.rules.respond(entry.clone(), key, &reply(&query, records));
    let head = judged.head();
    let is_whole = head.flags & Head::REWRITTEN == 0;
    assert_eq!(is_whole, judged.message() == entry.message(), "{asked}");
    assert_eq!((head.learnt, head.expires), (entry.head().learnt, entry.head().expires));
    (head.rcode, head.counts(), is_whole)
}

fn with(tables: Vec<Rebinding>) -> Config {
    Config { rebindings: tables, ..bare() }
}

#[test]
fn a_public_name_does_not_lead_into_the_private_network() {
    let except = vec!["corp.example".to_owned(), "plex.direct".to_owned()];
    let mut config = with(vec![Rebinding { except, ..Rebinding::default() }]);
    config.local = vec![address("nas.example.")];
    config.local[0].record.data = PRIVATE.into();
    let mut policy = policy(&config);
    let denied = (Rcode::NOERROR, [0, 1, 0], false);
    let whole = (Rcode::NOERROR, [1, 0, 0], true);
    let [private, public] = [PRIVATE, PUBLIC].map(address_record);
    let ask = |asked: &str, records: &[_]| kept(&policy, asked, records, 0);
    assert_eq!(ask("page.example. A", std::slice::from_ref(&private)), denied);
    let both = [private.clone(), public.clone()];
    assert_eq!(ask("page.example. A", &both), (Rcode::NOERROR, [1, 0, 0], false));
    assert_eq!(ask("page.example. A", &[public]), whole);
    for name in ["corp.example.", "www.CORP.example.", "10-0-0-1.x.plex.direct."] {
        assert_eq!(ask(&format!("{name} A"), std::slice::from_ref(&private)), whole, "{name}");
    }
    // What a page is told apart by is the name that was asked for, wherever that leads.
    let alias = (0, rtype::CNAME, 60, name_of("printer.corp.example."));
    assert_eq!(ask("page.example. A", &[alias, private.clone()]), denied);
    let leads_out = (0, rtype::CNAME, 60, name_of("page.example."));
    assert_eq!(
        ask("www.corp.example. A", &[leads_out, private]),
        (Rcode::NOERROR, [2, 0, 0], true)
    );
    let ipv6 = [&[0; 10][..], &[0xff, 0xff], &PRIVATE].concat();
    assert_eq!(ask("page.example. AAAA", &[(0, rtype::AAAA, 60, ipv6)]), denied);
    let mut https =
        [&[0, 1, 0][..], &[0, 1, 0, 3, 2, b'h', b'2'], &[0, 4, 0, 4], &PRIVATE].concat();
    let service = |data: &[u8]| ask("page.example. HTTPS", &[(0, rtype::HTTPS, 60, data.to_vec())]);
    assert_eq!(service(&https), (Rcode::NOERROR, [1, 0, 0], false), "without the hint");
    https.truncate(10);
    assert_eq!(service(&https), whole);
    assert_eq!(local(&mut policy, "nas.example. A"), Some((Rcode::NOERROR, [1, 0, 0])), "ours");
}

#[test]
fn tables_hold_in_their_views_which_share_no_answers_with_others() {
    let in_views = |names: &[&str], action| Rebinding {
        views: names.iter().map(|name| (*name).to_owned()).collect(),
        action,
        ..Rebinding::default()
    };
    let mut config = with(vec![
        in_views(&["kids"], RebindingAction::Refuse),
        in_views(&["default"], RebindingAction::Remove),
    ]);
    let view = |name: &str| View { name: name.into(), ..View::default() };
    config.views = vec![view("kids"), view("admins"), view("guests")];
    assert_eq!(config.scopes(), [0, 1, 2, 2]);
    let policy = policy(&config);
    let records = [address_record(PRIVATE), address_record(PUBLIC)];
    let in_scope = |scope| kept(&policy, "page.example. A", &records, scope);
    assert_eq!(in_scope(0), (Rcode::NOERROR, [1, 0, 0], false));
    assert_eq!(in_scope(1), (Rcode::REFUSED, [0; 3], false));
    assert_eq!(in_scope(2), (Rcode::NOERROR, [2, 0, 0], true));
}

#[test]
fn addresses_of_ones_own_choice_and_several_tables() {
    let of = |prefix: &str| Rebinding {
        addresses: vec![prefix.parse().unwrap()],
        ..Rebinding::default()
    };
    let policy = policy(&with(vec![of("192.0.2.0/24"), of("198.51.100.0/24")]));
    let records = [PUBLIC, [198, 51, 100, 1], PRIVATE].map(address_record);
    assert_eq!(kept(&policy, "page.example. A", &records, 0), (Rcode::NOERROR, [1, 0, 0], false));
    let denied = (Rcode::NOERROR, [0, 1, 0], false);
    assert_eq!(kept(&policy, "page.example. A", &records[..2], 0), denied);
}

/// RFC 6147: what is made of an IPv4 address is no better.
#[test]
fn an_address_under_a_prefix_of_dns64_is_judged_by_what_it_stands_for() {
    let mut config = with(vec![Rebinding::default()]);
    config.dns64 = vec![pmdns_config::Dns64Settings {
        prefix: "2001:db8:64::/96".parse().unwrap(),
        exclude: Vec::new(),
        exclude_ipv4: Vec::new(),
        views: Vec::new(),
    }];
    let policy = policy(&config);
    let under = |address: [u8; 4]| {
        let data = [&[0x20, 1, 0xd, 0xb8, 0, 0x64][..], &[0; 6], &address].concat();
        kept(&policy, "page.example. AAAA", &[(0, rtype::AAAA, 60, data)], 0)
    };
    assert_eq!(under(PUBLIC), (Rcode::NOERROR, [1, 0, 0], true));
    assert_eq!(under(PRIVATE), (Rcode::NOERROR, [0, 1, 0], false));
}
