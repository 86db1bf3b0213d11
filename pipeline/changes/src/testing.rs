//! What tests of this crate share.

use pmdns_config::Config;

use crate::{Author, OperatorChange, What, ZoneLimitKept};

/// A configuration with one upstream. `more` stands in the table `[control]`, or behind it.
pub(crate) fn config(more: &str) -> Config {
    let text = format!(
        "[[port]]\nname = \"p0\"\ndevice = \"memory\"\naddresses = [\"10.77.0.2/24\"]\n\
         [[upstream]]\naddress = \"127.0.0.1:5353\"\n[acl]\ndefault = \"allow\"\n\
         [control]\nsocket = \"unused\"\n{more}"
    );
    Config::from_toml(&text).unwrap()
}

/// Whose changes those of tests are.
pub(crate) fn author() -> Author {
    Author { by: "user 0".to_owned(), since: 7, until_restart: false }
}

/// A limit.
pub(crate) fn limit(zone: &str, rate: u32) -> OperatorChange {
    let what = What::Limit(ZoneLimitKept { zone: zone.to_owned(), rate, until: None });
    OperatorChange { what, author: author() }
}
