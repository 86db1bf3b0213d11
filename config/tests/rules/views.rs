//! The rules of `[[view]]`, and of the key `views` of other tables.

use pmdns_config::Config;

use crate::{LAWFUL, line_of, refuses_text};

/// The lawful text, with two views that have something of their own.
fn with(more: &str) -> String {
    const VIEWS: &str = r#"
[[view]]
name = "kids"
clients = ["10.1.0.0/16", "2001:db8:1::/48"]
group = "near"

[[view]]
name = "guests"
clients = ["10.2.0.0/16"]

[[blocklist]]
file = "guests.txt"
views = ["guests"]
"#;
    let second = "address = \"[2001:db8:1::1]:53\"\n";
    LAWFUL.replace(second, &format!("{second}group = \"near\"\n")) + VIEWS + more
}

/// Expects that `more` is refused at the line of `at`, the first in the whole text.
#[track_caller]
fn refuses(more: &str, at: &str, key: &str, parts: &[&str]) {
    let text = with(more);
    refuses_text(&text, &format!("line {}: `{key}` ", line_of(&text, at)), parts);
}

/// A view that is in use by its group.
fn view(name: &str, clients: &str) -> String {
    format!("[[view]]\nname = \"{name}\"\nclients = [{clients}]\ngroup = \"near\"\n")
}

#[test]
fn views_have_names_and_clients_of_their_own() {
    assert!(Config::from_toml(&with("")).is_ok());
    assert!(Config::from_toml(&with(&view("more", "\"10.1.2.0/24\", \"10.1.2.0/24\""))).is_ok());
    let some = "\"10.9.0.0/16\"";
    refuses(&view("a b", some), "\"a b\"", "view[2].name", &["letters, digits"]);
    refuses(&view("default", some), "\"default\"", "view[2].name", &["choose another name"]);
    let text = with(&view("guests", some));
    refuses_text(&text, "line ", &["`view[2].name` is `guests`, as is `view[1].name` already"]);
    refuses(&view("more", ""), "clients = []", "view[2].clients", &["is empty", "192.0.2.0/24"]);
    let text = with(&view("more", "\"10.9.0.0/16\", \"2001:db8:1::/48\""));
    let parts = ["`view[2].clients[1]` is 2001:db8:1::/48, which `view[0].clients[1]` has"];
    refuses_text(&text, "line ", &parts);
    let far = view("more", some).replace("near", "far");
    refuses(&far, "\"far\"", "view[2].group", &["no [[upstream]] belongs to that group"]);
    let idle = view("more", some).replace("group = \"near\"\n", "");
    refuses(&idle, "\"more\"", "view[2].name", &["write views = [\"more\"] into a table"]);
    let others = "[[blocklist]]\nfile = \"z\"\nviews = [\"default\"]\n";
    assert!(Config::from_toml(&with(&format!("{idle}{others}"))).is_ok(), "it has no such list");
    let some = |number: u8| view(&format!("v{number}"), &format!("\"10.100.{number}.0/24\""));
    let many = |count| (0..count).map(some).collect::<String>();
    assert!(Config::from_toml(&with(&many(29))).is_ok());
    refuses_text(&with(&many(30)), "line ", &["`view` has 32 views; allowed: at most 31"]);
}

#[test]
fn tables_name_views_that_there_are() {
    let tables = [
        ("forward", "zone = \"z\"\ngroup = \"near\""),
        ("local", "name = \"z\"\ntype = \"A\"\ndata = \"192.0.2.1\""),
        ("zone", "file = \"z\""),
        ("blocklist", "file = \"z\""),
        ("rpz", "file = \"z\""),
    ];
    for (name, keys) in tables {
        let table = |views: &str| with(&format!("[[{name}]]\n{keys}\nviews = [{views}]\n"));
        assert!(Config::from_toml(&table("\"default\", \"kids\"")).is_ok(), "{name}");
        let parts = [
            "is `kid`, but there is no [[view]] of that name; did you mean `kids`? allowed: kids, guests, default",
        ];
        refuses_text(&table("\"kid\""), "line ", &parts);
    }
}

#[test]
fn what_contradicts_itself_may_stand_in_different_views() {
    let forward = |views: &str| {
        format!("[[forward]]\nzone = \"corp.example\"\ngroup = \"near\"\nviews = [{views}]\n")
    };
    let apart = forward("\"kids\"") + &forward("\"guests\", \"default\"");
    assert!(Config::from_toml(&with(&apart)).is_ok());
    let text = with(&(forward("\"kids\"") + &forward("")));
    refuses_text(&text, "line ", &["`forward[1].zone` is corp.example", "one group in each view"]);
    let alias = |views: &str| {
        format!(
            "[[local]]\nname = \"a.example\"\ntype = \"CNAME\"\ndata = \"b.example\"\nviews = [{views}]\n"
        )
    };
    refuses_text(&with(&alias("\"kids\"")), "line ", &["is a CNAME at a.example"]);
    let only = with(&alias("\"kids\"")).replace("ttl = 60\n", "ttl = 60\nviews = [\"default\"]\n");
    assert!(Config::from_toml(&only).is_ok());
}

#[test]
fn every_view_has_somebody_to_ask() {
    let root =
        |views: &str| format!("[[forward]]\nzone = \".\"\ngroup = \"near\"\nviews = [{views}]\n");
    assert!(Config::from_toml(&with(&root("\"default\""))).is_ok(), "guests ask the default group");
    let text = with(&root("\"default\", \"guests\""));
    refuses_text(
        &text,
        "line ",
        &["`upstream[0].group` is `default`, but no name is asked of that group"],
    );
    let all_near =
        text.replace("timeout_ms = 800\n\n[[upstream]]", "group = \"near\"\n\n[[upstream]]");
    assert!(Config::from_toml(&all_near).is_ok());
    let missing = all_near.replace("views = [\"default\", \"guests\"]", "views = [\"default\"]");
    refuses_text(&missing, "line ", &["`upstream` has no entry in the group `default`"]);
}

#[test]
fn a_view_of_the_client_table_needs_no_clients_of_its_own() {
    let view = "[[view]]\nname = \"slow\"\nqueries_per_second = 5\n";
    refuses_text(&with(view), "line ", &["`view[2].clients` is empty"]);
    let table = "[clients]\nmax_entries = 10\n";
    assert!(Config::from_toml(&with(&format!("{table}{view}"))).is_ok());
    let text = with(&format!("{table}{view}burst = 0\n"));
    refuses_text(&text, "line ", &["`view[2].burst` is 0, so that no query would pass"]);
    for (keys, part) in [
        ("journal = \"j\"\n", "`clients.max_entries` is 0; allowed: 1 to 16777216"),
        ("max_entries = 16777217\n", "allowed: 0 to 16777216"),
        ("max_entries = 1\nfile = \"\"\n", "`clients.file` is empty"),
    ] {
        refuses_text(&with(&format!("[clients]\n{keys}")), "line ", &[part]);
    }
    let same = with("[clients]\nmax_entries = 1\njournal = \"j\"\n")
        .replace("[control]\n", "[control]\nentries = \"j\"\n");
    refuses_text(&same, "line ", &["`clients.journal` is j, as is `control.entries` already"]);
}
