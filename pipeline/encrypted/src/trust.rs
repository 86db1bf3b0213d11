//! Trust in servers: root certificates, names, and pinned keys (RFC 7858 section 4, RFC 8310).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::{Host, Pin, Protocol, Server, Upstream};
use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use pmdns_counters::count;
use pmdns_resolver::{Roster, Slot, UpstreamCounters};

use crate::roots;

/// The root certificates of an upstream; none if a pinned key alone decides.
type Roots = Option<Arc<RootCertStore>>;

/// The root certificates by upstream.
#[derive(Clone, Debug, Default)]
pub struct UpstreamRoots {
    roots: Arc<[Roots]>,
}

/// Why upstreams cannot be trusted at all.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamRootsError {
    /// A file of certificates cannot be read.
    #[error("upstream[{upstream}].ca_file: cannot read {}: {why}", file.display())]
    Unreadable {
        /// Index of the upstream.
        upstream: usize,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is nothing to check certificates with.
    #[error(
        "upstream[{upstream}]: this system has no trusted certificates; install the package ca-certificates, \
         or set ca_file or pin"
    )]
    NoRoots {
        /// Index of the upstream.
        upstream: usize,
    },
    /// The library refuses what it was given.
    #[error("upstream[{upstream}]: TLS cannot be set up: {why}")]
    Setup {
        /// Index of the upstream.
        upstream: usize,
        /// What the library says.
        why: String,
    },
}

/// The settings of a peer.
pub(crate) struct Settings {
    pub(crate) server: Server,
    /// The name that the certificate must have.
    pub(crate) name: Host,
    pub(crate) source: Option<IpAddr>,
    pub(crate) bootstrap: Arc<[SocketAddr]>,
    pub(crate) tls: Arc<ClientConfig>,
    /// How many certificates have been checked. A resumed session has none.
    pub(crate) verified: Arc<AtomicU64>,
    pub(crate) counters: Arc<UpstreamCounters>,
}

impl UpstreamRoots {
    /// Reads the roots that `upstreams` need, from their files or the system.
    pub fn load(upstreams: &[Upstream]) -> Result<Self, UpstreamRootsError> {
        Ok(Self { roots: each(upstreams).collect::<Result<_, _>>()? })
    }

    /// Why upstreams cannot be trusted, one by one.
    pub fn errors(upstreams: &[Upstream]) -> impl Iterator<Item = UpstreamRootsError> {
        each(upstreams).filter_map(Result::err)
    }

    /// The settings of the peers, by slot; none for upstreams without encryption, and those that have left.
    pub(crate) fn settings(
        &self,
        roster: &Roster,
        bootstrap: &Arc<[SocketAddr]>,
    ) -> Result<Vec<Option<Settings>>, UpstreamRootsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = |slot: &Slot| {
            let Slot { upstream, counters, place, .. } = slot;
            let (Some(server), Some(index)) = (upstream.address.server(), *place) else {
                return Ok(None);
            };
            let setup = |why: String| UpstreamRootsError::Setup { upstream: index, why };
            let verified = Arc::default();
            let chain = match self.roots.get(index).cloned().flatten() {
                Some(roots) => Some(
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                        .build()
                        .map_err(|error| setup(error.to_string()))?,
                ),
                None => None,
            };
            let verifier = Verifier {
                written: upstream.address.to_string(),
                chain,
                pins: upstream.pin.clone().into(),
                algorithms: provider.signature_verification_algorithms,
                verified: Arc::clone(&verified),
                counters: Arc::clone(counters),
            };
            let tls = client(&provider, verifier, &server.protocol);
            Ok(Some(Settings {
                server: server.clone(),
                name: upstream.name.clone().unwrap_or_else(|| server.host.clone()),
                source: upstream.source,
                bootstrap: Arc::clone(bootstrap),
                tls: Arc::new(tls.map_err(|error| setup(error.to_string()))?),
                verified,
                counters: Arc::clone(counters),
            }))
        };
        roster.slots().iter().map(settings).collect()
    }
}

/// The roots of each upstream. Those of one file are read once.
fn each(upstreams: &[Upstream]) -> impl Iterator<Item = Result<Roots, UpstreamRootsError>> {
    let mut files: HashMap<Option<&Path>, Arc<RootCertStore>> = HashMap::new();
    upstreams.iter().enumerate().map(
        move |(index, upstream)| -> Result<Roots, UpstreamRootsError> {
            let pin_decides = !upstream.pin.is_empty() && upstream.name.is_none();
            let file = upstream.ca_file.as_deref();
            if upstream.address.server().is_none() || (pin_decides && file.is_none()) {
                return Ok(None);
            }
            let store = match files.get(&file) {
                Some(store) => Arc::clone(store),
                None => Arc::new(match file {
                    Some(file) => read(index, file)?,
                    None => system(index)?,
                }),
            };
            files.insert(file, Arc::clone(&store));
            Ok(Some(store))
        },
    )
}

fn read(upstream: usize, file: &Path) -> Result<RootCertStore, UpstreamRootsError> {
    let unreadable =
        |why: String| UpstreamRootsError::Unreadable { upstream, file: file.to_owned(), why };
    roots::of_file(file).map_err(unreadable)
}

/// The certificates that this system trusts.
fn system(upstream: usize) -> Result<RootCertStore, UpstreamRootsError> {
    roots::of_system().ok_or(UpstreamRootsError::NoRoots { upstream })
}

/// A TLS client configuration that remembers sessions for resumption.
fn client(
    provider: &Arc<CryptoProvider>,
    verifier: Verifier,
    protocol: &Protocol,
) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn(protocol).to_vec()];
    Ok(config)
}

/// The ALPN name of a protocol (RFC 7301).
pub(crate) fn alpn(protocol: &Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Tls => b"dot",
        Protocol::Https(_) => b"h2",
        Protocol::Quic => b"doq",
    }
}

/// Decides whether a server is the right one. The library checks chains and signatures. This adds pinned keys, and
/// counts and logs refusals.
#[derive(Debug)]
struct Verifier {
    written: String,
    /// `None`: a pinned key alone decides.
    chain: Option<Arc<WebPkiServerVerifier>>,
    pins: Box<[Pin]>,
    algorithms: WebPkiSupportedAlgorithms,
    verified: Arc<AtomicU64>,
    counters: Arc<UpstreamCounters>,
}

impl Verifier {
    /// Compares the server's own key, because that is the key which the server proves to have. Keys of issuers do not
    /// count.
    fn check_pins(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if self.pins.is_empty() {
            return Ok(());
        }
        let certificate = ParsedCertificate::try_from(certificate)?;
        let found = digest(&SHA256, &certificate.subject_public_key_info());
        match self.pins.iter().any(|pin| pin.0 == found.as_ref()) {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    /// Counts and logs a refusal. The operator has to know, but not a thousand times a second.
    fn refuse(&self, error: &rustls::Error) {
        let refused = &self.counters.untrusted;
        count(refused);
        if refused.load(Ordering::Relaxed).is_power_of_two() {
            let why = match error {
                rustls::Error::InvalidCertificate(
                    CertificateError::ApplicationVerificationFailure,
                ) => "its key is none of upstream.pin".to_owned(),
                other => other.to_string(),
            };
            tracing::warn!(
                "upstream {} is not trusted and not used: {why}; check its name, pin and ca_file (this \
                 warning is rarer each time, upstream.untrusted counts all)",
                self.written
            );
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        count(&self.verified);
        let chain = match &self.chain {
            Some(chain) => {
                chain.verify_server_cert(certificate, intermediates, name, ocsp, now).map(|_| ())
            }
            None => Ok(()),
        };
        let verdict = chain.and_then(|()| self.check_pins(certificate));
        verdict.inspect_err(|error| self.refuse(error))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
