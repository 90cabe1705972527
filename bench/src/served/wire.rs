//! Connections to a node, plain or with TLS.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::BenchError;

/// A connection, plain or with TLS.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Io for S {}

/// A certificate for 127.0.0.1, and its authority.
const CERTIFICATE: &str = include_str!("../../../crates/dispatch/tests/data/loopback.pem");
const KEY: &str = include_str!("../../../crates/dispatch/tests/data/loopback-key.pem");
const ROOT: &str = include_str!("../../../crates/dispatch/tests/data/root.pem");

/// The files of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
}

impl Certificate {
    /// Writes them into a folder.
    pub(crate) fn write(folder: &Path) -> Result<Certificate, BenchError> {
        let (chain, key) = (folder.join("loopback.pem"), folder.join("loopback-key.pem"));
        std::fs::create_dir_all(folder)?;
        std::fs::write(&chain, CERTIFICATE)?;
        std::fs::write(&key, KEY)?;
        Ok(Certificate { chain, key })
    }

    /// The variables that tell a node of them.
    pub(super) fn variables(&self) -> [(&'static str, &Path); 2] {
        [("PUNCTUAL_TLS__CERTIFICATE", &self.chain), ("PUNCTUAL_TLS__KEY", &self.key)]
    }
}

/// The address of a node, and its TLS settings.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) authority: String,
    tls: Option<TlsConnector>,
}

impl Target {
    pub(super) fn new(authority: String, certificate: Option<&Certificate>) -> Result<Target, BenchError> {
        let tls = certificate.map(|_| trusting()).transpose()?;
        Ok(Target { authority, tls })
    }

    /// A new connection, after its handshake.
    pub(crate) async fn connect(&self) -> Result<Pin<Box<dyn Io>>, BenchError> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::pin(stream)),
            Some(tls) => {
                let name = ServerName::try_from("127.0.0.1")?;
                Ok(Box::pin(tls.connect(name, stream).await?))
            }
        }
    }
}

fn trusting() -> Result<TlsConnector, BenchError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ROOT.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
