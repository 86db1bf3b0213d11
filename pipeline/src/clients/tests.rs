//! The thread of the client table, with its files.

use std::path::Path;
use std::time::Instant;

use pmdns_changes::{Author, KeptChanges, What};
use pmdns_control::{Call, CallReply, ClientChange};
use pmdns_stages::client_table::ClientTable;
use pmdns_stages::wire::name::Seed;

use super::*;

/// A folder of this test alone, with the configuration of a table in it.
pub(super) struct Lab {
    folder: PathBuf,
    pub(super) config: Config,
}

impl Lab {
    pub(super) fn new(test: &str, max_entries: u32) -> Self {
        let folder =
            std::env::temp_dir().join(format!("pmdns-clients-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let clients = pmdns_config::ClientSettings {
            max_entries,
            file: Some(folder.join("file")),
            journal: Some(folder.join("journal")),
        };
        let view = |name: &str, clients: &[&str]| View {
            name: name.into(),
            clients: clients.iter().map(|prefix| prefix.parse().unwrap()).collect(),
            ..View::default()
        };
        let views = vec![view("kids", &[]), view("office", &["10.9.0.0/16"])];
        let this = Self { folder, config: Config { clients, views, ..Config::default() } };
        this.write("");
        this
    }

    pub(super) fn write(&self, file: &str) {
        std::fs::write(self.folder.join("file"), file).unwrap();
    }

    fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    pub(super) fn start(&self) -> (Arc<ClientTable>, ClientTableThread) {
        self.start_with(None)
    }

    /// Starts after a process that has passed these.
    pub(super) fn start_with(
        &self,
        passed: Option<&[OperatorChange]>,
    ) -> (Arc<ClientTable>, ClientTableThread) {
        let open = OpenClients::read_with(&self.config, &[], passed).unwrap();
        let open = open.expect("there is a table");
        let max_entries = self.config.clients.max_entries as usize;
        let (table, writer) = ClientTable::on_heap(max_entries, Seed::new([5; 16]));
        (table, open.start(writer, None, None).unwrap())
    }

    pub(super) fn ask(&self, clients: &ClientTableThread, call: Call) -> CallReply {
        let (caller, replied) = Caller::new("a test");
        clients.answer(call.with(caller), &self.config);
        replied.blocking_recv().expect("every call is answered")
    }

    pub(super) fn change(
        &self,
        clients: &ClientTableThread,
        changes: &[(&str, Option<&str>)],
    ) -> CallReply {
        let change = |(prefix, view): &(&str, Option<&str>)| ClientChange {
            prefix: (*prefix).to_owned(),
            view: view.map(str::to_owned),
        };
        self.ask(clients, Call::ChangeClients(changes.iter().map(change).collect()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn views(table: &ClientTable) -> [Option<u8>; 3] {
    [1, 2, 3].map(|last| table.find(&[10, 0, 0, last]))
}

#[test]
fn changes_hold_when_they_are_answered_and_after_a_restart() {
    let lab = Lab::new("restart", 10);
    lab.write("10.0.0.1 office\n10.0.0.2 office\n");
    let (table, clients) = lab.start();
    assert_eq!(views(&table), [Some(2), Some(2), None]);
    let done = lab.change(
        &clients,
        &[("10.0.0.1", Some("kids")), ("10.0.0.2", None), ("10.0.0.3", Some("kids"))],
    );
    assert_eq!(done, CallReply::Done("3 prefixes changed".into()));
    let said = [Some(1), None, Some(1)];
    assert_eq!(views(&table), said);
    let counted = clients.counters();
    assert_eq!((counted.changes, counted.max_entries, counted.left_out), (3, 10, 0));
    drop(clients);
    let (table, clients) = lab.start();
    assert_eq!((views(&table), clients.counters().at_run_time), (said, 3));
    let removed = lab.ask(&clients, Call::RemoveClient("10.0.0.3".into()));
    assert_eq!(removed, CallReply::Done("10.0.0.3/32 removed".into()));
    let again = lab.ask(&clients, Call::RemoveClient("10.0.0.3".into()));
    assert!(matches!(again, CallReply::Refused(Refusal::Unknown, _)), "{again:?}");
    drop(clients);
    assert_eq!(views(&lab.start().0), [Some(1), None, None]);
}

#[test]
fn all_changes_of_a_call_are_made_or_none() {
    let lab = Lab::new("all", 2);
    let (table, clients) = lab.start();
    for (second, refusal, part) in [
        (("10.0.0.2", Some("kid")), Refusal::Wrong, "there is no view `kid`"),
        (("10.0.0.2/24", Some("kids")), Refusal::Wrong, "the network is 10.0.0.0/24"),
        (("here", None), Refusal::Wrong, "`here` is not an IP address"),
    ] {
        match lab.change(&clients, &[("10.0.0.1", Some("kids")), second]) {
            CallReply::Refused(why, text) => {
                assert!(why == refusal && text.contains(part), "{text}")
            }
            other => panic!("{other:?}"),
        }
    }
    let [one, two, three] =
        ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|prefix| (prefix, Some("kids")));
    match lab.change(&clients, &[one, two, three]) {
        CallReply::Refused(Refusal::Unable, why) => {
            assert!(why.contains("`clients.max_entries`"), "{why}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(views(&table), [None; 3]);
    assert_eq!(clients.counters().refused, 4);
    assert!(matches!(lab.change(&clients, &[one, two]), CallReply::Done(_)));
    assert_eq!(views(&table), [Some(1), Some(1), None]);
}

#[test]
fn what_a_client_is_in_and_why_is_told() {
    let lab = Lab::new("told", 10);
    let (_, clients) = lab.start();
    lab.change(&clients, &[("10.9.8.0/24", Some("kids")), ("2001:db8::/56", Some("kids"))]);
    for (address, view, prefix, by) in [
        ("10.9.8.7", "kids", Some("10.9.8.0/24"), Some("clients")),
        ("10.9.7.7", "office", Some("10.9.0.0/16"), Some("view")),
        ("10.8.7.7", "default", None, None),
        ("2001:db8::1", "kids", Some("2001:db8::/56"), Some("clients")),
    ] {
        let CallReply::Json(json) = lab.ask(&clients, Call::FindClient(address.into())) else {
            panic!()
        };
        let told: pmdns_control::answers::ClientAnswer = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&*told.view, told.prefix.as_deref(), told.decided_by.as_deref()),
            (view, prefix, by)
        );
    }
    let page = |after: Option<&str>| {
        let page = pmdns_control::Page { after: after.map(str::to_owned), limit: 1 };
        let CallReply::Json(json) = lab.ask(&clients, Call::Clients(page)) else { panic!() };
        serde_json::from_str::<pmdns_control::answers::ClientPage>(&json).unwrap()
    };
    let first = page(None);
    assert_eq!(
        (first.clients.len(), first.total, first.next.as_deref()),
        (1, 2, Some("10.9.8.0/24"))
    );
    let second = page(first.next.as_deref());
    assert_eq!((&*second.clients[0].prefix, second.next), ("2001:db8::/56", None));
}

#[test]
fn a_file_that_is_read_anew_replaces_what_the_last_one_said() {
    let lab = Lab::new("file", 10);
    lab.write("10.0.0.1 kids\n10.0.0.2 kids\n");
    let (table, mut clients) = lab.start();
    lab.change(&clients, &[("10.0.0.1", Some("office"))]);
    lab.write("10.0.0.1 kids\n10.0.0.3 kids\n");
    let mut files = clients.files().expect("nobody took it");
    files.give(read_clients(&lab.config).unwrap(), lab.config.views.clone());
    while !files.is_taken() {
        std::thread::yield_now();
    }
    assert_eq!(views(&table), [Some(2), None, Some(1)]);
}

#[test]
fn a_damaged_journal_is_told_with_its_line_and_a_torn_one_is_not_an_error() {
    let lab = Lab::new("damaged", 10);
    let (_, clients) = lab.start();
    lab.change(&clients, &[("10.0.0.1", Some("kids")), ("10.0.0.2", Some("kids"))]);
    drop(clients);
    let text = std::fs::read_to_string(lab.journal()).unwrap();
    std::fs::write(lab.journal(), &text[..text.len() - 3]).unwrap();
    assert_eq!(views(&lab.start().0), [Some(1), None, None], "it was not confirmed");
    std::fs::write(lab.journal(), text.replace("10.0.0.1", "10.0.0.9")).unwrap();
    let told = OpenClients::read(&lab.config).unwrap_err().to_string();
    assert!(
        told.starts_with("clients.journal: ") && told.contains("line 2: its checksum"),
        "{told}"
    );
    std::fs::write(lab.journal(), text).unwrap();
    let mut config = lab.config.clone();
    config.views[0].name = "minors".into();
    let kept = keeper::read(Path::new(&lab.journal()), &config.views).unwrap();
    assert_eq!((kept.said.len(), kept.left_out), (0, 2));
}

#[test]
fn what_a_start_leaves_out_of_the_journal_is_not_lost() {
    let mut lab = Lab::new("aside", 10);
    let (_, clients) = lab.start();
    let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|prefix| (prefix, Some("kids")));
    lab.change(&clients, &all);
    drop(clients);
    let aside = lab.folder.join("journal.left-out");
    let (views_before, whole) = (lab.config.views.clone(), std::fs::read(lab.journal()).unwrap());
    lab.config.clients.max_entries = 1;
    let (_, clients) = lab.start();
    assert_eq!(clients.counters().left_out, 2);
    drop(clients);
    assert_eq!(std::fs::read(&aside).unwrap(), whole);
    drop(lab.start());
    assert_eq!(std::fs::read(&aside).unwrap(), whole, "a start that leaves nothing out keeps it");
    std::fs::rename(&aside, lab.journal()).unwrap();
    lab.config.clients.max_entries = 10;
    lab.config.views[0].name = "minors".into();
    drop(lab.start());
    assert_eq!(std::fs::read(&aside).unwrap(), whole);
    std::fs::rename(&aside, lab.journal()).unwrap();
    lab.config.views = views_before;
    assert_eq!(views(&lab.start().0), [Some(1); 3]);
}

/// `cargo test --release -p pmdns --lib clients -- --ignored --nocapture`
#[test]
#[ignore = "a measurement: changes a second, with a disk that confirms them"]
fn changes_a_second() {
    const MILLION: u32 = 1_000_000;
    let address = |number: u32| std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
    let lab = Lab::new("rate", MILLION);
    let file: String = (0..MILLION).map(|number| format!("{} kids\n", address(number))).collect();
    lab.write(&file);
    let start = Instant::now();
    let (_, mut clients) = lab.start();
    eprintln!("a start with a million prefixes in the file: {:.2?}", start.elapsed());
    for (batch, batches) in [(1, 2000), (100, 500), (1000, 200)] {
        let start = Instant::now();
        for round in 0..batches {
            let change = |number: u32| ClientChange {
                prefix: address((round * batch + number).wrapping_mul(7919) % MILLION),
                view: Some(if round % 2 == 0 { "office" } else { "kids" }.to_owned()),
            };
            let reply = lab.ask(&clients, Call::ChangeClients((0..batch).map(change).collect()));
            assert!(matches!(reply, CallReply::Done(_)), "{reply:?}");
        }
        let rate = f64::from(batch * batches) / start.elapsed().as_secs_f64();
        eprintln!("{batch} changes a call, one call at a time: {rate:.0} changes/s");
    }
    lab.write(&file.replace("kids", "office"));
    let mut files = clients.files().unwrap();
    let start = Instant::now();
    let read = read_clients(&lab.config).unwrap();
    let took = start.elapsed();
    files.give(read, lab.config.views.clone());
    while !files.is_taken() {
        std::thread::yield_now();
    }
    eprintln!(
        "a reload with a million other views: read in {took:.2?}, all in {:.2?}",
        start.elapsed()
    );
}

#[test]
fn clients_leave_the_file_of_all_changes_when_they_have_their_own_and_not_before() {
    let lab = Lab::new("moved", 1);
    let path = lab.folder.join("changes");
    let mut kept = KeptChanges::default();
    for (prefix, view) in [("10.0.0.1", "kids"), ("10.0.0.2", "kids"), ("10.0.0.3", "nobody")] {
        let (prefix, view) = (prefix.to_owned(), Some(view.to_owned()));
        let author = Author { by: "user 0".to_owned(), since: 7, until_restart: false };
        let what = What::Client(ClientChange { prefix, view });
        kept.take(JournalLine::Set(OperatorChange { what, author }.into()));
    }
    let shared: Vec<OperatorChange> = kept.iter().cloned().collect();
    let journal = ChangeJournal::start(path.clone(), kept, true, |_, _| ()).unwrap();
    // A start that goes no further loses nothing.
    let open = OpenClients::read_with(&lab.config, &shared, None).unwrap().unwrap();
    assert_eq!(pmdns_changes::read(&path).unwrap().len(), 3);
    // One change has no room and one has no view: nothing of them is in a file that is not there yet.
    let (table, writer) = ClientTable::on_heap(1, Seed::new([5; 16]));
    let thread = open.start(writer, Some(journal.clone()), None).unwrap();
    assert_eq!(views(&table), [Some(1), None, None]);
    drop((thread, journal));
    let own = keeper::read(&lab.journal(), &lab.config.views).unwrap();
    assert_eq!(own.said.len(), 1);
    let left = pmdns_changes::read(&path).unwrap();
    let left: Vec<_> = left.iter().map(|change| change.what.to_string()).collect();
    assert_eq!(left, ["client 10.0.0.2 in the view kids", "client 10.0.0.3 in the view nobody"]);
}

#[test]
fn of_two_files_the_newer_change_of_a_prefix_holds() {
    let views = [View { name: "kids".into(), ..View::default() }];
    let kept = |view: Option<&str>, since| {
        let mut kept = Kept::default();
        let author = Author { by: "user 0".to_owned(), since, until_restart: false };
        let change = ClientChange { prefix: "10.0.0.1".into(), view: view.map(str::to_owned) };
        kept.set(&change, &author, &views).unwrap();
        kept
    };
    for (own, expected) in [(8, None), (7, None), (6, Some(1))] {
        let mut shared = kept(Some("kids"), 7);
        shared.merge(kept(None, own));
        assert_eq!(shared.said.values().next().unwrap().0, expected, "{own}");
    }
}

#[test]
fn a_journal_that_nobody_reads_is_found_by_its_first_line() {
    let lab = Lab::new("left", 10);
    let found = || keeper::journal_in([lab.folder.join("gone"), lab.folder.clone()]);
    std::fs::create_dir(lab.folder.join("folder")).unwrap();
    std::fs::write(lab.folder.join("changes"), pmdns_changes::CHANGES.head).unwrap();
    assert_eq!(found(), None);
    let (_, clients) = lab.start();
    assert!(matches!(lab.change(&clients, &[("10.0.0.1", Some("kids"))]), CallReply::Done(_)));
    drop(clients);
    assert_eq!(found(), Some(lab.journal()));
    let copy = lab.folder.join("journal.left-out");
    std::fs::rename(lab.journal(), &copy).unwrap();
    assert_eq!(found(), None, "a copy is for people");
    std::fs::write(lab.folder.join("old"), "pmdns clients 1\n").unwrap();
    assert_eq!(found(), Some(lab.folder.join("old")));
}

#[test]
fn what_ends_with_the_process_is_listed_so_and_what_it_hides_is_told() {
    let lab = Lab::new("hidden", 10);
    let (_, clients) = lab.start();
    let until_restart = |call: Call| {
        let (mut caller, replied) = Caller::new("a test");
        caller.until_restart = true;
        clients.answer(call.with(caller), &lab.config);
        replied.blocking_recv().expect("every call is answered")
    };
    lab.change(&clients, &[("10.0.0.1", Some("kids")), ("10.0.0.2", Some("kids"))]);
    let office = ClientChange { prefix: "10.0.0.1".into(), view: Some("office".into()) };
    until_restart(Call::ChangeClients(vec![office]));
    until_restart(Call::RemoveClient("10.0.0.2".into()));
    let page = pmdns_control::Page { after: None, limit: 10 };
    let CallReply::Json(listed) = lab.ask(&clients, Call::Clients(page)) else { panic!() };
    assert!(
        listed.contains(
            r#""clients":[{"prefix":"10.0.0.1/32","view":"office","until_restart":true}]"#
        ),
        "{listed}"
    );
    let (caller, replied) = Caller::new("a test");
    clients.report_changes(ConfigDifference::default(), caller);
    let CallReply::Json(told) = replied.blocking_recv().unwrap() else { panic!() };
    let told: ConfigDifference = serde_json::from_str(&told).unwrap();
    let told: Vec<_> = told.changes.iter().map(|one| (&*one.change, one.after_restart)).collect();
    let expected = [
        ("client 10.0.0.1/32 in the view kids", true),
        ("client 10.0.0.2/32 in the view kids", true),
        ("client 10.0.0.1/32 in the view office", false),
    ];
    assert_eq!(told, expected);
}
