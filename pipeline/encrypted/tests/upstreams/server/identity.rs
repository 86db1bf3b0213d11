//! Who an encrypted upstream of a test is: its certificate, its key, and the sessions it remembers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmdns_config::Pin;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PublicKeyData as _};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use super::{Manners, NAME, Seen};

/// Who signs a server's certificate, in a file.
pub(crate) struct Authority {
    file: PathBuf,
}

/// A certificate made for a test.
pub(super) struct Identity {
    pub(super) authority: Authority,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) pin: Pin,
}

impl Identity {
    /// One that nobody has had.
    pub(super) fn new() -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = Authority::write(&params.self_signed(&authority_key).unwrap().pem());
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate().unwrap();
        let names = [NAME.to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, &key.subject_public_key_info());
        let pin = Pin(digest.as_ref().try_into().unwrap());
        let certificate = certificate.der().clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Self { authority, certificate, key, pin }
    }
}

impl Authority {
    fn write(pem: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pmdns-test-{}-{number}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, pem).unwrap();
        Self { file }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Remembers sessions, and counts those that come back.
#[derive(Debug)]
struct Sessions {
    cache: Arc<ServerSessionMemoryCache>,
    seen: Arc<Seen>,
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.cache.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.cache.take(key);
        self.seen.resumed.fetch_add(usize::from(found.is_some()), Ordering::Relaxed);
        found
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seen")
    }
}

/// What a server with these manners says of itself.
pub(super) fn tls(
    manners: &Manners,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    seen: &Arc<Seen>,
) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = manners.alpn.iter().map(|alpn| alpn.to_vec()).collect();
    let cache = ServerSessionMemoryCache::new(64);
    config.session_storage = Arc::new(Sessions { cache, seen: Arc::clone(seen) });
    Arc::new(config)
}
