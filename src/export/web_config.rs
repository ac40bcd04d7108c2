//! The file of `--web.config.file`: TLS and basic authentication, in the format of Prometheus's exporter toolkit, which `promtool check
//! web-config` checks. What of it is not supported is refused and never left out without a word.

use crate::base::file::read_text;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// No such file is larger.
const MOST_BYTES: u64 = 1 << 20;

/// What the file asks for.
#[derive(Clone, Default)]
pub struct WebConfig {
    pub tls: Option<Arc<ServerConfig>>,
    /// Names, and their passwords as bcrypt has hashed them. Empty: everybody may read.
    pub users: BTreeMap<String, String>,
    /// The files that it was made of, as they were.
    files: Vec<(PathBuf, Option<Version>)>,
}

/// Changes with the content of a file.
type Version = (u64, i64, i64, u64);

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    tls_server_config: Option<Tls>,
    http_server_config: Option<Http>,
    basic_auth_users: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Tls {
    cert_file: PathBuf,
    key_file: PathBuf,
    client_auth_type: String,
    client_ca_file: PathBuf,
    min_version: String,
    max_version: String,
    cipher_suites: Vec<String>,
    curve_preferences: Vec<String>,
    prefer_server_cipher_suites: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Http {
    /// HTTP/1.1 is served in any case.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    headers: BTreeMap<String, String>,
}

impl WebConfig {
    /// Reads the file, and those that it names.
    ///
    /// # Errors
    /// In words, with the file, the place and the remedy.
    pub fn load(path: &Path) -> Result<WebConfig, String> {
        let name = path.display();
        // Before they are read: what changes meanwhile is read again.
        let mut files = vec![(path.to_path_buf(), version(path))];
        let text = read_text(path, MOST_BYTES).map_err(|why| format!("{name}: {why}"))?;
        let file: Option<File> = serde_saphyr::from_str(&text)
            .map_err(|err| format!("{name}: {}; `promtool check web-config {name}` checks it", err.without_snippet()))?;
        let file = file.unwrap_or_default();
        if file.http_server_config.is_some_and(|http| !http.headers.is_empty()) {
            return Err(format!("{name}: http_server_config.headers is not supported; remove it"));
        }
        for (user, hash) in &file.basic_auth_users {
            if hash.parse::<bcrypt::HashParts>().is_err() {
                return Err(format!(
                    "{name}: basic_auth_users: the password of {user} is no bcrypt hash; make one with `htpasswd -nBC 10 {user}`"
                ));
            }
        }
        let tls = match &file.tls_server_config {
            None => None,
            Some(tls) => {
                let dir = path.parent().unwrap_or(Path::new(""));
                let named = [&tls.cert_file, &tls.key_file, &tls.client_ca_file].map(|file| dir.join(file));
                files.extend(named.into_iter().filter(|file| file.as_path() != dir).map(|file| (file.clone(), version(&file))));
                Some(Arc::new(tls.server(dir).map_err(|why| format!("{name}: tls_server_config: {why}"))?))
            }
        };
        Ok(WebConfig { tls, users: file.basic_auth_users, files })
    }

    /// The same, of files as they are now: they were read, and are wrong.
    pub fn as_of_now(mut self) -> WebConfig {
        self.files.iter_mut().for_each(|(path, known)| *known = version(path));
        self
    }

    /// One of the files is not what it was.
    pub fn has_changed(&self) -> bool {
        self.files.iter().any(|(path, before)| version(path) != *before)
    }
}

fn version(path: &Path) -> Option<Version> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}

impl Tls {
    fn server(&self, dir: &Path) -> Result<ServerConfig, String> {
        if !self.cipher_suites.is_empty() || !self.curve_preferences.is_empty() || self.prefer_server_cipher_suites.is_some() {
            return Err("cipher_suites, curve_preferences and prefer_server_cipher_suites are not supported; remove them: only suites that are safe today are offered".into());
        }
        let chain = certificates(dir, "cert_file", &self.cert_file)?;
        let key = read(dir, "key_file", &self.key_file)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|err| format!("key_file: {}: {err}", self.key_file.display()))?;
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(&self.versions()?).map_err(|err| err.to_string())?;
        let builder = match self.verifier(dir)? {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|err| format!("cert_file and key_file: {err}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        let least = match self.min_version.as_str() {
            // Older ones are broken, and are never spoken.
            "" | "TLS10" | "TLS11" | "TLS12" => 12,
            "TLS13" => 13,
            other => return Err(format!("min_version: {other:?}; there are TLS12 and TLS13")),
        };
        let most = match self.max_version.as_str() {
            "" | "TLS13" => 13,
            "TLS12" => 12,
            other => return Err(format!("max_version: {other:?}; there are TLS12 and TLS13")),
        };
        match (least, most) {
            (12, 13) => Ok(vec![&TLS13, &TLS12]),
            (12, 12) => Ok(vec![&TLS12]),
            (13, 13) => Ok(vec![&TLS13]),
            _ => Err("min_version is above max_version".into()),
        }
    }

    fn verifier(&self, dir: &Path) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
        let has_ca = self.client_ca_file.as_os_str() != "";
        let is_required = match self.client_auth_type.as_str() {
            "" | "NoClientCert" if has_ca => {
                return Err(
                    "client_ca_file is given, and client_auth_type asks for no certificate; set it to RequireAndVerifyClientCert".into()
                );
            }
            "" | "NoClientCert" => return Ok(None),
            "RequireAndVerifyClientCert" => true,
            "VerifyClientCertIfGiven" => false,
            "RequestClientCert" | "RequireAnyClientCert" => {
                return Err(format!(
                    "client_auth_type: {} takes any certificate unseen, and is not supported; use RequireAndVerifyClientCert",
                    self.client_auth_type
                ));
            }
            other => {
                return Err(format!(
                    "client_auth_type: {other:?}; there are NoClientCert, VerifyClientCertIfGiven and RequireAndVerifyClientCert"
                ));
            }
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(dir, "client_ca_file", &self.client_ca_file)? {
            roots.add(certificate).map_err(|err| format!("client_ca_file: {err}"))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()));
        let builder = if is_required { builder } else { builder.allow_unauthenticated() };
        builder.build().map(Some).map_err(|err| format!("client_ca_file: {err}"))
    }
}

/// Paths are those of the toolkit: relative to the directory of the config file.
fn read(dir: &Path, field: &str, file: &Path) -> Result<String, String> {
    if file.as_os_str() == "" {
        return Err(format!("{field} is missing"));
    }
    read_text(&dir.join(file), MOST_BYTES).map_err(|why| format!("{field}: {}: {why}", file.display()))
}

fn certificates(dir: &Path, field: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(dir, field, file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let all = all.map_err(|err| format!("{field}: {}: {err}", file.display()))?;
    if all.is_empty() {
        return Err(format!("{field}: {}: no certificate in PEM form is in it", file.display()));
    }
    Ok(all)
}
