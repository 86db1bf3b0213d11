//! Source ports of services that answer any datagram: a reply to one may come back, for ever (CVE-2024-2169).
//!
//! A query with a forged source makes two such services talk to each other. Responses are dropped, and so loops between
//! servers of the DNS end there; these services know no such mark.

/// Ports below this one belong to services; clients ask from others (RFC 6056 section 3.2).
pub(super) const SERVICES_END: u16 = 1024;

/// The services below [`SERVICES_END`] that answer datagrams which are none of their protocol. Port 0 is nobody's and
/// is refused elsewhere. The rest below 1024 is answered. Forwarders ask from port 53, and address translators keep
/// ports below 1024 below 1024 (RFC 4787 section 4.2.2). The bound on error replies ends a loop that nobody knows of
/// yet.
const REFLECTORS: [(u16, &str); 10] = [
    (7, "echo sends everything back (RFC 862)"),
    (9, "discard answers nothing, and nobody asks from it (RFC 863)"),
    (11, "systat answers every datagram with the users (RFC 866)"),
    (13, "daytime answers every datagram with the date (RFC 867)"),
    (17, "qotd answers every datagram with a quote (RFC 865)"),
    (19, "chargen answers every datagram with letters (RFC 864)"),
    (37, "time answers every datagram with the time (RFC 868)"),
    (69, "TFTP servers answer what they do not know with an error (VU#417980)"),
    (123, "NTP servers have answered errors with errors (CVE-2009-3563)"),
    (464, "kpasswd answers what it does not know with an error (CVE-2002-2443)"),
];

/// Whether the service on this port would answer any reply of ours.
#[cold]
pub(super) fn answers_anything(port: u16) -> bool {
    REFLECTORS.iter().any(|(reflector, _)| *reflector == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_listed_once_in_order() {
        assert!(REFLECTORS.is_sorted_by(|(one, _), (next, _)| one < next));
        assert!(REFLECTORS.iter().all(|(port, why)| *port < SERVICES_END && !why.is_empty()));
    }
}
