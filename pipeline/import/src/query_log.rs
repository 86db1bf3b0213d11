//! Logs of queries, in all three formats.

use std::path::Path;

use crate::meaning::Forwarder;
use crate::source::Origin;

/// A log of text.
pub(crate) const TEXT_LOG: &str =
    "`[query_log]` is the log of queries; set `json`, `sqlite` or `dnstap` there";
/// Messages of queries alone.
pub(crate) const ANSWERS: &str =
    "answers are logged (CLIENT_RESPONSE), and those queries that a rule drops";
/// Messages between us and upstreams, or about zones.
pub(crate) const CLIENTS: &str = "`[query_log]` has answers to clients, and no other messages";
/// No identity for the reader.
pub(crate) const IDENTITY: &str =
    "the reader is told `query_log.dnstap_identity`, or the name of the host";
/// A version for the reader, or none.
pub(crate) const VERSION: &str = "the reader is told the version of pmdns";

impl Forwarder {
    /// Proposes a file of JSON lines beside a log of text.
    pub(crate) fn propose_log(&mut self, text: &Path, origin: &Origin) {
        // The text has a name of its own, so that the two do not mix.
        let json = text.with_extension("json").display().to_string();
        self.draft.propose("query_log", "json", json, origin);
    }
}
