//! A server with a certificate, and the command line over https. The certificates are made here, by openssl.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::house::{Folder, Server, command, eventually};

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.args(arguments.split(' ')).current_dir(folder).output().expect("openssl is there");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// An authority, in `NAME.pem`.
fn authority(folder: &Path, name: &str) -> PathBuf {
    openssl(
        folder,
        &format!("req -x509 {NEW_KEY} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 1"),
    );
    folder.join(format!("{name}.pem"))
}

/// A certificate from an authority, in `NAME.pem`, for the one who is called so.
fn certificate(folder: &Path, authority: &str, name: &str, called: &str) {
    let request = format!("req -new {NEW_KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}");
    openssl(folder, &format!("{request} -addext subjectAltName={called}"));
    let signed =
        format!("x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial");
    openssl(folder, &format!("{signed} -copy_extensions copy -days 1 -out {name}.pem"));
}

async fn serving(folder: &Folder, name: &str) -> Server {
    let config = folder.path().join(format!("{name}.toml"));
    let in_folder = |file: &str| folder.path().join(format!("{name}.{file}"));
    let text = format!("[tls]\ncertificate = {:?}\nkey = {:?}\n", in_folder("pem"), in_folder("key"));
    std::fs::write(&config, text).expect("a file");
    Server::start_with(folder, &["--config", config.to_str().expect("text")]).await
}

fn list(server: &Server, url: &str, more: &[&str]) -> Output {
    let mut command = command();
    command.args(["job", "list", "-o", "json"]).args(more);
    command.env("PUNCTUAL_URL", url).env("PUNCTUAL_TOKEN", &server.token).output().expect("the binary starts")
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_talks_to_a_server_whose_authority_it_is_told() {
    let folder = Folder::new();
    let ca = authority(folder.path(), "ours");
    certificate(folder.path(), "ours", "server", "IP:127.0.0.1");
    let server = serving(&folder, "server").await;
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let ca = ca.to_str().expect("text");
    eventually("it is served", async || list(&server, &server.url, &["--ca", ca]).status.success()).await;
    let told = command()
        .args(["job", "list"])
        .envs([("PUNCTUAL_URL", server.url.as_str()), ("PUNCTUAL_CA", ca), ("PUNCTUAL_TOKEN", &server.token)])
        .output()
        .expect("the binary starts");
    assert_eq!(told.status.code(), Some(0), "{told:?}");

    let other = authority(folder.path(), "other");
    let (code, message) = said(&list(&server, &server.url, &["--ca", other.to_str().expect("text")]));
    assert_eq!(code, Some(1), "{message}");
    for words in
        ["cannot trust https://127.0.0.1:", "authority that is not known here", "--ca or PUNCTUAL_CA"]
    {
        assert!(message.contains(words), "{message}");
    }
    let (code, message) = said(&list(&server, &server.url.replace("127.0.0.1", "localhost"), &["--ca", ca]));
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("not for localhost"), "{message}");
    let (code, message) = said(&list(&server, &server.url.replace("https", "http"), &[]));
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("https://"), "{message}");
    for file in ["nowhere.pem", "server.key"] {
        let path = folder.path().join(file);
        let (code, message) = said(&list(&server, &server.url, &["--ca", path.to_str().expect("text")]));
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(file), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_stands_for_itself_is_trusted_when_it_is_named() {
    let folder = Folder::new();
    let made = format!("req -x509 {NEW_KEY} -keyout self.key -out self.pem -subj /CN=self -days 1");
    let extras =
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
    openssl(folder.path(), &format!("{made} {extras}"));
    let server = serving(&folder, "self").await;
    let ca = folder.path().join("self.pem");
    let ca = ca.to_str().expect("text");
    eventually("it is served", async || list(&server, &server.url, &["--ca", ca]).status.success()).await;
    let by_name = server.url.replace("127.0.0.1", "localhost");
    assert_eq!(said(&list(&server, &by_name, &["--ca", ca])), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_expects_tls_of_a_server_without_it_is_told_so() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let (code, message) = said(&list(&server, &server.url.replace("http", "https"), &[]));
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("does not speak TLS"), "{message}");
}

#[test]
fn a_key_that_is_not_the_certificates_is_refused_at_the_start() {
    let folder = Folder::new();
    authority(folder.path(), "one");
    authority(folder.path(), "two");
    let in_folder = |file: &str| folder.path().join(file);
    for (key, words) in [("two.key", "one.pem"), ("nowhere.key", "nowhere.key"), ("one.pem", "one.pem")] {
        let output = command()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("PUNCTUAL_DATA", folder.path())
            .env("PUNCTUAL_TLS__CERTIFICATE", in_folder("one.pem"))
            .env("PUNCTUAL_TLS__KEY", in_folder(key))
            .output()
            .expect("the binary starts");
        let (code, message) = said(&output);
        assert!(code == Some(1) && message.contains(words), "{key}: {code:?} {message}");
    }
}
