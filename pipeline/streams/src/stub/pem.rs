//! Certificates of tests, in files.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmdns_config::Pin;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// The name in the certificates.
pub(crate) const NAME: &str = "dns.example";

/// A certificate and its key, in files.
pub(crate) struct Pem {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) pin: Pin,
    der: CertificateDer<'static>,
}

impl Pem {
    /// One that nobody has had.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = |what: &str| {
            let name = format!("pmdns-streams-{}-{number}-{what}.pem", std::process::id());
            std::env::temp_dir().join(name)
        };
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new([NAME.to_owned()]).unwrap();
        let made = params.self_signed(&pair).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, &pair.subject_public_key_info());
        let (certificate, key) = (file("certificate"), file("key"));
        fs::write(&certificate, made.pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
        let pin = Pin(digest.as_ref().try_into().unwrap());
        Self { certificate, key, pin, der: made.der().clone() }
    }

    /// A client that trusts this certificate.
    pub(crate) fn client(&self, alpn: &[&[u8]]) -> ClientConfig {
        self.client_of(rustls::ALL_VERSIONS, alpn)
    }

    /// The same, for these versions of TLS.
    pub(crate) fn client_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&[u8]],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }
}

impl Drop for Pem {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.certificate);
        let _ = fs::remove_file(&self.key);
    }
}
