//! The certificate by which clients know us, and the TLS settings of each transport.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pmdns_config::Pin;
use pmdns_config::files::open_regular;
use ring::digest::{Context, Digest, SHA256, digest};
use ring::hmac::{self, HMAC_SHA256};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ProducesTickets, ResolvesServerCert,
    WebPkiClientVerifier, danger::ClientCertVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The longest file of certificates or of a key.
const MAX_FILE: u64 = 1 << 20;

/// ALPN names (RFC 7858 section 3.1 and RFC 9460 section 7.1.1; RFC 9113; RFC 9250).
pub(crate) const DOT: &[u8] = b"dot";
pub(crate) const H2: &[u8] = b"h2";
pub(crate) const HTTP_1_1: &[u8] = b"http/1.1";
pub(crate) const DOQ: &[u8] = b"doq";

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file of certificates cannot be read.
    #[error("{table}.certificate: cannot read {}: {why}; write the path of a PEM file", file.display())]
    Certificate {
        /// The table of the configuration.
        table: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file has something else in it.
    #[error(
        "{table}.certificate: {} has no certificate in it; write the path of a PEM file with our certificate \
         first, and then those that lead to its issuer",
        file.display()
    )]
    NoCertificate {
        /// The table of the configuration.
        table: &'static str,
        /// The file.
        file: PathBuf,
    },
    /// The file of the key cannot be read, or has no key in it that can be used.
    #[error(
        "{table}.key: cannot read a private key from {}: {why}. Write the path of a PEM file with an RSA, \
         ECDSA or Ed25519 key that has no passphrase",
        file.display()
    )]
    Key {
        /// The table of the configuration.
        table: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key is another certificate's.
    #[error(
        "{table}.key: the key in {} is not that of the first certificate in {}; set `certificate` and `key` to \
         the files of one pair",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// The table of the configuration.
        table: &'static str,
        /// The file of certificates.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The library refuses what it was given.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// The certificate in use, and the files it comes from. Clones share it.
#[derive(Clone, Debug)]
pub struct Certificate {
    shared: Arc<CertificateParts>,
}

#[derive(Debug)]
struct CertificateParts {
    files: Files,
    provider: Arc<CryptoProvider>,
    /// Of the private key that was read first.
    reset_key: hmac::Key,
    /// Its keys change by themselves, every six hours.
    tickets: Arc<dyn ProducesTickets>,
    used: Mutex<Used>,
}

#[derive(Debug)]
struct Files {
    /// The table of the configuration that names them.
    table: &'static str,
    certificate: PathBuf,
    key: PathBuf,
}

/// The pair in use.
#[derive(Debug)]
struct Used {
    pair: Arc<CertifiedKey>,
    /// What the files had in them when they were read last; `None`: they could not be read.
    seen: Option<[u8; 32]>,
}

/// The files' contents.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificate {
    /// Reads a certificate and its key, which this table of the configuration names.
    ///
    /// # Errors
    ///
    /// Names the key of the configuration, and what to change.
    pub fn load(
        table: &'static str,
        certificate: &Path,
        key: &Path,
    ) -> Result<Self, CertificateError> {
        let files = Files { table, certificate: certificate.to_owned(), key: key.to_owned() };
        let provider = Arc::new(default_provider());
        let contents = files.read()?;
        let used = Used {
            pair: Arc::new(files.pair(&contents, &provider)?),
            seen: Some(contents.digest()),
        };
        let tickets = Ticketer::new().map_err(CertificateError::Setup)?;
        let key = hmac::Key::new(HMAC_SHA256, &contents.key);
        let secret = hmac::sign(&key, b"pmdns: stateless resets of QUIC");
        let reset_key = hmac::Key::new(HMAC_SHA256, secret.as_ref());
        let used = Mutex::new(used);
        let shared = CertificateParts { files, provider, reset_key, tickets, used };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Reads the files again. If they have changed, new connections get what is in them: then it returns `true`.
    ///
    /// # Errors
    ///
    /// The files have changed and cannot be used. The certificate stays. The same contents are no error again.
    pub fn refresh(&self) -> Result<bool, CertificateError> {
        let contents = self.shared.files.read();
        let seen = contents.as_ref().ok().map(Contents::digest);
        {
            let mut used = self.shared.lock();
            if std::mem::replace(&mut used.seen, seen) == seen {
                return Ok(false);
            }
        }
        let pair = self.shared.files.pair(&contents?, &self.shared.provider)?;
        self.shared.lock().pair = Arc::new(pair);
        Ok(true)
    }

    /// Uses what is in the files now.
    ///
    /// # Errors
    ///
    /// They cannot be used. The certificate stays.
    pub fn reload(&self) -> Result<(), CertificateError> {
        let contents = self.shared.files.read()?;
        let pair = Arc::new(self.shared.files.pair(&contents, &self.shared.provider)?);
        *self.shared.lock() = Used { pair, seen: Some(contents.digest()) };
        Ok(())
    }

    /// The pin of its key, as a client's configuration may have it.
    ///
    /// # Errors
    ///
    /// The certificate cannot be parsed.
    pub fn spki_pin(&self) -> Result<Pin, CertificateError> {
        let pair = Arc::clone(&self.shared.lock().pair);
        let first = pair.end_entity_cert().map_err(CertificateError::Setup)?;
        spki_pin(first).map_err(CertificateError::Setup)
    }

    /// The table of the configuration that names it, and when it expires, in seconds since 1970. `None`: it does not say.
    pub fn expiry(&self) -> Option<(&'static str, u64)> {
        let pair = Arc::clone(&self.shared.lock().pair);
        let (_, parsed) = X509Certificate::from_der(pair.end_entity_cert().ok()?).ok()?;
        let expires = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
        Some((self.shared.files.table, expires))
    }

    /// A secret that every process with the same private key has: for resets of connections that it does not know.
    pub(crate) fn reset_key(&self) -> &hmac::Key {
        &self.shared.reset_key
    }

    /// What a server says of itself that speaks the protocols of these ALPN names, to any client.
    pub(crate) fn server(&self, alpn: &[&[u8]]) -> Result<ServerConfig, CertificateError> {
        self.server_for(alpn, WebPkiClientVerifier::no_client_auth())
    }

    /// The same, to clients whose certificates `clients` accepts. There is no early data (0-RTT), because it can be
    /// replayed.
    ///
    /// # Errors
    ///
    /// The library refuses it.
    pub fn server_for(
        &self,
        alpn: &[&[u8]],
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<ServerConfig, CertificateError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.shared.provider))
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Setup)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::<CertificateParts>::clone(&self.shared));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.ticketer = Arc::clone(&self.shared.tickets);
        // Tickets take no memory here.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        Ok(config)
    }
}

/// SHA-256 of a certificate's SubjectPublicKeyInfo (RFC 7858 appendix A).
///
/// # Errors
///
/// The certificate cannot be parsed.
pub fn spki_pin(certificate: &CertificateDer<'_>) -> Result<Pin, rustls::Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(Pin(bytes(&digest(&SHA256, &parsed.subject_public_key_info()))))
}

impl CertificateParts {
    fn lock(&self) -> std::sync::MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for CertificateParts {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.lock().pair))
    }
}

impl Files {
    fn read(&self) -> Result<Contents, CertificateError> {
        let certificate =
            read(&self.certificate).map_err(|error| CertificateError::Certificate {
                table: self.table,
                file: self.certificate.clone(),
                why: error.to_string(),
            })?;
        let key = read(&self.key).map_err(|error| self.bad_key(error.to_string()))?;
        Ok(Contents { certificate, key })
    }

    fn pair(
        &self,
        contents: &Contents,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, CertificateError> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(&contents.certificate).collect();
        let chain = chain.map_err(|error| CertificateError::Certificate {
            table: self.table,
            file: self.certificate.clone(),
            why: error.to_string(),
        })?;
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate {
                table: self.table,
                file: self.certificate.clone(),
            });
        }
        let key = PrivateKeyDer::from_pem_slice(&contents.key)
            .map_err(|error| self.bad_key(error.to_string()))?;
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|error| self.bad_key(error.to_string()))?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Ok(()) => Ok(pair),
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                let (certificate, key) = (self.certificate.clone(), self.key.clone());
                Err(CertificateError::Mismatch { table: self.table, certificate, key })
            }
            Err(error) => Err(CertificateError::Certificate {
                table: self.table,
                file: self.certificate.clone(),
                why: error.to_string(),
            }),
        }
    }

    fn bad_key(&self, why: String) -> CertificateError {
        CertificateError::Key { table: self.table, file: self.key.clone(), why }
    }
}

impl Contents {
    fn digest(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(&self.certificate.len().to_be_bytes());
        context.update(&self.certificate);
        context.update(&self.key);
        bytes(&context.finish())
    }
}

fn bytes(digest: &Digest) -> [u8; 32] {
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A file of limited length.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    let length = open_regular(file)?.take(MAX_FILE + 1).read_to_end(&mut contents)?;
    if length as u64 > MAX_FILE {
        return Err(std::io::Error::other(format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::stub::Pem;

    #[test]
    fn a_pin_is_that_of_the_public_key() {
        let pem = Pem::new();
        let certificate = Certificate::load("streams", &pem.certificate, &pem.key).unwrap();
        assert_eq!(certificate.spki_pin().unwrap(), pem.pin);
        let text = pem.pin.to_string();
        assert_eq!(text.parse(), Ok(pem.pin), "{text}");
    }

    #[test]
    fn a_certificate_says_when_it_expires() {
        let pem = Pem::new();
        let certificate = Certificate::load("api", &pem.certificate, &pem.key).unwrap();
        // The library's default: the first of January 4096.
        assert_eq!(certificate.expiry(), Some(("api", 67_090_118_400)));
    }

    #[test]
    fn a_pair_that_cannot_be_used_is_told_with_its_key_and_the_fix() {
        for table in ["streams", "api"] {
            let (one, two) = (Pem::new(), Pem::new());
            let fails = |certificate: &Path, key: &Path, at: &str, words: &str| {
                let text = Certificate::load(table, certificate, key).unwrap_err().to_string();
                assert!(text.starts_with(&format!("{table}.{at}: ")), "{text}");
                assert!(text.contains(words), "{text}");
            };
            let (certificate, key) = (&*one.certificate, &*one.key);
            let none = Path::new("/nonexistent/file.pem");
            fails(none, key, "certificate", "cannot read /nonexistent/file.pem");
            fails(certificate, none, "key", "cannot read a private key");
            fails(key, key, "certificate", "has no certificate in it; write the path");
            fails(certificate, certificate, "key", "cannot read a private key");
            fails(certificate, &two.key, "key", "is not that of the first certificate");
            fs::write(certificate, vec![b'a'; 2 << 20]).unwrap();
            fails(certificate, key, "certificate", "longer than");
        }
    }

    #[test]
    fn files_that_change_are_used_and_bad_ones_keep_the_old_pair() {
        let (one, two) = (Pem::new(), Pem::new());
        let certificate = Certificate::load("streams", &one.certificate, &one.key).unwrap();
        assert!(!certificate.refresh().unwrap(), "nothing has changed");
        fs::copy(&two.certificate, &one.certificate).unwrap();
        let error = certificate.refresh().unwrap_err();
        assert!(matches!(error, CertificateError::Mismatch { .. }), "{error}");
        assert!(!certificate.refresh().unwrap(), "told once");
        assert!(certificate.reload().is_err(), "a reload tells it again");
        assert_eq!(certificate.spki_pin().unwrap(), one.pin, "the old pair stays");
        fs::copy(&two.key, &one.key).unwrap();
        assert!(certificate.refresh().unwrap());
        assert_eq!(certificate.spki_pin().unwrap(), two.pin);
        fs::remove_file(&one.key).unwrap();
        assert!(certificate.refresh().is_err());
        assert!(!certificate.refresh().unwrap(), "told once");
        assert_eq!(certificate.spki_pin().unwrap(), two.pin);
        fs::copy(&two.key, &one.key).unwrap();
        assert!(certificate.refresh().unwrap(), "they can be read again");
        let three = Pem::new();
        fs::copy(&three.certificate, &one.certificate).unwrap();
        fs::copy(&three.key, &one.key).unwrap();
        certificate.reload().unwrap();
        assert_eq!(certificate.spki_pin().unwrap(), three.pin);
        assert!(!certificate.refresh().unwrap(), "the reload has seen it");
    }
}
