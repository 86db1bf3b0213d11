//! Scenarios of others: Unbound's, and those of a cache in a client. Each is played on a whole pmdns, and passes, or fails where
//! `data/table.txt` says and why.
//!
//! data/README.md says where they come from, and how they are read.

#![cfg(debug_assertions)]
#![expect(clippy::expect_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

mod client_cache;
mod comparison;
mod grammar;
mod play;
mod records;
#[expect(dead_code, reason = "the simulator uses more of it")]
#[path = "../../stepping/mod.rs"]
mod stepping;
mod translation;
mod upstreams;

use std::collections::BTreeMap;
use std::path::PathBuf;

use grammar::{Event, Scenario};
use play::Play;
use pmdns_hierarchy::rtype;
use translation::translate;

/// Where the scenarios are.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/scenarios/data");

/// The table: for each scenario where it ceases to apply (a step, `end`, or `-`: it cannot be played) and why.
fn exceptions() -> BTreeMap<String, (String, String)> {
    let text = std::fs::read_to_string(format!("{DATA}/table.txt")).expect("the table is there");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let exceptions = lines.map(|line| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let mut word = || words.next().expect("a name, a step and a reason");
        let (name, at, reason) = (word(), word(), word());
        assert!(reason.ends_with('.'), "{name}: a reason is a sentence");
        (name, (at, reason))
    });
    exceptions.collect()
}

/// The names of all scenarios, with their folders.
fn scenarios() -> Vec<String> {
    let in_folder = |folder: &str| {
        let files = std::fs::read_dir(format!("{DATA}/{folder}")).expect("the folder is there");
        let names = files.map(|file| file.expect("a file").file_name().into_string());
        let names = names.map(|name| name.expect("a name in ASCII"));
        let names = names.filter(|name| name.ends_with(".rpl"));
        names.map(|name| format!("{folder}/{name}")).collect::<Vec<_>>()
    };
    let mut all = [in_folder("unbound"), in_folder("client-cache")].concat();
    all.sort();
    all
}

fn read(name: &str) -> Result<Scenario, String> {
    Scenario::parse(&std::fs::read_to_string(format!("{DATA}/{name}")).expect("it is there"))
}

/// Plays a scenario. An error comes with where it is, as the table has it.
fn play(name: &str, scenario: &Scenario, folder: &Folder) -> Result<(), (String, String)> {
    let setting = match name.starts_with("client-cache/") {
        true => Ok(client_cache::setting()),
        false => translate(scenario, &folder.0),
    };
    let setting = setting.map_err(cannot_be_played)?;
    Play::new(scenario, &setting).map_err(cannot_be_played)?.run()
}

fn cannot_be_played(why: String) -> (String, String) {
    ("-".to_owned(), why)
}

/// A folder for files that configurations name. It goes when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("pmdns-scenarios-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn scenarios_pass_or_do_not_apply() {
    let (folder, mut table) = (Folder::new("all"), exceptions());
    let (mut passed, mut partly, mut not, mut wrong) = (0, 0, 0, Vec::new());
    for name in scenarios() {
        let read = read(&name);
        let played = read.as_ref().map_err(|why| cannot_be_played(why.clone()));
        match (table.remove(&name), played.and_then(|scenario| play(&name, scenario, &folder))) {
            (None, Ok(())) => passed += 1,
            (None, Err((at, why))) => wrong.push(format!("{name} {at}: {why}")),
            (Some(_), Ok(())) => wrong.push(format!("{name} passes, but stands in the table")),
            (Some((at, _)), Err((found, why))) if at != found => {
                wrong.push(format!("{name} {found}: {why}, but the table says {at}"));
            }
            (Some((at, _)), Err(_)) => {
                let steps = read.iter().flat_map(|scenario| &scenario.steps);
                let mut before = steps.take_while(|step| step.number.to_string() != at);
                match at != "-" && before.any(|step| step.event.is_check()) {
                    true => partly += 1,
                    false => not += 1,
                }
            }
        }
    }
    wrong.extend(table.keys().map(|name| format!("{name} stands in the table, but is not there")));
    println!("{passed} scenarios passed, {partly} more up to a step, {not} do not apply");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let documented = format!("{passed} pass, {partly} more up to a step, and {not} do not apply");
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md");
    let docs = std::fs::read_to_string(docs).expect("the page is there");
    assert!(docs.contains(&documented), "docs/architecture.md says that {documented}");
}

/// With one bit changed in the last answer that it checks, no scenario passes.
#[test]
fn a_scenario_with_a_wrong_answer_fails() {
    let (folder, table, mut spoilt) = (Folder::new("wrong"), exceptions(), 0);
    for name in scenarios().into_iter().filter(|name| !table.contains_key(name)) {
        let mut scenario = read(&name).expect("it passes");
        let checked = scenario.steps.iter_mut().rev().find_map(|step| match &mut step.event {
            Event::CheckAnswer(entry) => Some(&mut entry.message),
            _ => None,
        });
        let Some(message) = checked else { continue }; // It is about silence.
        let record = message.sections.iter_mut().flatten().find(|one| one.rtype != rtype::OPT);
        match record.and_then(|record| record.data.last_mut()) {
            Some(byte) => *byte ^= 1,
            None => message.set_rcode(message.rcode() ^ 1),
        }
        spoilt += 1;
        assert!(play(&name, &scenario, &folder).is_err(), "{name} passes all the same");
    }
    assert!(spoilt > 30, "{spoilt} scenarios");
}
