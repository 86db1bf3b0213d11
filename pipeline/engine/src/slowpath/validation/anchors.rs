//! Trust anchors, and names that are excluded from validation.

use std::path::Path;

use pmdns_config::files::{FileError, read_anchors, zone_from};
use pmdns_config::{Dnssec, LocalRecord, NameError, subtree_name};
use pmdns_validator::{TrustAnchor, TrustAnchors};

/// The root's keys of 2017 and 2024 (<https://data.iana.org/root-anchors/root-anchors.xml>).
const ROOT: &str = "\
. 0 IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D
. 0 IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16
";

/// The start of validation: trusted keys, and names that are not validated.
#[derive(Clone, Debug)]
pub struct Anchors(TrustAnchors);

/// Why the anchors cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// The file of trust anchors cannot be used.
    #[error("dnssec.trust_anchor: {0}")]
    File(#[from] FileError),
    /// A record of it cannot be an anchor.
    #[error(
        "dnssec.trust_anchor: {}: a record of type {rtype} is no anchor; \
         a DNSKEY record needs flag 256, protocol 3, and no flag 128",
        file.display()
    )]
    Unusable {
        /// The file.
        file: std::path::PathBuf,
        /// The record's type.
        rtype: u16,
    },
    /// A negative trust anchor is no name.
    #[error("dnssec.negative_trust_anchors: {0}")]
    Name(#[from] NameError),
}

impl Anchors {
    /// The anchors of the settings; `None`: nothing is validated.
    ///
    /// # Errors
    ///
    /// If the file of trust anchors cannot be read, or holds anything else.
    pub fn load(settings: &Dnssec) -> Result<Option<Self>, AnchorError> {
        if !settings.validate {
            return Ok(None);
        }
        let (file, records) = match &settings.trust_anchor {
            Some(file) => (&**file, read_anchors(file)?),
            None => {
                let built_in = Path::new("the root's anchors");
                (built_in, zone_from(ROOT.as_bytes(), built_in, None)?)
            }
        };
        let anchor = |LocalRecord { name, rtype, data, .. }: LocalRecord| {
            let unusable = || AnchorError::Unusable { file: file.to_owned(), rtype };
            TrustAnchor::new(&name, rtype, &data).ok_or_else(unusable)
        };
        let anchors = records.into_iter().map(anchor).collect::<Result<Vec<_>, _>>()?;
        let negative = settings.negative_trust_anchors.iter().map(|name| subtree_name(name));
        let negative = negative.collect::<Result<Vec<_>, _>>()?;
        let negative: Vec<&[u8]> = negative.iter().map(|name| &**name).collect();
        Ok(Some(Self(TrustAnchors::new(&anchors, &negative))))
    }

    /// The trusted keys and excluded names.
    pub fn trust(&self) -> &TrustAnchors {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::wire_name;
    use pmdns_stages::wire::dns::HEADER_LEN;
    use pmdns_validator::{Question, SecurityStatus};

    use super::*;

    #[test]
    fn the_roots_anchors_can_be_read() {
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
            let name = wire_name(name).unwrap();
            let question = Question { name: &name, qtype: 1, qclass: 1 };
            let verdict = anchors.trust().verdict(question, &[0; HEADER_LEN], 9);
            assert_eq!(verdict, spared.then_some(SecurityStatus::Insecure), "{name:?}");
        }
    }
}
