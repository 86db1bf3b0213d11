//! Files of trust anchors: DS and DNSKEY records (RFC 4034).

use std::path::Path;

use super::{FileError, read_zone};
use crate::LocalRecord;

/// DS and DNSKEY (RFC 4034 sections 2 and 5).
const ALLOWED: [u16; 2] = [43, 48];

/// The records of a file of trust anchors; names are whole names.
///
/// # Errors
///
/// As [`super::read_zone`], and a [`FileError`] if there are other records, or none.
pub fn read_anchors(path: &Path) -> Result<Vec<LocalRecord>, FileError> {
    let records = read_zone(path, None)?;
    let whole = |problem| FileError::Whole { file: path.to_owned(), problem };
    if records.is_empty() {
        return Err(whole("has no record; write the DS or DNSKEY records to trust".to_owned()));
    }
    if let Some(other) = records.iter().find(|record| !ALLOWED.contains(&record.rtype)) {
        let rtype = crate::type_name(other.rtype);
        return Err(whole(format!(
            "has a record of type {rtype}; a trust anchor is a DS or a DNSKEY record"
        )));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// What is read of a file of this text, which only one `test` writes.
    fn read(test: &str, text: &str) -> Result<Vec<LocalRecord>, String> {
        let file = format!("pmdns-anchors-{}-{test}", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(file);
        std::fs::write(&path, text).unwrap();
        let read = read_anchors(&path).map_err(|error| error.to_string());
        std::fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn keys_and_digests_of_keys_are_anchors() {
        let text = "; ours\nexample 60 IN DS 1 13 2 ( 00112233445566778899aabbccddeeff\n\
                    00112233445566778899aabbccddeeff )\n. DNSKEY 257 3 13 AAAA\n";
        let types = read("good", text).unwrap().into_iter().map(|record| record.rtype);
        assert!(types.eq([43, 48]));
    }

    #[test]
    fn other_records_and_none_are_refused() {
        let error = read("other", "example. 60 IN A 192.0.2.1\n").unwrap_err();
        assert!(error.ends_with("a trust anchor is a DS or a DNSKEY record"), "{error}");
        let error = read("none", "; nothing\n").unwrap_err();
        assert!(error.ends_with("write the DS or DNSKEY records to trust"), "{error}");
        assert!(read("broken", "example. 60 IN DS one\n").unwrap_err().contains("line 1"));
    }
}
