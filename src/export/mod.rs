//! What this node knows, for Prometheus: which rank of which job is to blame, by which rule, since when, and what ranks spend their time with.
//!
//! `metrics.rs` is the table: adding a metric is a row in it and its function. `text.rs` writes it in both formats, `server.rs` serves
//! what was written last, so that scrapes cost next to nothing, and `textfile.rs` puts it where node_exporter reads it.

pub mod history;
pub mod jobs;
pub mod metrics;
pub mod own;
pub mod server;
pub mod text;
pub mod textfile;
pub mod web_config;

use crate::base::time::Stamp;
use crate::diagnosis::session::Session;
use anyhow::Result;
use hyper::body::Bytes;
use own::Own;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use text::Format;

/// The port of `nccl-top export`: none of those that Prometheus's list of ports or an exporter of GPUs or NCCL has.
pub const PORT: u16 = 10828;

/// What users choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// `None`: nothing is served.
    pub listen: Option<String>,
    pub web_config: Option<PathBuf>,
    pub textfile: Option<PathBuf>,
    /// Takes what goes wrong later: a screen must not be written over.
    pub tell: fn(&str),
}

/// The last page, in both formats. A scrape copies a pointer.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub open_metrics: Bytes,
    pub classic: Bytes,
}

/// Where the loop leaves a page and the server finds it.
#[derive(Clone, Default)]
pub struct Shelf(Arc<Mutex<Page>>);

impl Shelf {
    pub fn put(&self, page: Page) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }

    pub fn page(&self) -> Page {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A running exporter, which is given the session once a second.
pub struct Exporter {
    shelf: Shelf,
    own: Own,
    textfile: Option<textfile::Writer>,
}

impl Exporter {
    /// Begins to serve, and to write the file, as the options say.
    ///
    /// # Errors
    /// If the address cannot be listened at, or one of the files cannot be used, in words for the user.
    pub fn start(options: &Options, own: Own) -> Result<Exporter> {
        let shelf = Shelf::default();
        let textfile = options.textfile.as_deref().map(|dir| textfile::Writer::new(dir, options.tell)).transpose()?;
        if let Some(listen) = &options.listen {
            server::start(listen, options.web_config.as_deref(), shelf.clone(), options.tell)?;
        }
        Ok(Exporter { shelf, own, textfile })
    }

    /// A second has passed: what the session knows now is what is shown until the next.
    pub fn publish(&mut self, session: &Session) {
        self.publish_as_of(session, session.model.now);
    }

    /// The same of a session whose present is another: what began a minute ago there began a minute before `now`.
    pub fn publish_as_of(&mut self, session: &Session, now: Stamp) {
        self.own.look(session.model.now);
        let mut families = metrics::read(session, &self.own);
        metrics::move_stamps(&mut families, now.secs_since_epoch() - session.model.now.secs_since_epoch());
        let written = |format| Bytes::from(text::write(&families, format));
        let page = Page { open_metrics: written(Format::OpenMetrics), classic: written(Format::Classic) };
        if let Some(textfile) = &mut self.textfile {
            textfile.offer(session.model.now, &page.classic);
        }
        self.shelf.put(page);
    }
}
