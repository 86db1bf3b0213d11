//! The address and the protocol of an upstream resolver: `192.0.2.53:53`, `tls://dns.example`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::name::{NameError, wire_name};

/// The path of a resolver over HTTPS whose address names none (RFC 8484 section 4.1.1).
const DEFAULT_PATH: &str = "/dns-query";

/// Where a resolver listens, as it was written and as it was understood.
#[derive(Clone)]
pub struct UpstreamAddress {
    written: Box<str>,
    endpoint: Endpoint,
}

/// How a resolver is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Over UDP, and TCP where that is needed.
    Plain(SocketAddr),
    /// Over an encrypted connection.
    Encrypted(Server),
}

/// A resolver that is asked over encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The protocol of these connections.
    pub protocol: Protocol,
    /// Where it is.
    pub host: Host,
    /// The port it listens at.
    pub port: u16,
}

/// The protocol of an encrypted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// DNS over TLS (RFC 7858): `tls://`.
    Tls,
    /// DNS over HTTPS (RFC 8484), with the path of the resource: `https://`.
    Https(Box<str>),
    /// DNS over QUIC (RFC 9250): `quic://`.
    Quic,
}

/// A host: an IP address or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A host name, in lower case, without a trailing dot.
    Name(Box<str>),
}

/// Why an upstream's address could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// Neither a socket address nor a URL.
    #[error(
        "this is not an address with a port; write for example \"192.0.2.53:53\", \"[2001:db8::53]:53\" or \"tls://192.0.2.53\""
    )]
    Plain,
    /// HTTP without TLS.
    #[error(
        "`http://` is without TLS, so that anybody on the way can change what comes; write https://"
    )]
    Http,
    /// The part before `://` is unknown.
    #[error(
        "`{0}://` is no transport; allowed: tls://, https://, quic://, or an address and a port alone for UDP and TCP"
    )]
    Scheme(String),
    /// What stands between the host and the path is no port.
    #[error("`{0}` is not a port; write a colon and 1 to 65535, or leave it out")]
    Port(String),
    /// An IPv6 address stands without brackets.
    #[error("an IPv6 address stands in brackets here, as in \"tls://[2001:db8::53]:853\"")]
    Brackets,
    /// The part after `://` is no host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Only HTTPS has a path.
    #[error("`{0}` is not allowed here; only https:// has a path")]
    NoPath(String),
    /// The path cannot stand in a request.
    #[error(
        "`{0}` is not the path of a resolver; write for example /dns-query, without {{?dns}} and without #"
    )]
    Path(String),
}

/// Why a host could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// It is no domain name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It is a domain name that no host has (RFC 1123 section 2.1).
    #[error(
        "`{0}` is neither an address nor a host name; a host name has letters, digits, - and _, and does not end in a number"
    )]
    NoHost(String),
}

impl UpstreamAddress {
    /// How the resolver is reached.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The address of a resolver that is asked over UDP and TCP.
    pub fn plain(&self) -> Option<SocketAddr> {
        match self.endpoint {
            Endpoint::Plain(address) => Some(address),
            Endpoint::Encrypted(_) => None,
        }
    }

    /// The resolver, if it is asked over encrypted connections.
    pub fn server(&self) -> Option<&Server> {
        match &self.endpoint {
            Endpoint::Plain(_) => None,
            Endpoint::Encrypted(server) => Some(server),
        }
    }

    /// Whether nobody on the way can read or change what is said.
    pub fn is_encrypted(&self) -> bool {
        match self.server().map(|server| &server.protocol) {
            Some(Protocol::Tls | Protocol::Https(_) | Protocol::Quic) => true,
            None => false,
        }
    }

    /// The IP address of the resolver, if it is written.
    pub fn ip(&self) -> Option<IpAddr> {
        match &self.endpoint {
            Endpoint::Plain(address) => Some(address.ip()),
            Endpoint::Encrypted(Server { host: Host::Address(address), .. }) => Some(*address),
            Endpoint::Encrypted(_) => None,
        }
    }
}

impl From<SocketAddr> for UpstreamAddress {
    fn from(address: SocketAddr) -> Self {
        Self { written: address.to_string().into(), endpoint: Endpoint::Plain(address) }
    }
}

impl FromStr for UpstreamAddress {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        let endpoint = match text.split_once("://") {
            None => Endpoint::Plain(text.parse().map_err(|_| UpstreamError::Plain)?),
            Some((scheme, rest)) => Endpoint::Encrypted(server(scheme, rest)?),
        };
        Ok(Self { written: text.into(), endpoint })
    }
}

/// Reads what stands before and after `://`.
fn server(scheme: &str, rest: &str) -> Result<Server, UpstreamError> {
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let (protocol, default_port) = match scheme {
        "tls" => (Protocol::Tls, 853),
        "quic" => (Protocol::Quic, 853),
        "https" => (Protocol::Https(checked_path(path)?.into()), 443),
        "http" => return Err(UpstreamError::Http),
        _ => return Err(UpstreamError::Scheme(scheme.to_owned())),
    };
    if !path.is_empty() && scheme != "https" {
        return Err(UpstreamError::NoPath(path.to_owned()));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (address, port) = bracketed.split_once(']').ok_or(UpstreamError::Brackets)?;
            let address: Ipv6Addr = address.parse().map_err(|_| UpstreamError::Brackets)?;
            (Host::Address(address.into()), port)
        }
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            if port.matches(':').count() > 1 {
                return Err(UpstreamError::Brackets);
            }
            (host.parse()?, port)
        }
    };
    let port = match port {
        "" => default_port,
        written => {
            let number = written.strip_prefix(':').and_then(|number| number.parse().ok());
            let port = number.filter(|port| *port != 0);
            port.ok_or_else(|| UpstreamError::Port(written.to_owned()))?
        }
    };
    Ok(Server { protocol, host, port })
}

/// The path, if it can stand in a request as it is.
fn checked_path(path: &str) -> Result<&str, UpstreamError> {
    let path = if path.is_empty() { DEFAULT_PATH } else { path };
    let lawful = |c: char| c.is_ascii_graphic() && !"#{}<>\"\\^`|".contains(c);
    if path.chars().all(lawful) { Ok(path) } else { Err(UpstreamError::Path(path.to_owned())) }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        // Checks the lengths.
        wire_name(text)?;
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let lawful = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            label.chars().all(lawful) && !label.starts_with('-') && !label.ends_with('-')
        };
        // What ends in a number is an address mistyped.
        let ends_in_a_number =
            name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
        if ends_in_a_number || !name.split('.').all(is_label) {
            return Err(HostError::NoHost(text.to_owned()));
        }
        Ok(Self::Name(name.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl fmt::Debug for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Server {
        let address: UpstreamAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), text, "it is shown as it was written");
        address.server().unwrap().clone()
    }

    fn mistake(text: &str) -> UpstreamError {
        text.parse::<UpstreamAddress>().unwrap_err()
    }

    #[test]
    fn an_address_and_a_port_alone_are_plain() {
        let address: UpstreamAddress = "192.0.2.53:53".parse().unwrap();
        assert_eq!(address.plain(), Some("192.0.2.53:53".parse().unwrap()));
        assert_eq!(address.server(), None);
        for text in ["192.0.2.53", "dns.example:53", "", "2001:db8::53:53:x"] {
            assert_eq!(mistake(text), UpstreamError::Plain, "{text}");
        }
    }

    #[test]
    fn each_scheme_has_its_port() {
        let host = Host::Address("192.0.2.53".parse().unwrap());
        for (text, protocol, port) in [
            ("tls://192.0.2.53", Protocol::Tls, 853),
            ("tls://192.0.2.53:8853", Protocol::Tls, 8853),
            ("quic://192.0.2.53", Protocol::Quic, 853),
            ("https://192.0.2.53", Protocol::Https("/dns-query".into()), 443),
            ("https://192.0.2.53:8443/a/b?c=d", Protocol::Https("/a/b?c=d".into()), 8443),
            ("https://192.0.2.53/", Protocol::Https("/".into()), 443),
        ] {
            assert_eq!(read(text), Server { protocol, host: host.clone(), port }, "{text}");
        }
    }

    #[test]
    fn hosts_are_addresses_or_names() {
        let address: Ipv6Addr = "2001:db8::53".parse().unwrap();
        assert_eq!(read("tls://[2001:db8::53]").host, Host::Address(address.into()));
        assert_eq!(read("tls://[2001:db8::53]:8853").port, 8853);
        assert_eq!(read("tls://DNS.Example.").host, Host::Name("dns.example".into()));
        for text in ["tls://2001:db8::53", "tls://[2001:db8::53", "tls://[dns.example]"] {
            assert_eq!(mistake(text), UpstreamError::Brackets, "{text}");
        }
        for text in ["tls://192.0.2.999", "tls://-a.example", "tls://a*b.example", "quic://."] {
            assert!(matches!(mistake(text), UpstreamError::Host(HostError::NoHost(_))), "{text}");
        }
        for text in ["tls://", "https:///dns-query", "tls://a..b", "tls://user@dns.example"] {
            assert!(matches!(mistake(text), UpstreamError::Host(HostError::Name(_))), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(mistake("http://lists.example/ads.txt"), UpstreamError::Http);
        assert_eq!(mistake("udp://192.0.2.53"), UpstreamError::Scheme("udp".into()));
        for port in ["0", "65536", "x", "", "53x"] {
            let port = format!(":{port}");
            assert_eq!(mistake(&format!("tls://a.example{port}")), UpstreamError::Port(port));
        }
        assert_eq!(mistake("tls://[::1]853"), UpstreamError::Port("853".into()));
        assert_eq!(mistake("tls://a.example/dns"), UpstreamError::NoPath("/dns".into()));
        for path in ["/dns-query{?dns}", "/a b", "/#x"] {
            let path_error = UpstreamError::Path(path.into());
            assert_eq!(mistake(&format!("https://a.example{path}")), path_error);
        }
    }
}
