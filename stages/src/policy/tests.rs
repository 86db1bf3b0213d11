//! The stage as a whole: what becomes of queries under the rules of a configuration and its files.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use pmdns_config::{
    BlockAction, Blocklist, Config, Forward, ListFormat, Local, LocalRecord, Rpz, ZoneFile,
};

use pmdns_nics::hugepage::Arena;

use super::*;
use crate::acl::Acl;
use crate::cache::{Cache, Head, Key, answers};
use crate::lookup::Lookup;
use crate::parse::Parse;
use crate::ports::{Port, Ports};
use crate::step::Reason;
use crate::testing::{
    OUR_IPV4, OUR_MAC, QueryFrame, act_once, at, entry_of, name_of, query, reply,
};
use crate::wire::dns::Rcode;
use crate::wire::name::Seed;

mod absent;
mod delegations;
mod passed;
mod rebinding;
mod redirected;
mod views;
mod zone_files;
mod zones;

const ON: Step = Step::SLOW_PATH;
const ANSWERED: Step = Step::ANSWER;
const BLOCKED: (Step, Answer) = (ANSWERED, Answer::Rcode(Rcode::NXDOMAIN));

fn seed() -> Seed {
    Seed::new(*b"sixteen letters!")
}

/// A config without the rules that are there by default.
fn bare() -> Config {
    let policy = pmdns_config::PolicySettings {
        special_use: false,
        ..pmdns_config::PolicySettings::default()
    };
    Config { policy, ..Config::default() }
}

/// An A record for this name.
fn address(name: &str) -> Local {
    let data = Box::new([192, 0, 2, 1]);
    let record = LocalRecord { name: name_of(name).into(), rtype: 1, ttl: 300, data };
    Local { record, views: Vec::new() }
}

/// A file that is gone when it is dropped.
struct Written(PathBuf);

impl Written {
    fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pmdns-rules-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    /// As a policy zone with the apex `rpz`.
    fn rpz(&self) -> Rpz {
        Rpz { file: self.0.clone(), origin: Some("rpz".into()), ..Rpz::default() }
    }

    fn zone(&self, origin: &str) -> ZoneFile {
        ZoneFile { file: self.0.clone(), origin: Some(origin.into()), views: Vec::new() }
    }

    fn list(&self, action: BlockAction) -> Blocklist {
        Blocklist { file: self.0.clone(), format: ListFormat::Auto, action, ..Blocklist::default() }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn policy(config: &Config) -> Policy {
    Policy::new(Arc::new(Ruleset::load(config, seed(), 1).unwrap().0), seed())
}

/// A stage with A records for these names and with those names blocked.
fn policy_of(local: &[&str], blocked: &[&str]) -> Policy {
    let mut config = bare();
    config.local = local.iter().map(|name| address(name)).collect();
    config.block.names = blocked.iter().map(|name| (*name).to_owned()).collect();
    policy(&config)
}

/// What the stage makes of a query that parse has read.
fn ask(policy: &mut Policy, text: &str) -> (Step, Answer) {
    let packet = asked(policy, text);
    (packet.step, packet.answer)
}

/// The same, whole.
fn asked(policy: &mut Policy, text: &str) -> Packet {
    let ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
    let packet = act_once(&mut Parse::new(ports, seed()), query(text).packet(), &at(0));
    assert_eq!(packet.step, Step::at(StageName::Acl));
    act_once(policy, packet, &at(0))
}

/// The rcode and the counts of a local answer.
fn local(policy: &mut Policy, text: &str) -> Option<(Rcode, [u16; 3])> {
    let (step, Answer::Local(found)) = ask(policy, text) else { return None };
    assert_eq!(step, ANSWERED);
    let head = policy.rules.entry(found).unwrap().head();
    Some((head.rcode, head.counts()))
}

#[test]
fn without_rules_everything_goes_on() {
    let mut policy = policy(&bare());
    assert_eq!(ask(&mut policy, "www.example. A"), (ON, Answer::None));
}

#[test]
fn a_local_name_is_answered_in_any_letter_case() {
    let mut policy = policy_of(&["www.example."], &[]);
    assert_eq!(local(&mut policy, "WWW.example. A"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(local(&mut policy, "www.example. TXT"), Some((Rcode::NOERROR, [0, 1, 0])));
    assert_eq!(ask(&mut policy, "example. A"), (ON, Answer::None));
    assert_eq!(ask(&mut policy, "x.www.example. A"), (ON, Answer::None));
}

#[test]
fn a_blocked_name_is_denied_with_everything_below_it() {
    let mut policy = policy_of(&[], &["ads.example."]);
    for text in ["ads.example. A", "x.y.ADS.example. TXT", "ads.example. ANY"] {
        assert_eq!(ask(&mut policy, text), BLOCKED, "{text}");
    }
    for text in ["example. A", "roads.example. A", "www.example. A"] {
        assert_eq!(ask(&mut policy, text), (ON, Answer::None), "{text}");
    }
}

#[test]
fn a_local_name_beats_a_blocked_one_that_is_not_longer() {
    let mut policy = policy_of(
        &["same.example.", "www.ads.example.", "short.example."],
        &["same.example.", "ads.example.", "x.short.example."],
    );
    let mut is_local = |text| local(&mut policy, text).is_some();
    assert!(is_local("same.example. A"));
    assert!(is_local("www.ads.example. A"));
    assert!(is_local("short.example. A"));
    assert!(is_local("ads.example. A"), "it exists, for the name below it does");
    assert_eq!(ask(&mut policy, "x.short.example. A"), BLOCKED);
    assert_eq!(ask(&mut policy, "other.ads.example. A"), BLOCKED);
    assert_eq!(ask(&mut policy, "x.www.ads.example. A"), BLOCKED);
}

#[test]
fn every_action_of_a_block_list() {
    let lists = [
        (BlockAction::Nxdomain, "a.example"),
        (BlockAction::Nodata, "b.example"),
        (BlockAction::Refused, "c.example"),
        (BlockAction::Drop, "d.example"),
        (BlockAction::Null, "e.example"),
    ];
    let files = lists.map(|(action, text)| (action, Written::new(text)));
    let mut config = bare();
    config.blocklists = files.iter().map(|(action, file)| file.list(*action)).collect();
    let mut policy = policy(&config);
    let rcode = |rcode| (ANSWERED, Answer::Rcode(rcode));
    assert_eq!(ask(&mut policy, "a.example. A"), rcode(Rcode::NXDOMAIN));
    assert_eq!(ask(&mut policy, "b.example. A"), rcode(Rcode::NOERROR));
    assert_eq!(ask(&mut policy, "c.example. A"), rcode(Rcode::REFUSED));
    assert_eq!(ask(&mut policy, "d.example. A"), (Step::drop(Reason::Blocked), Answer::None));
    assert_eq!(local(&mut policy, "e.example. A"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(local(&mut policy, "e.example. AAAA"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(ask(&mut policy, "e.example. TXT"), rcode(Rcode::NOERROR));
}

#[test]
fn the_canary_of_browsers_is_denied_in_its_views_only() {
    let mut config = bare();
    assert_eq!(ask(&mut policy(&config), "use-application-dns.net. A"), (ON, Answer::None));
    config.policy.doh_canary = vec!["default".into()];
    assert_eq!(ask(&mut policy(&config), "use-Application-dns.net. A"), BLOCKED);
    config.views = vec![pmdns_config::View { name: "kids".into(), ..Default::default() }];
    config.policy.doh_canary = vec!["kids".into()];
    assert_eq!(ask(&mut policy(&config), "use-application-dns.net. A"), (ON, Answer::None));
}

/// The lists of two public blockers once let names through in capitals, or those of a kind of rule.
#[test]
fn trap_19_a_canary_of_every_rule_kind_in_mixed_case() {
    let hosts = Written::new("0.0.0.0 exact.canary.example\n");
    let domains = Written::new("below.canary.example\n*.wild.canary.example\nTLD-canary.\n");
    let adblock = Written::new("||adblock.canary.example^\n@@||spared.adblock.canary.example^\n");
    let mut config = bare();
    config.block.names = vec!["Inline.canary.example".into()];
    let zone = rules("policy.canary.example 60 CNAME .\n*.zone.canary.example 60 CNAME .\n");
    config.rpz = vec![zone.rpz()];
    let files = [&hosts, &domains, &adblock];
    config.blocklists = files.iter().map(|file| file.list(BlockAction::Nxdomain)).collect();
    let mut policy = policy(&config);
    for name in [
        "exact.canary.example",
        "below.canary.example",
        "x.below.canary.example",
        "a.b.c.wild.canary.example",
        "adblock.canary.example",
        "x.adblock.canary.example",
        "policy.canary.example",
        "x.y.zone.canary.example",
        "inline.canary.example",
        "x.inline.canary.example",
        "any.name.tld-canary",
        "tld-canary",
    ] {
        let mixed: String = name
            .chars()
            .enumerate()
            .map(|(at, c)| if at % 2 == 0 { c.to_ascii_uppercase() } else { c })
            .collect();
        for name in [name.to_owned(), name.to_uppercase(), mixed] {
            assert_eq!(ask(&mut policy, &format!("{name}. A")), BLOCKED, "{name}");
        }
    }
    for name in ["x.exact.canary.example", "spared.adblock.canary.example", "canary.example"] {
        assert_eq!(ask(&mut policy, &format!("{name}. A")), (ON, Answer::None), "{name}");
    }
    // And the one kind of rule that is about no name.
    let client = rules("32.1.0.77.10.rpz-client-ip 60 CNAME .\n");
    assert_eq!(ask(&mut with_policies(&[&client], &[]), "Any.Name. A"), BLOCKED);
}

/// A million rules, of the shapes that public lists have.
#[test]
fn trap_20_a_million_rules_block_what_they_name_and_nothing_else() {
    let count = if cfg!(miri) { 500 } else { 1_000_000 };
    let name = |number: u32| match number % 3 {
        0 => format!("ads{number}.example{}.com", number % 5000),
        1 => format!("tracker{number}.net"),
        _ => format!("a.b{number}.cdn.example.org"),
    };
    let file = Written::new(&(0..count).map(|number| name(number) + "\n").collect::<String>());
    let mut config = bare();
    config.blocklists = vec![file.list(BlockAction::Nxdomain)];
    let (ruleset, digest) = Ruleset::load(&config, seed(), 1).unwrap();
    assert_eq!(digest.blocked_names, count as usize);
    assert!(digest.bytes < 64 * count as usize, "{} bytes", digest.bytes);
    let mut policy = Policy::new(Arc::new(ruleset), seed());
    for number in (0..count).step_by(997) {
        assert_eq!(ask(&mut policy, &format!("x.{}. A", name(number).to_uppercase())), BLOCKED);
        let free = format!("www.free{number}.example{}.com. A", number % 5000);
        assert_eq!(ask(&mut policy, &free), (ON, Answer::None), "{free}");
    }
}

#[test]
fn a_zone_file_is_served_with_its_negatives() {
    let file = Written::new(
        "@ 600 SOA ns admin 1 2 3 4 30\n@ 600 NS ns\nns 600 A 192.0.2.1\n*.w 600 TXT hi\n\
         sub 600 NS ns.elsewhere.\n",
    );
    let mut config = bare();
    config.zones = vec![file.zone("corp.lan")];
    config.block.names = vec!["lan".into()];
    let mut policy = policy(&config);
    assert_eq!(local(&mut policy, "ns.corp.lan. A"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(local(&mut policy, "ns.corp.lan. MX"), Some((Rcode::NOERROR, [0, 1, 0])));
    assert_eq!(local(&mut policy, "x.y.w.corp.lan. TXT"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(local(&mut policy, "no.corp.lan. A"), Some((Rcode::NXDOMAIN, [0, 1, 0])));
    assert_eq!(ask(&mut policy, "other.lan. A"), BLOCKED);
    assert_eq!(ask(&mut policy, "x.sub.corp.lan. A"), BLOCKED, "not ours, so the list decides");
}

#[test]
fn special_use_names_are_answered_by_default_and_can_be_overridden() {
    let mut policy = policy(&Config::default());
    assert_eq!(local(&mut policy, "x.LocalHost. A"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(local(&mut policy, "localhost. MX"), Some((Rcode::NOERROR, [0, 1, 0])));
    for text in ["x.onion. A", "a.b.invalid. A", "4.3.2.10.in-addr.arpa. PTR", "x.home.arpa. A"] {
        assert_eq!(local(&mut policy, text), Some((Rcode::NXDOMAIN, [0, 1, 0])), "{text}");
    }
    for text in ["www.example.com. A", "4.3.2.192.in-addr.arpa. PTR", "arpa. NS", "x.test. A"] {
        assert_eq!(ask(&mut policy, text), (ON, Answer::None), "{text}");
    }
    let mut config = Config { local: vec![address("nas.home.arpa.")], ..Config::default() };
    config.local.push(address("10.1.2.3.lan."));
    config.local[1].record.data = Box::new([10, 1, 2, 3]);
    config.policy.auto_ptr = true;
    let mut policy = self::policy(&config);
    assert_eq!(local(&mut policy, "nas.home.arpa. A"), Some((Rcode::NOERROR, [1, 0, 0])));
    let pointer = local(&mut policy, "3.2.1.10.in-addr.arpa. PTR");
    assert_eq!(pointer, Some((Rcode::NOERROR, [1, 0, 0])));
    let forward =
        |zone: &str| Forward { zone: zone.into(), group: "corp".into(), views: Vec::new() };
    let forwards = ["corp.home.arpa.", "onion.", "."].map(forward).into();
    let mut policy = self::policy(&Config { forwards, ..Config::default() });
    for text in ["a.corp.home.arpa. A", "corp.home.arpa. A", "x.onion. A"] {
        assert_eq!(ask(&mut policy, text), (ON, Answer::None), "{text}");
    }
    assert_eq!(local(&mut policy, "x.home.arpa. A"), Some((Rcode::NXDOMAIN, [0, 1, 0])));
}

#[test]
fn nothing_below_resolver_arpa_is_forwarded_and_our_transports_are_discovered_there() {
    let forward =
        |zone: &str| Forward { zone: zone.into(), group: "corp".into(), views: Vec::new() };
    let forwards = ["resolver.arpa.", "_dns.resolver.arpa.", "."].map(forward).into();
    let mut config = Config { forwards, ..Config::default() };
    let nodata = Some((Rcode::NOERROR, [0, 1, 0]));
    let nxdomain = Some((Rcode::NXDOMAIN, [0, 1, 0]));
    for special_use in [true, false] {
        config.policy.special_use = special_use;
        let mut policy = self::policy(&config);
        assert_eq!(local(&mut policy, "_dns.resolver.arpa. TYPE64"), nxdomain);
        assert_eq!(local(&mut policy, "x.y.resolver.arpa. A"), nxdomain);
    }
    config.streams.tls = vec!["192.0.2.53:853".parse().unwrap()];
    config.streams.https = vec!["192.0.2.53:443".parse().unwrap()];
    config.streams.name = Some("dns.example".to_owned());
    for special_use in [true, false] {
        config.policy.special_use = special_use;
        let mut policy = self::policy(&config);
        let found = local(&mut policy, "_dns.resolver.arpa. TYPE64");
        assert_eq!(found, Some((Rcode::NOERROR, [2, 0, 0])), "two transports");
        assert_eq!(local(&mut policy, "_dns.resolver.arpa. A"), nodata);
        assert_eq!(local(&mut policy, "_dns.dns.example.resolver.arpa. TYPE64"), nxdomain);
    }
}

/// A stage with these policy zones and these names blocked.
fn with_policies(zones: &[&Written], blocked: &[&str]) -> Policy {
    let mut config = bare();
    config.rpz = zones.iter().map(|zone| zone.rpz()).collect();
    config.block.names = blocked.iter().map(|name| (*name).to_owned()).collect();
    policy(&config)
}

/// A policy zone of these rules.
fn rules(text: &str) -> Written {
    Written::new(&format!("@ 60 SOA ns admin 1 2 3 4 5\n{text}"))
}

/// The rcode and the counts of what is kept of an answer that leads over aliases to these names, and to an address.
fn kept_of_aliases(policy: &Policy, asked: &str, targets: &[&str]) -> (Rcode, [u16; 3]) {
    let query = query(asked);
    let aliases = targets.iter().map(|target| (0, rtype::CNAME, 60, name_of(target)));
    let records: Vec<_> = aliases.chain([(0, 1, 60, vec![192, 0, 2, 1])]).collect();
    let entry = entry_of(&query, &records, 5, seed());
    let key = Key { name: &query.name, qtype: query.qtype, qclass: 1, flags: 0 };
    let judged = policy.rules.respond(entry.clone(), key, &reply(&query, &records));
    let again = policy.rules.respond_again(entry);
    assert_eq!(again.words(), judged.words(), "the same from the cache as from the upstream");
    (judged.head().rcode, judged.head().counts())
}

#[test]
fn the_order_of_block_lists_and_exceptions() {
    let first = Written::new(
        "||both.example^\n||home.example^\n@@||spared.example^\n||hard.example^$important\n||x.deep.example^\n",
    );
    let second =
        Written::new("||both.example^\n||spared.example^\n||deep.example^\n@@||hard.example^\n");
    let mut config = bare();
    config.blocklists = vec![first.list(BlockAction::Refused), second.list(BlockAction::Nodata)];
    let block = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    config.block.names = block(&["both.block.example", "first.example", "lifted.example"]);
    config.block.except = block(&["hard.block.example", "lifted.example"]);
    config.local = vec![address("www.home.example.")];
    let third = Written::new("||hard.block.example^$important\n||both.block.example^\n");
    config.blocklists.push(third.list(BlockAction::Null));
    let mut stage = policy(&config);
    for (name, expected) in [
        ("both.example.", Some(Rcode::REFUSED)),
        ("spared.example.", None),
        ("x.spared.example.", None),
        ("hard.example.", Some(Rcode::REFUSED)),
        ("deep.example.", Some(Rcode::NOERROR)),
        ("x.deep.example.", Some(Rcode::REFUSED)),
        ("both.block.example.", Some(Rcode::NXDOMAIN)),
        ("hard.block.example.", None),
        ("lifted.example.", None),
        ("first.example.", Some(Rcode::NXDOMAIN)),
        ("other.example.", None),
    ] {
        let got = ask(&mut stage, &format!("{name} TXT"));
        let expected =
            expected.map_or((ON, Answer::None), |rcode| (ANSWERED, Answer::Rcode(rcode)));
        assert_eq!(got, expected, "{name}");
    }
    assert_eq!(local(&mut stage, "www.home.example. A"), Some((Rcode::NOERROR, [1, 0, 0])));
}

#[test]
fn records_outside_the_zone_of_their_file_are_left_out_with_a_warning() {
    let text = "$TTL 60\nlan. SOA a. b. 1 2 3 4 5\nx.lan. A 192.0.2.1\nx.elsewhere. A 192.0.2.2\n";
    let file = Written::new(text);
    let mut config = bare();
    config.zones = vec![file.zone(".")];
    let (_, digest) = Ruleset::load(&config, seed(), 1).unwrap();
    let [warning] = digest.warnings.as_slice() else { panic!("{digest:?}") };
    let end = "1 records are left out, because their names are outside the zone, the first is x.elsewhere.";
    assert!(warning.ends_with(end), "{warning}");
    let mut policy = policy(&config);
    assert_eq!(local(&mut policy, "x.lan. A"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(ask(&mut policy, "x.elsewhere. A"), (ON, Answer::None));
}

#[test]
fn warnings_name_the_file_and_the_first_line() {
    let file = Written::new("ads.example\nexample##.banner\n");
    let mut config = bare();
    config.blocklists = vec![file.list(BlockAction::Nxdomain)];
    let (_, digest) = Ruleset::load(&config, seed(), 1).unwrap();
    let [warning] = digest.warnings.as_slice() else { panic!("{digest:?}") };
    assert!(
        warning.contains("names: 1, lines that are no rules: 1 (1 rule about pages)"),
        "{warning}"
    );
    assert!(warning.ends_with("line 2: example##.banner"), "{warning}");
}
