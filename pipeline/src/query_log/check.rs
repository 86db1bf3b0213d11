//! Whether a search of the query log can find anything.

use std::net::IpAddr;

use domain::base::iana::Rcode;
use pmdns_config::type_number;
use pmdns_control::query_log::LogSearch;

/// Refuses what no entry can have: it would look like a search without results.
pub(crate) fn check(search: &LogSearch) -> Result<(), String> {
    if let Some(text) = search.record_type.as_deref().filter(|text| type_number(text).is_none()) {
        return Err(format!("there is no record type `{text}`; write A or TYPE1"));
    }
    let is_rcode = |text: &str| {
        (0..16).any(|code| Rcode::masked_from_int(code).to_string().eq_ignore_ascii_case(text))
    };
    if let Some(text) = search.rcode.as_deref().filter(|text| !is_rcode(text)) {
        return Err(format!("there is no rcode `{text}`; write NOERROR, NXDOMAIN or SERVFAIL"));
    }
    let is_client = |text: &str| text.starts_with('#') || text.parse::<IpAddr>().is_ok();
    match search.client.as_deref().filter(|text| !is_client(text)) {
        Some(text) => Err(format!(
            "`{text}` is no client; write its address, or its hash as the log has it: # and digits"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_entry_can_have_is_refused() {
        let search = |record_type: &str, rcode: &str, client: &str| LogSearch {
            record_type: Some(record_type.to_owned()),
            rcode: Some(rcode.to_owned()),
            client: Some(client.to_owned()),
            ..LogSearch::default()
        };
        for client in ["192.0.2.7", "2001:db8::", "#0123abcd"] {
            assert_eq!(check(&search("aaaa", "nxdomain", client)), Ok(()), "{client}");
        }
        assert_eq!(check(&LogSearch::default()), Ok(()));
        for (wrong, part) in [
            (search("FOO", "NOERROR", "192.0.2.7"), "record type `FOO`"),
            (search("A", "FOO", "192.0.2.7"), "rcode `FOO`"),
            (search("A", "NOERROR", "foo"), "`foo` is no client"),
        ] {
            let why = check(&wrong).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
