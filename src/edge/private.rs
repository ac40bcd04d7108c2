//! Files that this program writes: for this user only, and nowhere that somebody else has prepared.

use crate::base::words::io_words;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Creates a file that does not exist (0600).
///
/// # Errors
/// If it exists, as a link, too; if a link of another user leads there; or if it cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    refuse_links(path)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|err| match err.kind() {
        ErrorKind::AlreadyExists => io::Error::other("the file exists; name another, or remove it first"),
        _ => err,
    })
}

/// Opens a file of this user to add to it (0600), and creates it where there is none.
///
/// # Errors
/// If it is a link, no regular file, or somebody else's; if a link of another user leads there; or if it cannot be opened.
pub fn append(path: &Path) -> io::Result<File> {
    refuse_links(path)?;
    // A FIFO that nobody reads would hold up the program.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|err| match err.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link; name the file that it leads to"),
        Some(libc::ENXIO) => io::Error::other("it is no regular file; name another"),
        _ => err,
    })?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file; name another"));
    }
    if !is_own(meta.uid()) {
        return Err(belongs_to(meta.uid(), "file"));
    }
    if meta.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Puts a file of this user, or a new one, in place of what stands at `path`: whole, or not at all. A file keeps its mode; a new one is for
/// this user only.
///
/// # Errors
/// If it is somebody else's, no regular file, or may not be written; if a link of another user leads there; or if its directory takes no file.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    refuse_links(path)?;
    let before = match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("it is no regular file; name another")),
        Ok(meta) if !is_own(meta.uid()) => return Err(belongs_to(meta.uid(), "file")),
        Ok(meta) => Some(meta),
        Err(_) => None,
    };
    // Who made it read-only does not want it replaced, though the directory would allow that.
    if before.is_some() {
        OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = create(&beside)?;
    let written = (|| {
        if let Some(meta) = &before {
            file.set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A directory of this user that nobody else may look into (0700). What is made in it is made there even if somebody renames it meanwhile.
pub struct Dir(File);

impl Dir {
    /// Makes the directory, or takes one that is empty.
    ///
    /// # Errors
    /// Why it is not one to write into, and what to do.
    pub fn prepare(path: &Path) -> Result<Dir, String> {
        let words = |err: io::Error| io_words(&err);
        refuse_links(path).map_err(words)?;
        let mut plain = path.to_path_buf();
        // `link/` would be followed.
        plain = plain.components().collect();
        let above = match plain.parent() {
            Some(above) if above != Path::new("") => above,
            _ => Path::new("."),
        };
        match fs::metadata(above) {
            Err(err) if err.kind() == ErrorKind::NotFound => return Err("the directory above it does not exist".into()),
            Err(err) => return Err(words(err)),
            Ok(meta) if meta.mode() & 0o1002 == 0o002 => {
                let above = above.display();
                return Err(format!(
                    "everybody may rename and remove what is in {above} (no sticky bit); name a directory elsewhere, or `chmod +t {above}`"
                ));
            }
            Ok(_) => {}
        }
        match DirBuilder::new().mode(0o700).create(&plain) {
            Err(err) if err.kind() != ErrorKind::AlreadyExists => return Err(words(err)),
            _ => {}
        }
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let dir = OpenOptions::new().read(true).custom_flags(flags).open(&plain).map_err(|err| match err.raw_os_error() {
            Some(libc::ELOOP) => "it is a symbolic link; name the directory that it leads to".into(),
            // Linux has this word for a link, too, where a directory is wanted.
            Some(libc::ENOTDIR) if plain.is_symlink() => "it is a symbolic link; name the directory that it leads to".into(),
            Some(libc::ENOTDIR) => "it exists and is no directory".into(),
            _ => words(err),
        })?;
        let meta = dir.metadata().map_err(words)?;
        if !is_own(meta.uid()) {
            return Err(belongs_to(meta.uid(), "directory").to_string());
        }
        if fs::read_dir(&plain).map_err(words)?.next().is_some() {
            return Err("it exists and is not empty".into());
        }
        dir.set_permissions(fs::Permissions::from_mode(0o700)).map_err(words)?;
        Ok(Dir(dir))
    }

    /// Creates a file in it (0600); the name may have one directory before it, of [`Dir::make`].
    ///
    /// # Errors
    /// If it exists or cannot be created.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Makes a directory in it (0700).
    ///
    /// # Errors
    /// If it exists or cannot be made.
    pub fn make(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::RWXU)?)
    }
}

fn is_own(uid: u32) -> bool {
    uid == geteuid().as_raw()
}

fn belongs_to(uid: u32, what: &str) -> io::Error {
    io::Error::other(format!("the {what} belongs to user {uid}; name a new one, or one of your own"))
}

/// A link on the way that neither this user nor root has made may lead anywhere.
fn refuse_links(path: &Path) -> io::Result<()> {
    let mut way = PathBuf::new();
    for part in path.components() {
        way.push(part);
        let Component::Normal(_) = part else { continue };
        let Ok(meta) = fs::symlink_metadata(&way) else { return Ok(()) };
        if meta.is_symlink() && meta.uid() != 0 && !is_own(meta.uid()) {
            let why = format!("{} is a symbolic link of user {}; name the place that it leads to", way.display(), meta.uid());
            return Err(io::Error::other(why));
        }
    }
    Ok(())
}
