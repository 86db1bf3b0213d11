//! Trust anchors, and the names they say nothing about.

use std::path::Path;
use std::sync::Arc;

use domain::dnssec::validator::anchor::TrustAnchors;
use pmdns_config::files::{FileError, read_anchors};
use pmdns_config::{Dnssec, NameError, wire_name};
use pmdns_stages::wire::name::suffixes;

/// The root's keys of 2017 and 2024 (<https://data.iana.org/root-anchors/root-anchors.xml>).
const ROOT: &str = "\
. IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D
. IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16
";

/// What validation starts from: keys that are trusted, and names that are not validated.
#[derive(Clone, Debug)]
pub struct Anchors {
    /// DS and DNSKEY records as in a zone file.
    records: Arc<[u8]>,
    /// Wire format, lower case.
    negative: Arc<[Box<[u8]>]>,
}

/// Why there is nothing to start from.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// The file of trust anchors cannot be used.
    #[error("dnssec.trust_anchor: {0}")]
    File(#[from] FileError),
    /// The library cannot read them.
    #[error("dnssec.trust_anchor: {}: {why}", file.display())]
    Unusable {
        /// The file.
        file: std::path::PathBuf,
        /// What the library says.
        why: String,
    },
    /// A negative trust anchor is no name.
    #[error("dnssec.negative_trust_anchors: {0}")]
    Name(#[from] NameError),
}

impl Anchors {
    /// What the settings say; `None`: nothing is validated.
    ///
    /// # Errors
    ///
    /// If the file of trust anchors cannot be read, or holds anything else.
    pub fn load(settings: &Dnssec) -> Result<Option<Self>, AnchorError> {
        if !settings.validate {
            return Ok(None);
        }
        let records = match &settings.trust_anchor {
            Some(file) => of_file(file)?,
            None => ROOT.into(),
        };
        let negative = settings.negative_trust_anchors.iter().map(|name| wire_name(name));
        let negative = negative.collect::<Result<_, _>>()?;
        Ok(Some(Self { records: records.into(), negative }))
    }

    /// The trusted keys.
    pub(super) fn trusted(&self) -> TrustAnchors {
        // They were read once before, when they were loaded.
        TrustAnchors::from_u8(&self.records).unwrap_or_else(|_| TrustAnchors::empty())
    }

    /// Whether the operator says not to validate `name` (RFC 7646); wire format, in any letters.
    pub(super) fn spare(&self, name: &[u8]) -> bool {
        let is_negative = |zone| self.negative.iter().any(|one| one.eq_ignore_ascii_case(zone));
        suffixes(name).any(is_negative)
    }
}

fn of_file(file: &Path) -> Result<Vec<u8>, AnchorError> {
    let records = read_anchors(file)?;
    TrustAnchors::from_u8(&records)
        .map_err(|error| AnchorError::Unusable { file: file.to_owned(), why: error.to_string() })?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_anchors_can_be_read() {
        assert!(TrustAnchors::from_u8(ROOT.as_bytes()).is_ok());
        let on = Dnssec { validate: true, ..Dnssec::default() };
        assert!(Anchors::load(&on).unwrap().is_some());
        assert!(Anchors::load(&Dnssec::default()).unwrap().is_none());
    }

    #[test]
    fn names_at_and_below_a_negative_anchor_are_spared() {
        let negative_trust_anchors = vec!["Broken.example.".into()];
        let settings = Dnssec { validate: true, negative_trust_anchors, ..Dnssec::default() };
        let anchors = Anchors::load(&settings).unwrap().unwrap();
        for (name, spared) in [
            ("broken.example", true),
            ("www.broken.example", true),
            ("BROKEN.Example", true),
            ("unbroken.example", false),
            ("example", false),
            (".", false),
        ] {
            assert_eq!(anchors.spare(&wire_name(name).unwrap()), spared, "{name}");
        }
    }
}
