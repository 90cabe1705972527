//! Which servers the command line trusts, and why it does not trust another.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, Error, RootCertStore};
use tokio_rustls::TlsConnector;

/// Trusts Mozilla's list of authorities, and those in a file that the person names.
pub fn connector(authorities: Option<&Path>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = authorities {
        let refuse = |reason: &dyn std::fmt::Display| {
            format!("cannot use the authorities in {}: {reason}", path.display())
        };
        for certificate in read(path).map_err(|error| refuse(&error))? {
            roots.add(certificate).map_err(|error| refuse(&error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows today's protocols")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| error.to_string())?;
    if certificates.is_empty() { Err("there is no certificate in it (PEM)".into()) } else { Ok(certificates) }
}

/// Why a server is not trusted, and what helps; none if the network is to blame.
pub(crate) fn doubt(error: &io::Error, host: &str) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let Error::InvalidCertificate(reason) = error else {
        return matches!(error, Error::InvalidMessage(_))
            .then(|| "it does not speak TLS: is its address http://…?".into());
    };
    Some(match reason {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is from an authority that is not known here; name the authority's file with --ca or PUNCTUAL_CA"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for {host}, but for other names")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; is the clock right?".into()
        }
        // This error has no variant of its own, and it is the one that most instructions for self-signed certificates
        // lead to.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is one of an authority (CA:TRUE), and servers need one of their own (CA:FALSE)".into()
        }
        other => format!("its certificate is refused: {other}"),
    })
}
