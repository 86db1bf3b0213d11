//! What tests of this crate share.

use std::path::Path;

use pmdns_config::Config;

use crate::keeper::Reading;
use crate::{Author, CHANGES, JournalError, KeptChanges, OperatorChange, What, ZoneLimitKept};

/// What the text of a file has kept, and whether its last line is torn.
pub(crate) fn parse(text: &[u8]) -> Result<(KeptChanges, bool), JournalError> {
    let (mut reading, path) = (Reading::default(), Path::new("j"));
    let is_torn = CHANGES.parse(text, path, |is_old, json| reading.take(is_old, json))?;
    Ok((reading.end(path)?, is_torn))
}

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
