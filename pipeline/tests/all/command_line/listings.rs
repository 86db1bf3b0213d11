//! Listings: whatever the API shows is shown by a command too, for people and as JSON.

use std::collections::BTreeSet;

use hyper::Method;
use pmdns_control::Call;
use pmdns_control::answers::{
    BlockLists, ClientAnswer, ClientPage, ConfigDifference, Configuration, EntryPage,
    InstanceState, RecordPage, UpstreamTable, Views,
};
use pmdns_control::cache::CachePage;
use pmdns_control::crashes::CrashList;
use pmdns_control::health::NodeHealth;
use pmdns_control::hitters::{Floods, HitterTable, LimitTable};
use pmdns_control::lookup::LookupReport;
use pmdns_control::query_log::LogPage;
use pmdns_control::trace::TraceReport;
use serde_json::json;

use super::{Folder, instance, pmdns, told};

/// What is no listing, but a file.
const OTHERS: [&str; 2] = ["/api/v1/capture", "/api/v1/cache/dump"];

/// The commands, each with a reply of its instance.
fn listings() -> Vec<(&'static str, serde_json::Value)> {
    let healthy = NodeHealth { healthy: true, ..NodeHealth::default() };
    vec![
        ("state", json!(InstanceState::default())),
        ("stats", json!({ "version": "1.2.3" })),
        ("health", json!(healthy)),
        ("config --running", json!(Configuration::default())),
        ("config --diff", json!(ConfigDifference::default())),
        ("views", json!(Views::default())),
        ("upstream list", json!(UpstreamTable::default())),
        ("list show", json!(BlockLists::default())),
        ("entries", json!(EntryPage::default())),
        ("local list", json!(RecordPage::default())),
        ("client list", json!(ClientPage::default())),
        ("client show 192.0.2.7", json!(ClientAnswer::default())),
        ("lookup a.example", json!(LookupReport::default())),
        ("trace", json!(TraceReport::default())),
        ("log --since 10m --client 192.0.2.7", json!(LogPage::default())),
        ("crash", json!(CrashList::default())),
        ("cache", json!(CachePage::default())),
        ("hitters", json!(HitterTable::default())),
        ("floods", json!(Floods::default())),
        ("limit", json!(LimitTable::default())),
    ]
}

/// Whether a path is one of this row, in which braces stand for any part.
fn is_of(row: &str, path: &str) -> bool {
    let (row, path) = (row.split('/'), path.split('/'));
    row.clone().count() == path.clone().count()
        && row.zip(path).all(|(part, one)| part.starts_with('{') || part == one)
}

#[test]
fn whatever_the_api_shows_a_command_shows_for_people_and_as_json() {
    let folder = Folder::new("listings");
    let mut asked = BTreeSet::new();
    for (index, (command, reply)) in listings().into_iter().enumerate() {
        let socket = folder.path(&format!("{index}.sock"));
        let served = instance(&socket, reply.to_string(), 2);
        let words = || command.split(' ').chain(["--socket", &*socket]);
        let (code, people, said) = told(&pmdns(&words().collect::<Vec<_>>()));
        assert_eq!((code, &*said), (Some(0), ""), "{command}");
        let (code, printed, said) = told(&pmdns(&words().chain(["--json"]).collect::<Vec<_>>()));
        assert_eq!((code, &*said), (Some(0), ""), "{command}");
        let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(printed, reply, "{command}");
        assert!(!people.starts_with('{'), "{command}: {people}");
        for line in served.join().unwrap() {
            let path = line.split([' ', '?']).nth(1).unwrap();
            let rows = Call::ROUTES.iter().filter(|row| row.method == Method::GET);
            asked.extend(rows.filter(|row| is_of(row.path, path)).map(|row| row.path));
        }
    }
    let shown = Call::ROUTES.iter().filter(|row| row.method == Method::GET).map(|row| row.path);
    let shown: BTreeSet<&str> = shown.filter(|path| !OTHERS.contains(path)).collect();
    assert_eq!(asked, shown, "what the API shows, and what commands ask for");
}

#[test]
fn a_search_of_the_log_asks_for_what_its_options_say() {
    let folder = Folder::new("log");
    let socket = folder.path("log.sock");
    let served = instance(&socket, json!(LogPage::default()).to_string(), 1);
    let options = "log --since 10m --client 192.0.2.7 --name a.example --type AAAA --rcode NXDOMAIN --blocked --limit 9";
    let words: Vec<&str> = options.split(' ').chain(["--socket", &*socket]).collect();
    assert_eq!(told(&pmdns(&words)), (Some(0), String::new(), String::new()));
    assert_eq!(
        served.join().unwrap(),
        [
            "GET /api/v1/log?since=600s&client=192.0.2.7&name=a.example&type=AAAA&rcode=NXDOMAIN&blocked=true&limit=9 HTTP/1.1"
        ]
    );
}
