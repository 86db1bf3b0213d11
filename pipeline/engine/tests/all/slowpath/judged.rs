//! What becomes of cached answers when rules about the addresses in them change.

use pmdns_stages::testing::query;

use super::rig::{Rig, Setup};
use super::stub::{Asked, Stub};

/// More answers than are judged in one turn.
const MANY: usize = 600;
const NXDOMAIN: u16 = 3;
/// A rule about the address that [`reply`] gives names with an `x`.
const DENY_ONE: &str = "32.1.0.0.192.rpz-ip 60 CNAME .\n";

/// Two addresses for a name that begins with `x`, else one: the second is `192.0.0.1`.
fn reply(asked: &Asked) -> Vec<u8> {
    asked.addresses(if asked.message[13] == b'x' { 2 } else { 1 }, 300)
}

/// What a name's clients get: the rcode, and how many records.
fn told(rig: &mut Rig, name: &str) -> (u16, u16) {
    let answer = rig.resolve(&query(&format!("{name} A")));
    (answer.rcode, answer.records)
}

#[test]
fn what_a_new_rule_is_about_is_taken_out_of_the_cache_and_nothing_else() {
    let stub = Stub::replying(reply);
    let mut rig = Setup::asking(&[&stub]).start();
    let names = |number| [format!("x{number}.example."), format!("a{number}.example.")];
    for number in 0..MANY / 2 {
        let [concerned, other] = names(number);
        assert_eq!([told(&mut rig, &concerned), told(&mut rig, &other)], [(0, 2), (0, 1)]);
    }
    // The second comes while answers are judged by the first.
    rig.judge_by("new-rule", "32.9.0.0.192.rpz-ip 60 CNAME .\n");
    rig.judge_by("new-rule", DENY_ONE);
    rig.wait_for(|counters| counters.withdrawn >= MANY as u64 / 2);
    for number in 0..MANY / 2 {
        let [concerned, other] = names(number);
        assert_eq!([told(&mut rig, &concerned), told(&mut rig, &other)], [(NXDOMAIN, 0), (0, 1)]);
    }
    let others = stub.asked().iter().filter(|asked| asked.message[13] == b'a').count();
    assert_eq!(others, MANY / 2, "what no rule is about is not asked again");
    rig.finish();
}

#[test]
fn what_an_old_rule_has_rewritten_is_asked_for_again() {
    let stub = Stub::replying(reply);
    let mut rig = Setup::asking(&[&stub]).start();
    rig.judge_by("old-rule", DENY_ONE);
    assert_eq!(
        [told(&mut rig, "x.example."), told(&mut rig, "a.example.")],
        [(NXDOMAIN, 0), (0, 1)]
    );
    // Another answer than before, from a rule about the same address.
    rig.judge_by("old-rule", "32.1.0.0.192.rpz-ip 60 A 192.0.2.80\n");
    rig.wait_for(|counters| counters.withdrawn == 1);
    assert_eq!(told(&mut rig, "x.example."), (0, 1));
    // No rules about addresses any more.
    rig.judge_by("old-rule", "elsewhere 60 CNAME .\n");
    rig.wait_for(|counters| counters.withdrawn == 2);
    assert_eq!([told(&mut rig, "x.example."), told(&mut rig, "a.example.")], [(0, 2), (0, 1)]);
    assert_eq!(stub.asked().len(), 4);
    // Rules about names only concern no answer that is kept. The line has not judged these queries, so the slow path does.
    rig.judge_by("old-rule", "x.example 60 CNAME .\n");
    assert_eq!(told(&mut rig, "x.example."), (NXDOMAIN, 0));
    rig.judge_by("old-rule", "elsewhere 60 CNAME .\n");
    assert_eq!(told(&mut rig, "x.example."), (0, 2));
    assert_eq!(stub.asked().len(), 4);
    assert_eq!(rig.finish().withdrawn, 2);
}

/// The rules of the instance that loads may be others, and what the upstream said is not in the file.
#[test]
fn what_a_rule_has_rewritten_is_not_taken_back_from_a_file() {
    let file = std::env::temp_dir().join(format!("pmdns-judged-{}", std::process::id()));
    let stub = Stub::replying(reply);
    let mut rig = Setup::asking(&[&stub]).start();
    rig.judge_by("file", DENY_ONE);
    assert_eq!(
        [told(&mut rig, "x.example."), told(&mut rig, "a.example.")],
        [(NXDOMAIN, 0), (0, 1)]
    );
    assert_eq!(rig.cache_job(|jobs| jobs.dump(&file)).unwrap(), 2);
    rig.finish();
    let mut rig = Setup::asking(&[&stub]).start();
    let loaded = rig.cache_job(|jobs| jobs.load(&file)).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((loaded.taken.kept, loaded.taken.rewritten), (1, 1));
    assert_eq!([told(&mut rig, "x.example."), told(&mut rig, "a.example.")], [(0, 2), (0, 1)]);
    assert_eq!(stub.asked().len(), 3);
    rig.finish();
}
