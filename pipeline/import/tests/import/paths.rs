//! Paths of files: whole ones are taken over, relative ones are made whole or listed.

use std::path::Path;
use std::process::Command;

use pmdns_config::Config;
use pmdns_import::{Disk, Import, ServerKind, import};

use crate::one;

/// Settings of Unbound that name a file.
const UNBOUND: [&str; 13] = [
    "server:\n tls-service-pem: PATH\n",
    "server:\n ssl-service-pem: PATH\n",
    "server:\n tls-service-key: PATH\n",
    "server:\n ssl-service-key: PATH\n",
    "server:\n tls-cert-bundle: PATH\nforward-zone:\n name: .\n forward-addr: 192.0.2.1#a.example\n forward-tls-upstream: yes\n",
    "server:\n ssl-cert-bundle: PATH\nforward-zone:\n name: .\n forward-addr: 192.0.2.1#a.example\n forward-tls-upstream: yes\n",
    "server:\n ssl-cert-bundle: PATH\nforward-zone:\n name: a.example\n forward-addr: 192.0.2.1\n\
     forward-zone:\n name: .\n forward-host: host.a.example\n forward-tls-upstream: yes\n",
    "server:\n auto-trust-anchor-file: PATH\n",
    "server:\n trust-anchor-file: PATH\n",
    "dnstap:\n dnstap-enable: yes\n dnstap-log-client-response-messages: yes\n dnstap-socket-path: PATH\n",
    "server:\n log-queries: yes\n logfile: PATH\n",
    "rpz:\n name: rpz.example\n zonefile: PATH\n",
    "auth-zone:\n name: a.example\n zonefile: PATH\n",
];
/// Settings of named that do.
const NAMED: [&str; 7] = [
    "tls t { cert-file \"PATH\"; key-file \"/k\"; };\noptions { listen-on port 853 tls t { 192.0.2.53; }; };\n",
    "tls t { cert-file \"/c\"; key-file \"PATH\"; };\noptions { listen-on port 853 tls t { 192.0.2.53; }; };\n",
    "tls t { ca-file \"PATH\"; };\noptions { forwarders { 192.0.2.1 tls t; }; };\n",
    "zone a.example { type primary; file \"PATH\"; };\n",
    "options { response-policy { zone a.example; }; };\nzone a.example { type primary; file \"PATH\"; };\n",
    "options { dnstap { client; }; dnstap-output unix \"PATH\"; };\n",
    "logging { channel a { file \"PATH\"; }; category queries { a; }; };\n",
];
/// Calls of dnsdist that do. Nothing there says in which folder.
const DNSDIST: [&str; 6] = [
    "addTLSLocal('192.0.2.53', 'PATH', '/k')\n",
    "addTLSLocal('192.0.2.53', '/c', 'PATH')\n",
    "addDOHLocal('192.0.2.53', {'PATH'}, {'/k'})\n",
    "newServer({address='192.0.2.1', tls='openssl', subjectName='a.example', caStore='PATH'})\n",
    "addAction(AllRule(), LogAction('PATH'))\n",
    "addAction(AllRule(), DnstapLogAction('a', newFrameStreamUnixLogger('PATH')))\n",
];

/// Whether the configuration has this path, also as a proposal. A log of text is proposed as one of JSON.
fn has(made: &Import, path: &str) -> bool {
    Config::from_toml(&made.toml).unwrap();
    let keys = ["file", "certificate", "key", "ca_file", "trust_anchor", "dnstap", "json"];
    made.toml.lines().any(|line| {
        let Some((key, value)) = line.split_once(" = ") else { return false };
        let value = value.split("  #").next().unwrap_or_default();
        let json = format!("\"{}\"", Path::new(path).with_extension("json").display());
        keys.contains(&key.trim_start_matches("# "))
            && (value == format!("\"{path}\"") || value == json)
    })
}

fn lists(made: &Import, why: &str) -> bool {
    made.unmapped.iter().any(|one| one.contains(why))
}

#[test]
fn a_relative_path_of_unbound_is_in_its_directory() {
    for setting in UNBOUND {
        for (path, more, whole) in [
            ("/k/a.pem", "", "/k/a.pem"),
            ("/k/a.pem", "server:\n directory: /d\n", "/k/a.pem"),
            ("sub/a.pem", "server:\n directory: /d\n", "/d/sub/a.pem"),
            ("a.pem", "", "/etc/unbound/a.pem"),
            ("a.pem", "server:\n directory: \"\"\n", "/etc/unbound/a.pem"),
        ] {
            let made = one(&(setting.replace("PATH", path) + more), ServerKind::Unbound);
            assert!(has(&made, whole), "{setting} lacks {whole}:\n{}", made.toml);
            let is_guessed = whole.starts_with("/etc/unbound");
            assert_eq!(
                lists(&made, "no `directory`"),
                is_guessed,
                "{setting}\n{:?}",
                made.unmapped
            );
        }
    }
}

#[test]
fn a_relative_path_of_named_is_in_its_directory() {
    for setting in NAMED {
        for (path, more, whole) in [
            ("/k/a.pem", "", "/k/a.pem"),
            ("sub/a.pem", "options { directory \"/d\"; };\n", "/d/sub/a.pem"),
            ("a.pem", "", "a.pem"),
        ] {
            // A path of a socket alone has to be whole: the setting is taken out.
            let is_socket = setting.contains("dnstap");
            let text = match setting.split_once("options {") {
                Some((before, behind)) if !more.is_empty() => {
                    let inside = more.trim_start_matches("options {").trim_end_matches(" };\n");
                    format!("{before}options {{{inside} {behind}")
                }
                _ => format!("{setting}{more}"),
            };
            let made = one(&text.replace("PATH", path), ServerKind::Named);
            assert!(
                has(&made, whole) || is_socket && whole == "a.pem",
                "{text} lacks {whole}:\n{}",
                made.toml
            );
            assert_eq!(
                lists(&made, "without `directory`"),
                whole == "a.pem",
                "{text}\n{:?}",
                made.unmapped
            );
        }
    }
}

#[test]
fn a_relative_path_of_dnsdist_is_listed() {
    for call in DNSDIST {
        let made = one(&call.replace("PATH", "/k/a.pem"), ServerKind::Dnsdist);
        assert!(has(&made, "/k/a.pem"), "{call}:\n{}", made.toml);
        assert!(
            !lists(&made, "the folder that dnsdist is started in"),
            "{call}\n{:?}",
            made.unmapped
        );
        let made = one(&call.replace("PATH", "a.pem"), ServerKind::Dnsdist);
        assert!(
            lists(&made, "the folder that dnsdist is started in"),
            "{call}\n{:?}",
            made.unmapped
        );
    }
}

#[test]
fn a_chroot_of_unbound_is_listed_where_there_are_paths() {
    let why = "inside of this folder";
    for setting in UNBOUND {
        let text = setting.replace("PATH", "/k/a.pem") + "server:\n chroot: /d\n";
        assert!(lists(&one(&text, ServerKind::Unbound), why), "{text}");
        let text = setting.replace("PATH", "/k/a.pem") + "server:\n chroot: /d\n chroot: \"\"\n";
        assert!(!lists(&one(&text, ServerKind::Unbound), why), "{text}");
    }
    let made = one("server:\n chroot: /d\n cache-min-ttl: 9\n", ServerKind::Unbound);
    assert!(!lists(&made, why), "{:?}", made.unmapped);
}

#[test]
fn an_anchor_of_ones_own_is_taken_over_or_refuses_the_import() {
    let anchor = |text: &str| {
        let made = one(&format!("server:\n{text}"), ServerKind::Unbound);
        let config = Config::from_toml(&made.toml).unwrap();
        assert!(config.dnssec.validate, "{text}");
        let file = config.dnssec.trust_anchor.map(|file| file.display().to_string());
        (file, !made.decisive.is_empty())
    };
    let (root, own) = (
        " auto-trust-anchor-file: /var/lib/unbound/root.key\n",
        " trust-anchor-file: /k/root.key\n",
    );
    assert_eq!(anchor(root), (None, false));
    assert_eq!(
        anchor(" auto-trust-anchor-file: root.key\n"),
        (None, false),
        "/etc/unbound/root.key"
    );
    assert_eq!(anchor(own), (Some("/k/root.key".to_owned()), false));
    assert_eq!(anchor(&[own, own].concat()), (Some("/k/root.key".to_owned()), false));
    // The file would replace the root's keys, or another file.
    assert_eq!(anchor(&[root, own].concat()), (None, true));
    assert_eq!(anchor(&format!("{own} auto-trust-anchor-file: /k/corp.key\n")), (None, true));
    assert_eq!(anchor(&format!("{own} trust-anchor: \". DS 20326 8 2 00\"\n")), (None, true));
}

#[test]
fn a_pipe_that_is_included_is_not_waited_for() {
    let folder = std::env::temp_dir().join(format!("pmdns-import-pipe-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let pipe = folder.join("pipe.conf");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (format, text) in [
        (ServerKind::Unbound, format!("server:\n include: {}\n", pipe.display())),
        (ServerKind::Named, format!("include \"{}\";\n", pipe.display())),
        (ServerKind::Dnsdist, format!("includeDirectory('{}')\n", folder.display())),
    ] {
        // The folder has no other file that ends so.
        let file = folder.join("a.text");
        std::fs::write(&file, text).unwrap();
        let made = import(&file, Some(format), &Disk).unwrap();
        let told = made.decisive.iter().any(|one| one.contains("no regular file"));
        assert!(told, "{format:?}: {:?}", made.unmapped);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
