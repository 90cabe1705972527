//! From a URL to connections: what it may say, how TLS is made, and what is said when no server answers.

use std::sync::Arc;
use std::time::Duration;

use punctual_node::ports::StoreError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::line::Pool;
use super::trouble::{is_refused_as_read_only, said};
use crate::idle::Era;
use crate::sql::Options;

/// What is said of a server that takes no writes.
pub(super) const TAKES_NO_WRITES: &str =
    "the server takes no writes (it is a replica, or read-only): give the address of the primary";

/// What connections are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Of several hosts the first that takes writes is used, unless the URL has a `target_session_attrs` of its own.
    Write,
    /// Any server will do.
    Read,
}

/// A database's address with everything that the URL says.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    /// Whether statements may be prepared by name.
    pub(super) is_prepared: bool,
}

impl Address {
    /// Understands a URL. `sslmode` is `disable`, `prefer` (as long as nothing is said), `require`, or `verify-full`: as with the
    /// server's own tools, only the last checks the server's identity. `sslrootcert` names a file of certificates to trust, and so do
    /// the options; such a file means `verify-full`.
    pub(super) fn of(url: &str, options: &Options, access: Access) -> Result<Address, StoreError> {
        let refuse = |said: String| StoreError::Conflict(said.into());
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refuse("the database URL has to begin with postgres://".to_owned()));
        }
        let (url, mut asked) = ours(url);
        let file = asked.root_file.take().or_else(|| options.ca_file.clone());
        if let (Some(_), Some(mode)) = (&file, &asked.lax_mode) {
            return Err(refuse(format!(
                "a file of authorities (database.ca, sslrootcert) means that the server's certificate is verified, and sslmode={mode} in the URL says that it is not: remove one of the two"
            )));
        }
        asked.is_verified |= file.is_some();
        let mut config: Config = url.parse().map_err(|error: Error| {
            refuse(format!("the database URL cannot be understood: {}", said(&error)))
        })?;
        if asked.is_verified {
            config.ssl_mode(SslMode::Require);
        }
        if access == Access::Write && !asked.has_target {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        // A host that swallows packets must not use up the time of the next one.
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        let patience = options.deadline.min(Duration::from_secs(5)) / hosts;
        config
            .application_name(options.application.as_str())
            .connect_timeout(patience)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(30))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(15));
        if options.prepared && config.get_options().is_none() {
            // Not through a pooler, which does not know whose session it is. Compiling a statement takes longer than any
            // of ours. And what is planned while a table is empty stays planned when it is full: so never to walk over it.
            config.options("-c jit=off -c enable_seqscan=off");
        }
        let tls = MakeRustlsConnect::new(tls(asked.is_verified, file.as_deref())?);
        Ok(Address { config, tls, is_prepared: options.prepared })
    }

    pub(super) fn pool(&self, size: usize, deadline: Duration, era: &Era) -> Arc<Pool> {
        Pool::new(self, size, deadline, era)
    }
}

/// What the driver does not know of a URL.
#[derive(Default)]
struct Asked {
    is_verified: bool,
    /// An `sslmode` that takes every certificate, or none.
    lax_mode: Option<String>,
    root_file: Option<String>,
    has_target: bool,
}

/// A URL without what is ours to understand.
fn ours(url: &str) -> (String, Asked) {
    let mut asked = Asked::default();
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), asked) };
    let mut rest = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "verify-full" | "verify-ca")) => asked.is_verified = true,
            Some(("sslmode", mode)) => {
                asked.lax_mode = Some(mode.to_owned());
                rest.push(if mode == "allow" { "sslmode=prefer" } else { pair });
            }
            Some(("sslrootcert", file)) => asked.root_file = Some(file.to_owned()),
            _ => {
                asked.has_target |= pair.starts_with("target_session_attrs=");
                rest.push(pair);
            }
        }
    }
    let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    (url, asked)
}

fn tls(is_verified: bool, root_file: Option<&str>) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Unknown(error.to_string().into()))?;
    if !is_verified {
        let anybody = Arc::new(Anybody(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth());
    }
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = root_file {
        let refuse = |error: &dyn std::fmt::Display| {
            StoreError::Conflict(format!("the file of certificates {file} cannot be read: {error}").into())
        };
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| refuse(&error))? {
            let certificate = certificate.map_err(|error| refuse(&error))?;
            roots.add(certificate).map_err(|error| refuse(&error))?;
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Takes every certificate: without `verify-full`, TLS keeps listeners out and does not prove which server answers. Most servers
/// in a private network have a certificate that no authority signed.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a database could not be opened, for the operator who has to set it right.
pub(super) fn unreachable(error: &Error) -> StoreError {
    if is_refused_as_read_only(error) {
        return StoreError::Conflict(TAKES_NO_WRITES.into());
    }
    let said = said(error);
    let Some(code) = error.code() else {
        return StoreError::Unknown(format!("the database cannot be reached: {said}").into());
    };
    let advice = match code {
        code if *code == SqlState::INVALID_CATALOG_NAME => {
            "there is no such database: create it, or correct the URL"
        }
        code if [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]
            .contains(code) =>
        {
            "the database does not let this user in: check user and password in the URL"
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            "the user lacks rights in the database: grant them"
        }
        _ => return StoreError::Unknown(format!("the database cannot be used: {said}").into()),
    };
    StoreError::Conflict(format!("{advice} ({said})").into())
}
