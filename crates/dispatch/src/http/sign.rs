//! Signatures by Standard Webhooks, so that an agent can tell our calls from those of strangers.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD};

/// Keys made by other tools come with padding or without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const PREFIX: &str = "whsec_";

/// The keys of a job. There are two while one replaces the other: the agent accepts the signature of the key that it
/// knows.
pub(crate) struct Signer(Vec<hmac::Key>);

impl Signer {
    /// Reads a secret, or several separated by blanks. Error messages do not repeat the secret.
    pub(crate) fn parse(secret: &str) -> Result<Signer, String> {
        let keys: Vec<hmac::Key> = secret.split_whitespace().map(key).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(format!("empty: expected {PREFIX} and base64 of 24 to 64 bytes"));
        }
        Ok(Signer(keys))
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, seconds: &str, body: &[u8]) -> String {
        let signature = |key| {
            let mut context = hmac::Context::with_key(key);
            for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
                context.update(part);
            }
            format!("v1,{}", STANDARD.encode(context.sign()))
        };
        self.0.iter().map(signature).collect::<Vec<_>>().join(" ")
    }
}

fn key(secret: &str) -> Result<hmac::Key, String> {
    let wrong = |what: &str| format!("{what}: expected {PREFIX} and base64 of 24 to 64 bytes");
    let encoded = secret.strip_prefix(PREFIX).ok_or_else(|| wrong("this does not begin with whsec_"))?;
    let bytes = LENIENT.decode(encoded).map_err(|_| wrong("what follows whsec_ is no base64"))?;
    match bytes.len() {
        24..=64 => Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes)),
        count => Err(wrong(&format!("the key has {count} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_of_the_standard_is_reproduced() {
        let signer = Signer::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_secrets_make_two_signatures() {
        let one = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signature = Signer::parse(&format!("{one} {one}")).unwrap().sign("1", "2", b"");
        let parts: Vec<&str> = signature.split(' ').collect();
        assert!(parts.len() == 2 && parts[0] == parts[1], "{signature}");
    }

    #[test]
    fn a_bad_secret_is_refused_without_being_repeated() {
        for secret in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%%%%", "whsec_c2hvcnQ="] {
            let error = Signer::parse(secret).err().unwrap();
            assert!(error.contains("24 to 64 bytes"), "{error}");
            assert!(!error.contains("c2hvcnQ") && !error.contains("MfKQ9"), "{error}");
        }
    }
}
