//! Habits of operators that an import once got wrong: what each has to become, or why it is refused.
//!
//! The files were written for this project. "SCRATCH" stands for a folder.

use std::path::Path;

use pmdns_config::Config;
use pmdns_import::{Disk, Import, import};

/// What has to come of a file.
struct Case {
    file: &'static str,
    /// Parts of the TOML.
    has: &'static [&'static str],
    lacks: &'static [&'static str],
    /// Parts of remarks that refuse the import; none: it is not refused.
    decisive: &'static [&'static str],
    /// Parts of other remarks.
    listed: &'static [&'static str],
}

const CASES: [Case; 18] = [
    Case {
        file: "n1-localnets-view.conf",
        has: &["external.db"],
        lacks: &["internal.db"],
        decisive: &["`localnets`", "no client is known to be in this view"],
        listed: &[],
    },
    Case {
        file: "n3-empty-zones.conf",
        has: &["special_use = false"],
        lacks: &[],
        decisive: &[],
        listed: &[],
    },
    Case {
        file: "n4-rpz-in-view.conf",
        has: &["file = \"SCRATCH/rpz.db\"", "views = [\"kids\"]", "clients = [\"10.1.0.0/16\"]"],
        lacks: &["[[zone]]", "/var/lib"],
        decisive: &[],
        listed: &[],
    },
    Case {
        file: "n5-zone-allow-query.conf",
        has: &[],
        lacks: &["[[zone]]"],
        decisive: &["`allow-query` hides it"],
        listed: &[],
    },
    Case {
        file: "n6-rpz-policy-disabled-port.conf",
        has: &["dns_port = 5353", "origin = \"rpz2.local\"", "extended_error = \"blocked\""],
        lacks: &["origin = \"rpz.local\""],
        decisive: &[],
        listed: &["`policy nxdomain`", "`max-policy-ttl 60`"],
    },
    Case {
        file: "n8-one-line-open-resolver.conf",
        has: &["allow = [\"10.0.0.0/8\"]"],
        lacks: &["0.0.0.0/0", "::/0"],
        decisive: &["clients that may ask for this zone alone are refused"],
        listed: &[],
    },
    Case {
        file: "u1-view-first.conf",
        has: &["name = \"intranet.example\"", "views = [\"default\"]", "views = [\"guests\"]"],
        lacks: &["[block]"],
        decisive: &[],
        listed: &["the name itself is NOERROR"],
    },
    Case {
        file: "u11-transparent-default-zone.conf",
        has: &[
            "zone = \"20.172.in-addr.arpa.\"",
            "zone = \"10.in-addr.arpa.\"",
            "1.0.0.10.in-addr.arpa",
        ],
        lacks: &[],
        decisive: &[],
        listed: &["other types of a name"],
    },
    Case {
        file: "u14-many-forwards.conf",
        has: &["zone = \"f1.example\""],
        lacks: &["zone = \"f70.example\""],
        decisive: &["64"],
        listed: &["there is no forwarder for all names"],
    },
    Case {
        file: "u2-tag-local-data.conf",
        has: &["name = \"*.video.example\"", "views = [\"tags-kids\"]"],
        lacks: &[],
        decisive: &[],
        listed: &[],
    },
    Case {
        file: "u3-tag-other-clause.conf",
        has: &["views = [\"tags-kids\"]"],
        lacks: &["[block]"],
        decisive: &[],
        listed: &["the name itself is NOERROR"],
    },
    Case {
        file: "u4-redirect-other-clause.conf",
        has: &["name = \"*.sink.example\""],
        lacks: &[],
        decisive: &[],
        listed: &[],
    },
    Case {
        file: "u5-typetransparent.conf",
        has: &["name = \"mail.corp.example\""],
        lacks: &[],
        decisive: &[],
        listed: &["other types of a name"],
    },
    Case {
        file: "u6-nodefault-forward.conf",
        has: &["127.0.0.2:5399", "group = \"16-172-in-addr-arpa\"", "group = \"10-in-addr-arpa\""],
        lacks: &["group = \"default\""],
        decisive: &[],
        listed: &["have to answer as resolvers do"],
    },
    Case {
        file: "u8-transparent-exception.conf",
        has: &["names = [\"ads.example.\"]", "except = [\"good.ads.example.\"]"],
        lacks: &[],
        decisive: &[],
        listed: &[],
    },
    Case {
        file: "u9-two-soa.conf",
        has: &["ns.lan.example."],
        lacks: &["nobody.invalid"],
        decisive: &[],
        listed: &[],
    },
    Case {
        file: "u16-private-address.conf",
        has: &[
            "[[rebinding]]",
            "\"203.0.113.0/24\"",
            "\"10.0.0.0/8\"",
            "\"corp.example\"",
            "\"home.example.\"",
        ],
        lacks: &["action"],
        decisive: &[],
        listed: &["one that leads from another name"],
    },
    Case {
        file: "d1-dnsdist.conf",
        has: &[
            "except = [\"good.ads.example\"]",
            "\"ads.example.\"",
            "\"ref.example.\"",
            "name = \"*.spoof.example.\"",
            "views = [\"default\"]",
            "zone = \"corp.example.\"",
        ],
        lacks: &[],
        decisive: &[],
        listed: &["dnsdist forwards them", "for another answer"],
    },
];

/// Imports a file beside this one.
fn made(file: &str) -> Import {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/data/cases");
    import(&folder.join(file), None, &Disk).unwrap()
}

#[test]
fn every_habit_is_taken_over_or_said() {
    for Case { file, has, lacks, decisive, listed } in CASES {
        let made = made(file);
        Config::from_toml(&made.toml).unwrap();
        let tables = made.toml.split("\n# Not taken over").next().unwrap();
        let tables = tables.split("\n# pmdns needs nothing").next().unwrap();
        for part in has {
            assert!(tables.contains(part), "{file} lacks {part}: {}", made.toml);
        }
        for part in lacks {
            assert!(!tables.contains(part), "{file} has {part}: {}", made.toml);
        }
        let has = |part: &&&str| made.decisive.iter().any(|one| one.contains(**part));
        assert_eq!(decisive.iter().find(|part| !has(part)), None, "{file}: {:?}", made.decisive);
        assert_eq!(decisive.is_empty(), made.decisive.is_empty(), "{file}: {:?}", made.decisive);
        for part in listed {
            assert!(
                made.unmapped.iter().any(|one| one.contains(part)),
                "{file} {part}: {:?}",
                made.unmapped
            );
        }
    }
}

#[test]
fn every_case_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/data/cases");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_case = name.ends_with(".conf");
        assert!(!is_case || CASES.iter().any(|case| case.file == name), "{name}");
    }
}
