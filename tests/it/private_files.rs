//! Files that the program writes: for this user only, and nowhere that somebody else has prepared.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

const NOBODY: u32 = 65534;

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    let nothing = dir.join("nothing");
    fs::create_dir_all(&nothing).unwrap();
    command.args(args).args(["--sysroot", nothing.to_str().unwrap()]);
    command.current_dir(dir).env("HOME", dir).env_remove("XDG_CONFIG_HOME").output().unwrap()
}

/// Ends with exit code 2 and an error that says so much.
fn refused(dir: &Path, args: &[&str], says: &[&str]) {
    let done = run(dir, args);
    let error = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{args:?}: {error}");
    assert!(says.iter().all(|words| error.contains(words)), "{args:?}: {error}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

const SNAPSHOT: &[&str] = &["snapshot", "--wait", "100ms"];

#[test]
fn the_log_file_is_for_this_user_only_and_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let with = |name: &'static str| [SNAPSHOT, &["--log-file", name]].concat();
    assert_eq!(run(dir.path(), &with("own.log")).status.code(), Some(0));
    assert_eq!(mode(&at("own.log")), 0o600);
    fs::write(at("old.log"), "before\n").unwrap();
    set_mode(&at("old.log"), 0o644);
    assert_eq!(run(dir.path(), &with("old.log")).status.code(), Some(0));
    assert_eq!(mode(&at("old.log")), 0o600);
    assert!(fs::read_to_string(at("old.log")).unwrap().starts_with("before\n"));
    symlink(at("target"), at("link")).unwrap();
    refused(dir.path(), &with("link"), &["--log-file link", "it is a symbolic link; name the file"]);
    assert!(!at("target").exists());
    fs::create_dir(at("folder")).unwrap();
    refused(dir.path(), &with("folder"), &["--log-file folder", "directory"]);
    let made = Command::new("mkfifo").arg(at("fifo")).status();
    if made.is_ok_and(|made| made.success()) {
        refused(dir.path(), &with("fifo"), &["it is no regular file; name another"]);
    }
    if is_root() {
        fs::write(at("theirs"), "").unwrap();
        chown(at("theirs"), Some(NOBODY), None).unwrap();
        refused(dir.path(), &with("theirs"), &["the file belongs to user 65534; name a new one"]);
    }
}

#[test]
fn a_recording_is_made_anew_and_for_this_user_only() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let with = |name: &'static str| ["record", "--for", "100ms", "-o", name];
    assert_eq!(run(dir.path(), &with("tape.jsonl")).status.code(), Some(0));
    assert_eq!(mode(&at("tape.jsonl")), 0o600);
    refused(dir.path(), &with("tape.jsonl"), &["tape.jsonl", "the file exists; name another"]);
    symlink(at("target"), at("link")).unwrap();
    refused(dir.path(), &with("link"), &["the file exists; name another"]);
    assert!(!at("target").exists());
    if is_root() {
        // Somebody else's link on the way.
        fs::create_dir(at("real")).unwrap();
        symlink(at("real"), at("planted")).unwrap();
        std::os::unix::fs::lchown(at("planted"), Some(NOBODY), None).unwrap();
        refused(dir.path(), &with("planted/tape.jsonl"), &["planted is a symbolic link of user 65534; name the place"]);
        refused(dir.path(), &[SNAPSHOT, &["--log-file", "planted/log"]].concat(), &["planted is a symbolic link of user 65534"]);
        refused(dir.path(), &[SNAPSHOT, &["--bundle", "planted/out"]].concat(), &["planted is a symbolic link of user 65534"]);
        assert_eq!(fs::read_dir(at("real")).unwrap().count(), 0);
    }
}

#[test]
fn a_bundle_goes_into_a_directory_of_this_user_only() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let with = |name: &'static str| [SNAPSHOT, &["--bundle", name]].concat();
    assert_eq!(run(dir.path(), &with("new")).status.code(), Some(0));
    assert_eq!((mode(&at("new")), mode(&at("new/findings.txt")), mode(&at("new/recording.jsonl.gz"))), (0o700, 0o600, 0o600));
    refused(dir.path(), &with("new"), &["new: it exists and is not empty"]);
    fs::create_dir(at("empty")).unwrap();
    set_mode(&at("empty"), 0o755);
    assert_eq!(run(dir.path(), &with("empty/")).status.code(), Some(0));
    assert_eq!(mode(&at("empty")), 0o700);
    refused(dir.path(), &with("none/new"), &["the directory above it does not exist"]);
    fs::write(at("file"), "").unwrap();
    refused(dir.path(), &with("file"), &["it exists and is no directory"]);

    fs::create_dir(at("target")).unwrap();
    symlink(at("target"), at("link")).unwrap();
    for name in ["link", "link/"] {
        refused(dir.path(), &with(name), &["it is a symbolic link; name the directory"]);
    }
    assert_eq!(fs::read_dir(at("target")).unwrap().count(), 0);

    // Where anybody may rename it, somebody may put another in its place; with the sticky bit only its owner may.
    fs::create_dir(at("open")).unwrap();
    set_mode(&at("open"), 0o777);
    refused(dir.path(), &with("open/new"), &["everybody may rename and remove what is in", "no sticky bit", "name a directory elsewhere"]);
    assert!(!at("open/new").exists());
    set_mode(&at("open"), 0o1777);
    assert_eq!(run(dir.path(), &with("open/new")).status.code(), Some(0));

    if is_root() {
        fs::create_dir(at("theirs")).unwrap();
        chown(at("theirs"), Some(NOBODY), None).unwrap();
        refused(dir.path(), &with("theirs"), &["the directory belongs to user 65534; name a new one, or one of your own"]);
        assert_eq!(fs::read_dir(at("theirs")).unwrap().count(), 0);
    }
}
