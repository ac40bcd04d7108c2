//! The file that says how to speak to the server: that of `promtool --http.config.file`, as far as it is about TLS and who asks.
//! The form: <https://github.com/prometheus/common/blob/main/config/http_config.go>.

use crate::base::file::read_text;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const MOST_BYTES: u64 = 64 << 10;

/// What of the file is used, with paths as they can be opened.
#[derive(Clone, Default, PartialEq)]
pub struct HttpConfig {
    basic_auth: Option<BasicAuth>,
    bearer: Option<Authorization>,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub insecure_skip_verify: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    basic_auth: Option<BasicAuth>,
    authorization: Option<Authorization>,
    tls_config: Tls,
    // What every client of Prometheus has and this one does anyway.
    #[serde(rename = "follow_redirects")]
    _follow_redirects: Option<bool>,
    #[serde(rename = "enable_http2")]
    _enable_http2: Option<bool>,
}

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BasicAuth {
    username: String,
    password: Option<String>,
    password_file: Option<PathBuf>,
}

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Authorization {
    #[serde(rename = "type")]
    kind: Option<String>,
    credentials: Option<String>,
    credentials_file: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tls {
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    insecure_skip_verify: bool,
}

impl HttpConfig {
    /// # Errors
    /// Names the file, the place, and what is expected.
    pub fn load(path: &Path) -> Result<HttpConfig, String> {
        let named = |why: String| format!("{}: {why}", path.display());
        let text = read_text(path, MOST_BYTES).map_err(named)?;
        let file: File = if text.trim().is_empty() {
            File::default()
        } else {
            serde_saphyr::from_str(&text).map_err(|err| named(crate::fleet::answer::words(&err.without_snippet().to_string())))?
        };
        // Paths in the file start where the file is.
        let beside = |other: Option<PathBuf>| other.map(|other| path.parent().unwrap_or(Path::new("")).join(other));
        let tls = file.tls_config;
        let config = HttpConfig {
            basic_auth: file.basic_auth.map(|auth| BasicAuth { password_file: beside(auth.password_file), ..auth }),
            bearer: file.authorization.map(|auth| Authorization { credentials_file: beside(auth.credentials_file), ..auth }),
            ca_file: beside(tls.ca_file),
            cert_file: beside(tls.cert_file),
            key_file: beside(tls.key_file),
            insecure_skip_verify: tls.insecure_skip_verify,
        };
        config.check().map_err(named)?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.basic_auth.is_some() && self.bearer.is_some() {
            return Err("found basic_auth and authorization, expected at most one of them".into());
        }
        if self.basic_auth.as_ref().is_some_and(|auth| auth.password.is_some() && auth.password_file.is_some()) {
            return Err("basic_auth: found password and password_file, expected at most one of them".into());
        }
        if let Some(auth) = &self.bearer {
            if auth.kind.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("basic")) {
                return Err("authorization: found the type Basic, expected basic_auth in its place".into());
            }
            if auth.credentials.is_some() == auth.credentials_file.is_some() {
                return Err("authorization: expected one of credentials and credentials_file".into());
            }
        }
        match (&self.cert_file, &self.key_file) {
            (Some(_), None) => Err("tls_config: found cert_file without key_file".into()),
            (None, Some(_)) => Err("tls_config: found key_file without cert_file".into()),
            _ => Ok(()),
        }
    }

    /// The header of each request; none where nobody has to say who asks.
    ///
    /// # Errors
    /// Names the file with the password that cannot be read.
    pub fn authorization(&self) -> Result<Option<String>, String> {
        if let Some(auth) = &self.basic_auth {
            let password = secret(auth.password.as_deref(), auth.password_file.as_deref())?;
            return Ok(Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{password}", auth.username)))));
        }
        let Some(auth) = &self.bearer else { return Ok(None) };
        let kind = auth.kind.as_deref().unwrap_or("Bearer").trim();
        Ok(Some(format!("{kind} {}", secret(auth.credentials.as_deref(), auth.credentials_file.as_deref())?)))
    }
}

/// What stands in the file itself, or in one of its own, without the white space around it.
fn secret(here: Option<&str>, file: Option<&Path>) -> Result<String, String> {
    let Some(file) = file else { return Ok(here.unwrap_or_default().to_owned()) };
    let text = read_text(file, MOST_BYTES).map_err(|why| format!("{}: {why}", file.display()))?;
    Ok(text.trim().to_owned())
}
