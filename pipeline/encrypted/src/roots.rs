//! The certificates that certificates of servers and of the API's clients are checked with.

use std::io::Read as _;
use std::path::Path;

use pmdns_config::files::open_regular;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The longest file. Those of systems have a quarter of a megabyte.
const MAX_FILE: u64 = 4 << 20;

/// Those of a PEM file.
///
/// # Errors
///
/// What is wrong with it.
pub fn of_file(file: &Path) -> Result<RootCertStore, String> {
    let (mut roots, mut pem) = (RootCertStore::empty(), Vec::new());
    let file = open_regular(file).map_err(|error| error.to_string())?;
    file.take(MAX_FILE + 1).read_to_end(&mut pem).map_err(|error| error.to_string())?;
    if pem.len() as u64 > MAX_FILE {
        return Err(format!("it is longer than {MAX_FILE} bytes"));
    }
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    match roots.is_empty() {
        true => Err("it has no certificate in it; a PEM file is expected".to_owned()),
        false => Ok(roots),
    }
}

/// Those that this system trusts, if there are any. Certificates that cannot be read are skipped.
pub fn of_system() -> Option<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("a certificate of this system cannot be read: {error}");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    (!roots.is_empty()).then_some(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_in_place_of_certificates_is_told_and_not_waited_for() {
        let path = std::env::temp_dir().join(format!("pmdns-roots-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let why = of_file(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(why.contains("no regular file"), "{why}");
        assert!(of_file(Path::new("/nonexistent")).unwrap_err().contains("No such file"));
    }
}
