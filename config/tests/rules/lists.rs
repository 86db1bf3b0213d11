//! The rules of lists that are fetched.

use pmdns_config::Config;

use crate::{LAWFUL, accepts, line_of, refuses_in, refuses_text};

fn with(keys: &str) -> String {
    format!("{LAWFUL}\n[[blocklist]]\nfile = \"ads\"\n{keys}\n")
}

#[test]
fn lists_come_over_https_with_a_path() {
    let text = with("url = \"https://lists.example:8443/ads.txt?all=1\"\naddress = \"192.0.2.80\"");
    let list = &Config::from_toml(&text).unwrap().blocklists[0];
    assert_eq!(list.url.as_ref().unwrap().server().unwrap().port, 8443);
    for wrong in ["https://lists.example", "tls://lists.example", "192.0.2.1:80"] {
        let text = with(&format!("url = \"{wrong}\""));
        let start = format!("line {}: `blocklist[0].url` ", line_of(&text, "url ="));
        refuses_text(&text, &start, &["write https://, a host and a path"]);
    }
}

#[test]
fn keys_of_fetched_lists_need_a_url_and_a_file_of_their_own() {
    for key in ["address = \"192.0.2.80\"", "ca_file = \"ca.pem\""] {
        let text = with(key);
        let name = key.split(' ').next().unwrap();
        let start = format!("line {}: `blocklist[0].{name}` ", line_of(&text, key));
        refuses_text(&text, &start, &["needs a url"]);
    }
    let url = "url = \"https://lists.example/ads\"";
    for seconds in ["59", "2592001"] {
        let text = with(&format!("{url}\nrefresh_seconds = {seconds}"));
        let start = format!("line {}: `blocklist[0].refresh_seconds` ", line_of(&text, "refresh"));
        refuses_text(&text, &start, &["allowed: 60 to 2592000"]);
    }
    let twice = with(&format!("{url}\n[[blocklist]]\nfile = \"ads\"\n{url}"));
    let at = twice.rfind("file = ").map(|at| twice[..at].lines().count() + 1).unwrap();
    refuses_text(&twice, &format!("line {at}: `blocklist[1].file` "), &["write another file"]);
}

#[test]
fn lists_of_run_time_have_a_folder_of_their_own() {
    let socket = "socket = \"/run/pmdns/control.sock\"";
    accepts(socket, &format!("{socket}\nlists = \"/var/lib/pmdns/lists\""));
    for (folder, part) in [("", "write the path of a folder"), ("/run/pmdns/", "control.sock too")]
    {
        let line = format!("lists = \"{folder}\"");
        refuses_in("[control]", &line, "control.lists", &[part]);
    }
}
