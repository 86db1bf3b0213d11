//! Views with upstreams of their own: nobody gets the answers of others.

use std::path::PathBuf;

use pmdns_config::{Prefetch, View};
use pmdns_stages::testing::{QueryFrame, query};

use super::rig::{Rig, Setup, purge_of};
use super::stub::Stub;

/// A client of the view `kids`, for which the second stub is asked.
const KID: &str = "10.77.0.8";

/// Two upstreams, told apart by how many records they reply with.
fn two_stubs() -> [Stub; 2] {
    [1, 2].map(|count| Stub::replying(move |asked| asked.addresses(count, 300)))
}

fn with_kids(stubs: &[Stub; 2]) -> Setup {
    Setup::asking(&[&stubs[0], &stubs[1]]).view("kids", KID, 1)
}

/// What a client in no view asks, and the same from [`KID`].
fn from_both(text: &str) -> [QueryFrame; 2] {
    [query(text), QueryFrame { source: vec![10, 77, 0, 8], ..query(text) }]
}

fn records(rig: &mut Rig, text: &str) -> [u16; 2] {
    from_both(text).map(|query| rig.resolve(&query).records)
}

fn asked(stubs: &[Stub; 2]) -> [usize; 2] {
    stubs.each_ref().map(|stub| stub.asked().len())
}

#[test]
fn each_view_gets_the_answers_of_its_own_upstreams() {
    let stubs = two_stubs();
    let mut rig = with_kids(&stubs).start();
    for _ in 0..3 {
        assert_eq!(records(&mut rig, "www.example. A"), [1, 2]);
    }
    assert_eq!(asked(&stubs), [1, 1], "each from its own part of the cache");
    rig.finish();
}

#[test]
fn a_zone_is_forwarded_in_its_views_only() {
    let stubs = two_stubs();
    let mut setup = with_kids(&stubs).forward("corp.example", 1);
    setup.views[0].group = None;
    setup.forwards[0].views = vec!["kids".into()];
    let mut rig = setup.start();
    assert_eq!(records(&mut rig, "www.corp.example. A"), [1, 2]);
    assert_eq!(records(&mut rig, "www.example. A"), [1, 1]);
    assert_eq!(asked(&stubs), [3, 1]);
    rig.finish();
}

#[test]
fn views_that_resolve_alike_share_answers() {
    let stubs = two_stubs();
    let mut setup = with_kids(&stubs);
    setup.views[0].group = None;
    setup.upstreams.truncate(1);
    let mut rig = setup.start();
    assert_eq!(records(&mut rig, "www.example. A"), [1, 1]);
    assert_eq!(asked(&stubs), [1, 0]);
    rig.finish();
}

#[test]
fn nobody_waits_with_clients_of_another_scope() {
    let stubs = two_stubs();
    stubs.iter().for_each(|stub| stub.faults.busy.set(true));
    let mut rig = with_kids(&stubs).start();
    for round in 0..3 {
        for (number, query) in (0..).zip(from_both("www.example. A")) {
            rig.ask(&QueryFrame { id: 2 * round + number, ..query });
        }
    }
    rig.wait_for(|counters| counters.waiting == 6);
    stubs.iter().for_each(|stub| stub.faults.busy.set(false));
    for answer in rig.answers(6) {
        assert_eq!(answer.records, 1 + answer.id % 2, "{answer:?}");
    }
    let counters = rig.finish();
    assert_eq!((counters.leaders, counters.coalesced), (2, 4));
}

#[test]
fn a_denial_and_a_failure_are_of_one_scope() {
    let stubs = [
        Stub::replying(|asked| asked.address()),
        Stub::replying(|asked| match asked.message[13] {
            b'f' => asked.rcode(2),
            _ => asked.nxdomain(300),
        }),
    ];
    let mut setup = with_kids(&stubs);
    setup.keeping.nxdomain_cut = true;
    let mut rig = setup.start();
    let rcodes = |rig: &mut Rig, text: &str| {
        let [other, kid] = from_both(text);
        [kid, other].map(|query| rig.resolve(&query).rcode)
    };
    assert_eq!(rcodes(&mut rig, "gone.example. A"), [3, 0]);
    // Over UDP it could have been forged: it is asked for again over TCP before anything is cut.
    assert_eq!(rcodes(&mut rig, "x.gone.example. A"), [3, 0]);
    rig.wait_for(|counters| (counters.nxdomain_confirmed, counters.pending) == (1, 0));
    let cut = rcodes(&mut rig, "y.gone.example. A");
    assert_eq!(cut, [3, 0], "what is cut for one is not for the other");
    assert_eq!(rcodes(&mut rig, "fails.example. A"), [2, 0]);
    assert_eq!(asked(&stubs)[0], 4);
    assert_eq!(rig.finish().nxdomain_cut, 1);
}

#[test]
fn a_refresh_asks_the_upstream_that_the_answer_is_from() {
    let stubs = two_stubs();
    let prefetch = Prefetch { enabled: true, cache_refresh_threshold: 0.0, ..Prefetch::default() };
    let mut rig = Setup { prefetch, ..with_kids(&stubs) }.start();
    assert_eq!(records(&mut rig, "www.example. A"), [1, 2]);
    let [_, kid] = from_both("www.example. A");
    rig.hit(&kid, 10);
    rig.wait_for(|counters| counters.inserted == 3);
    assert_eq!(asked(&stubs), [1, 2]);
    assert_eq!(records(&mut rig, "www.example. A"), [1, 2]);
    rig.finish();
}

#[test]
fn addresses_are_judged_by_the_policy_zones_of_the_view() {
    let stubs = two_stubs();
    let mut rig = with_kids(&stubs).start();
    rig.deny_all_addresses_in(&["kids"], "views");
    let [other, kid] = from_both("www.example. A");
    for _ in 0..2 {
        let (of_other, of_kid) = (rig.resolve(&other), rig.resolve(&kid));
        assert_eq!((of_other.rcode, of_other.records), (0, 1));
        assert_eq!((of_kid.rcode, of_kid.records), (3, 0));
    }
    assert_eq!(asked(&stubs), [1, 1]);
    rig.finish();
}

#[test]
fn a_purge_is_of_all_scopes() {
    let stubs = two_stubs();
    let mut rig = with_kids(&stubs).start();
    records(&mut rig, "www.example. A");
    let purge = purge_of("www.example", false, None);
    assert_eq!(rig.cache_job(|jobs| jobs.purge(&purge)).unwrap(), 2);
    records(&mut rig, "www.example. A");
    assert_eq!(asked(&stubs), [2, 2]);
    rig.finish();
}

#[test]
fn cve_2026_55708_an_answer_never_comes_back_in_another_view() {
    let file = PathBuf::from(format!(
        "{}/pmdns-views-{}",
        std::env::temp_dir().display(),
        std::process::id()
    ));
    let stubs = two_stubs();
    let mut rig = with_kids(&stubs).start();
    records(&mut rig, "www.example. A");
    assert_eq!(rig.cache_job(|jobs| jobs.dump(&file)).unwrap(), 2);
    rig.finish();

    let mut rig = with_kids(&stubs).start();
    let loaded = rig.cache_job(|jobs| jobs.load(&file)).unwrap();
    assert_eq!((loaded.taken.kept, loaded.other_views), (2, 0));
    assert_eq!(records(&mut rig, "www.example. A"), [1, 2]);
    assert_eq!(asked(&stubs), [1, 1], "nothing is asked again");
    rig.finish();

    // The same address, in a view of another name: its number is the same, but it is not the same view.
    let mut rig = Setup::asking(&[&stubs[1], &stubs[0]]).view("lab", KID, 1).start();
    let loaded = rig.cache_job(|jobs| jobs.load(&file)).unwrap();
    assert_eq!((loaded.taken.kept, loaded.other_views), (1, 1));
    assert_eq!(records(&mut rig, "www.example. A"), [1, 1]);
    assert_eq!(asked(&stubs), [2, 1], "the view has asked its own upstream");
    rig.finish();

    let mut rig = Setup::asking(&[&stubs[0]]).start();
    let loaded = rig.cache_job(|jobs| jobs.load(&file)).unwrap();
    assert_eq!((loaded.taken.kept, loaded.other_views), (1, 1));
    assert_eq!(records(&mut rig, "www.example. A"), [1, 1]);
    assert_eq!(asked(&stubs), [2, 1]);
    rig.finish();
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_view_that_comes_with_a_reload_gets_no_answers_of_one_that_is_gone() {
    let stubs = two_stubs();
    let mut rig = with_kids(&stubs).start();
    for name in ["kids", "minors", "kids"] {
        rig.reload(|config| {
            let last = config.views.pop().unwrap();
            config.views = vec![View { name: name.into(), ..last }];
        });
        assert_eq!(records(&mut rig, "www.example. A"), [1, 2]);
    }
    assert_eq!(asked(&stubs), [1, 3], "each new view has asked for itself");
    rig.finish();
}
