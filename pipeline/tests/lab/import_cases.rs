//! The files of `pipeline/import/tests/import/data/cases`, and what is asked of both servers.

use std::fs;

use crate::import::{A, CLIENTS, MX, NEIGHBOUR, text_of};

const PTR: u16 = 12;
const SOA: u16 = 6;

/// A file, and what is asked of both.
pub(crate) struct Case {
    pub(crate) file: &'static str,
    pub(crate) clients: &'static [&'static str],
    /// The first of them is also asked until the server is there.
    pub(crate) questions: &'static [(&'static str, u16)],
    /// Whether it is written with `--partial` alone.
    pub(crate) is_partial: bool,
    /// Parts of the text, and what the lab has in their place.
    changes: &'static [(&'static str, &'static str)],
}

impl Case {
    /// The text of the file as the lab has it.
    pub(crate) fn text(&self) -> String {
        self.changes.iter().fold(text_of(self.file), |text, (part, other)| {
            assert!(text.contains(part), "{} lacks {part}", self.file);
            text.replacen(part, other, 1)
        })
    }
}

const fn whole(file: &'static str, questions: &'static [(&'static str, u16)]) -> Case {
    Case { file, clients: &CLIENTS, questions, is_partial: false, changes: &[] }
}

const fn partial(
    file: &'static str,
    clients: &'static [&'static str],
    questions: &'static [(&'static str, u16)],
) -> Case {
    Case { file, clients, questions, is_partial: true, changes: &[] }
}

pub(crate) const UNBOUND: [Case; 11] = [
    whole(
        "u1-view-first.conf",
        &[("intranet.example", A), ("portal.example", A), ("x.ads.example", A), ("www.example", A)],
    ),
    whole(
        "u2-tag-local-data.conf",
        &[("video.example", A), ("x.video.example", A), ("www.example", A)],
    ),
    whole("u3-tag-other-clause.conf", &[("x.video.example", A), ("www.example", A)]),
    whole(
        "u4-redirect-other-clause.conf",
        &[("sink.example", A), ("x.sink.example", A), ("x.sink.example", MX)],
    ),
    // Types that a local name does not have differ, which the import lists: Unbound forwards them.
    whole(
        "u5-typetransparent.conf",
        &[
            ("mail.corp.example", A),
            ("www.corp.example", A),
            ("t.trans.example", A),
            ("www.example", A),
        ],
    ),
    whole(
        "u6-nodefault-forward.conf",
        &[("5.1.16.172.in-addr.arpa", PTR), ("5.1.0.10.in-addr.arpa", PTR), ("www.example", A)],
    ),
    whole(
        "u8-transparent-exception.conf",
        &[
            ("ads.example", A),
            ("x.ads.example", A),
            ("good.ads.example", A),
            ("x.good.ads.example", A),
        ],
    ),
    // Its forwarder is not in this lab, so other names are not asked for. One client is refused.
    Case {
        clients: &[NEIGHBOUR, "10.1.0.5"],
        ..whole(
            "u9-two-soa.conf",
            &[
                ("a.lan.example", A),
                ("a.lan.example", MX),
                ("b.lan.example", A),
                ("lan.example", SOA),
            ],
        )
    },
    whole(
        "u11-transparent-default-zone.conf",
        &[
            ("5.1.20.172.in-addr.arpa", PTR),
            ("1.0.0.10.in-addr.arpa", PTR),
            ("9.9.9.10.in-addr.arpa", PTR),
        ],
    ),
    // The file names no address and no clients, and servers that are not in this lab: it gets some. The zones beyond the 64th
    // are left out, so they are not asked for.
    Case {
        changes: &[
            (
                "forward-zone:\n name: \"f1.example\"",
                "server:\n interface: 192.0.2.53\n access-control: 0.0.0.0/0 allow\nforward-zone:\n name: \"f1.example\"",
            ),
            ("203.0.0.2\n", "127.0.0.1@5399\n"),
            ("203.0.0.3\n", "127.0.0.2@5399\n"),
        ],
        ..partial(
            "u14-many-forwards.conf",
            &CLIENTS,
            &[("f1.example", A), ("x.f1.example", A), ("f2.example", A), ("x.f2.example", MX)],
        )
    },
    whole(
        "u16-private-address.conf",
        &[
            ("www.example", A),
            ("corp.example", A),
            ("www.corp.example", A),
            ("www.home.example", A),
            ("printer.example", A),
            ("www.office.example", A),
        ],
    ),
];

pub(crate) const NAMED: [Case; 7] = [
    partial("n1-localnets-view.conf", &CLIENTS, &[("www.example", A)]),
    whole("n3-empty-zones.conf", &[("5.1.168.192.in-addr.arpa", PTR), ("www.example", A)]),
    whole("n4-rpz-in-view.conf", &[("bad.example", A), ("www.example", A)]),
    partial("n5-zone-allow-query.conf", &CLIENTS, &[("www.example", A)]),
    // The lab asks port 53, and named before 9.20 has no `ede` here. That both are taken over is tested beside the importer.
    Case {
        changes: &[("port 5353; ", ""), (" ede blocked", "")],
        ..whole("n6-rpz-policy-disabled-port.conf", &[("bad.example", A), ("www.example", A)])
    },
    partial(
        "n8-one-line-open-resolver.conf",
        &["10.1.0.5"],
        &[("www.corp.example", A), ("www.example", A)],
    ),
    partial(
        "n8-one-line-open-resolver.conf",
        &["172.16.0.5", "198.51.100.7"],
        &[("www.example", A)],
    ),
];

/// Zones that named shows to some, so that nobody is shown them here: each with an address in it.
pub(crate) const HIDDEN: [(Case, &str); 2] = [
    (partial("n1-localnets-view.conf", &CLIENTS, &[("www.corp.example", A)]), "10.0.0.80"),
    (partial("n5-zone-allow-query.conf", &CLIENTS, &[("secret.corp.example", A)]), "10.0.0.99"),
];

pub(crate) const DNSDIST: [Case; 2] = [
    Case {
        clients: &["10.2.0.5", "198.51.100.7"],
        ..whole(
            "d1-dnsdist.conf",
            &[
                ("ads.example", A),
                ("x.ads.example", A),
                ("good.ads.example", A),
                ("corp.example", A),
                ("exact.example", A),
                ("x.exact.example", A),
                ("x.spoof.example", A),
                ("www.example", A),
            ],
        )
    },
    Case {
        clients: &["10.1.0.5"],
        ..whole("d1-dnsdist.conf", &[("corp.example", A), ("www.example", A)])
    },
];

#[test]
fn every_file_of_the_cases_is_asked_about() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/import/tests/import/data/cases");
    let cases = UNBOUND.iter().chain(&NAMED).chain(&DNSDIST);
    let asked: Vec<&str> = cases.map(|case| case.file).collect();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.ends_with(".conf") || asked.contains(&&*name), "{name}");
    }
}
