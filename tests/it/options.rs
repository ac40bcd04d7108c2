//! The options screen, and the config file while the program runs: changed, saved, read again.

use crate::support::screen::Screen;
use nccl_top::cli::config::{edit, save};
use std::path::{Path, PathBuf};

/// The live screen of an empty machine, with a config file in the usual place; `None`: there is not even its directory.
fn start(dir: &Path, config: Option<&str>, more: &[&str], env: &[(&str, &str)]) -> Screen {
    let root = dir.join("root");
    std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    if let Some(text) = config {
        std::fs::create_dir_all(file(dir).parent().unwrap()).unwrap();
        std::fs::write(file(dir), text).unwrap();
    }
    let s = Screen::start(&[&["--sysroot", &root.display().to_string()], more].concat(), dir, env, 40, 120);
    s.wait_for("IDLE");
    s
}

fn file(dir: &Path) -> PathBuf {
    dir.join(".config/nccl-top/config.toml")
}

fn text(dir: &Path) -> String {
    std::fs::read_to_string(file(dir)).unwrap_or_default()
}

fn has(s: &vt100::Screen, text: &str) -> bool {
    s.contents().contains(text)
}

fn footer(s: &vt100::Screen) -> String {
    let (rows, columns) = s.size();
    s.contents_between(rows.get() - 1, 0, rows.get() - 1, columns.get())
}

fn background(s: &vt100::Screen) -> vt100::Color {
    s.cell(20, 100).unwrap().bgcolor()
}

/// The row below the selected setting, which says what it does; other rows are not as far to the right.
fn about(s: &vt100::Screen) -> Option<String> {
    let contents = s.contents();
    contents.lines().find(|l| l.starts_with("     ") && !l.trim().is_empty()).map(str::to_string)
}

/// To the setting of this name, which opens below its row. Only another setting's text is another row: a notice in the footer that goes away is none,
/// and who takes it for one presses the key once too often.
fn go_to(s: &mut Screen, key: &str, says: &str) {
    s.keys("g");
    s.wait_until("the first row", |s| {
        let contents = s.contents();
        let line = |of: &str| contents.lines().position(|l| l.contains(of));
        let (Some(title), Some(about)) = (line("Options: "), about(s).and_then(|text| line(&text))) else { return false };
        about == title + 2
    });
    for _ in 0..40 {
        if s.look(|s| has(s, &format!("\n     {says}"))) {
            return;
        }
        let before = s.look(about);
        s.keys("j");
        s.wait_until("another row", |s| about(s) != before);
    }
    panic!("no setting {key}:\n{}", s.text());
}

fn end(mut s: Screen) {
    s.keys("\x03");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();
}

#[test]
fn settings_change_at_once_and_are_saved_among_what_the_user_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let mine = "# mine\nutc = false # not yet\n\ntheme = \"colorblind\"   # the default\n\n[keys]\n# as in vi\nquit = [\"q\"]\n";
    let mut s = start(dir.path(), Some(mine), &[], &[]);
    let before = s.look(background);
    s.press(":", "the options", |s| has(s, "Options: ← → change") && has(s, "nothing changed"));
    go_to(&mut s, "theme", "colorblind · dark · light");
    s.press("\x1b[C", "another theme", |s| has(s, "‹ dark ›") && has(s, "* theme"));
    s.press("\x1b[C", "and another", |s| has(s, "‹ light ›") && background(s) != before);
    s.press("\x1b[D", "the one before", |s| has(s, "‹ dark ›"));
    go_to(&mut s, "axis", "The time that sparklines cover at first");
    s.press("\x1b[C", "a longer axis", |s| has(s, "‹ 5m ›") && footer(s).contains("time axis: 5 m 00 s"));
    go_to(&mut s, "alert.terminal", "off · bell · note");
    s.press("\r", "the next value", |s| has(s, "‹ bell ›"));
    assert_eq!(text(dir.path()), mine, "nothing is written before it is saved");
    s.press("s", "where it was written", |s| footer(s).contains("saved to ") && footer(s).contains(".config/nccl-top/config.toml"));
    let saved = "# mine\nutc = false # not yet\n\ntheme = \"dark\"   # the default\naxis = \"5m\"\nalert.terminal = \"bell\"\n\n\
                 [keys]\n# as in vi\nquit = [\"q\"]\n";
    assert_eq!(text(dir.path()), saved);
    s.press("s", "that there is nothing to save", |s| footer(s).contains("nothing was changed"));
    s.press("\x1b", "the panes", |s| !has(s, "Options:"));
    end(s);
}

#[test]
fn a_key_changes_the_same_setting_and_a_value_is_typed() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = start(dir.path(), None, &["--theme", "nord"], &[]);
    s.press("t", "the next theme", |s| footer(s).contains("theme gruvbox"));
    s.press("m", "no mouse", |s| footer(s).contains("mouse off"));
    s.press("\x1bOQ", "the options", |s| has(s, "* theme") && has(s, "* mouse") && has(s, "write 2 changed to"));
    go_to(&mut s, "logs", "Files, globs or directories");
    s.press("\x1b[C", "how", |s| footer(s).contains("enter lets you type it"));
    s.press("\r", "a prompt", |s| footer(s).starts_with(" logs: "));
    s.press("/a/b.log\r", "typed", |s| has(s, "/a/b.log") && footer(s).contains("at the next start"));
    go_to(&mut s, "alert.command", "A program that runs at a new critical finding");
    s.press("\r", "a prompt", |s| footer(s).starts_with(" alert.command: "));
    s.press("[\"a\", \"b c\"]\r", "typed", |s| footer(s).contains("alert.command [\"a\", \"b c\"]"));
    s.press("\r", "a prompt", |s| footer(s).starts_with(" alert.command: "));
    s.press("\r", "the same words", |s| footer(s).contains("alert.command [\"a\", \"b c\"]"));
    s.press("/mouse", "searched", |s| has(s, "only mouse") && !has(s, "gruvbox"));
    s.press("\x1b", "all", |s| has(s, "gruvbox"));
    // There is no directory yet. What the command line says wins again at the next start.
    s.press("Gs", "saved", |s| footer(s).contains("saved to ") && footer(s).contains("--theme wins over it at the next start"));
    let saved = "# Settings of nccl-top; `nccl-top config` prints all of them.\nlogs = [\"/a/b.log\"]\ntheme = \"gruvbox\"\nmouse = false\nalert.command = [\"a\", \"b c\"]\n";
    assert_eq!(text(dir.path()), saved);
    // From now on it is read again when it changes.
    std::fs::write(file(dir.path()), saved.replace("false", "true")).unwrap();
    s.wait_until("what changed, and nothing else", |s| {
        footer(s).contains("mouse: in effect") && has(s, "‹ true ›") && has(s, "‹ gruvbox ›")
    });
    end(s);
}

#[test]
fn a_config_file_that_is_saved_is_read_again_and_a_broken_one_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = start(dir.path(), Some("axis = \"5m\"\n"), &[], &[]);
    let put = |text: &str| std::fs::write(file(dir.path()), text).unwrap();
    let before = s.look(background);
    put("axis = \"5m\"\ntheme = \"light\"\nhistory = \"1m\"\nlogs = [\"/nowhere\"]\n[rules.nic-down]\nmute = true\n");
    s.wait_until("what holds now and what later", |s| {
        footer(s).contains("theme, history: in effect; logs, rules: takes effect at the next start") && background(s) != before
    });
    // As editors do it.
    let beside = dir.path().join(".config/nccl-top/.config.toml.swp");
    std::fs::write(&beside, "axis = \"5m\"\n[keys]\nhelp = \"v\"\n").unwrap();
    std::fs::rename(&beside, file(dir.path())).unwrap();
    s.wait_until("as before, with another key", |s| background(s) == before && footer(s).contains("keys"));
    s.press("v", "help", |s| has(s, " Help"));
    s.press("\x1b", "no help", |s| !has(s, " Help") && footer(s).contains("v help"));
    put("axis = \"5m\"\ntheme = \"neon\"\n");
    s.wait_until("file, line and remedy", |s| {
        has(s, "The config file cannot be used")
            && has(s, "config.toml:2: theme: no theme \"neon\", expected one of")
            && has(s, "Mend the file")
    });
    s.press("9", "no popup", |s| !has(s, "cannot be used"));
    s.press("9v", "the old settings", |s| has(s, " Help"));
    s.press("\x1b", "no help", |s| !has(s, " Help"));
    s.press(":", "why, where settings are", |s| has(s, "no theme \"neon\""));
    put("axis = \"2m\"\n");
    s.wait_until("mended", |s| has(s, "‹ 2m ›") && !has(s, "neon"));
    // Where a link leads now.
    let elsewhere = dir.path().join("dotfiles.toml");
    std::fs::write(&elsewhere, "axis = \"10m\"\n").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &beside).unwrap();
    std::fs::rename(&beside, file(dir.path())).unwrap();
    s.wait_until("through the link", |s| has(s, "‹ 10m ›"));
    std::fs::write(&elsewhere, "axis = \"15m\"\n").unwrap();
    s.wait_until("where the link leads", |s| has(s, "‹ 15m ›"));
    std::fs::remove_file(file(dir.path())).unwrap();
    s.wait_until("the defaults", |s| has(s, "‹ 2m ›"));
    put("axis = \"5m\"\n");
    s.wait_until("a file again", |s| has(s, "‹ 5m ›"));
    // Who writes in place empties the file first; the writer may be held up before the text comes.
    let mut writer = std::fs::File::create(file(dir.path())).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(400));
    std::io::Write::write_all(&mut writer, b"axis = \"5m\"\nhistory = \"1m\"\n").unwrap();
    drop(writer);
    s.wait_until("what differs", |s| footer(s).contains("read again; history: in effect"));
    put("");
    s.wait_until("the defaults again", |s| has(s, "‹ 2m ›"));
    end(s);
}

#[test]
fn what_cannot_be_written_is_shown_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = start(dir.path(), None, &[], &[("XDG_CONFIG_HOME", "/proc/none")]);
    s.press("t", "the next theme", |s| footer(s).contains("theme dark"));
    s.press(":", "the options", |s| has(s, "write 1 changed"));
    s.press("s", "why not", |s| has(s, "The settings were not saved") && has(s, "/proc/none/nccl-top: "));
    s.press("j", "still changed", |s| has(s, "* theme") && has(s, "write 1 changed") && !has(s, "were not saved"));
    end(s);
}

#[test]
fn saving_keeps_what_it_does_not_change() {
    let all = "a = 1 # one\n\n# of two\nalert = \"bell\" # ring\nlogs = [\n  \"x\", # first\n]\n\n[rules.nic-down]\nmute = true\n";
    assert_eq!(
        edit(all, &[("alert.terminal", "\"note\"".into()), ("theme", "\"nord\"".into())]).unwrap(),
        all.replace("\"bell\"", "\"note\"").replace("]\n\n[rules", "]\ntheme = \"nord\"\n\n[rules")
    );
    // Settings in a table, as a table, and as keys with a dot.
    for (before, after) in [
        ("[alert]\n# b\nterminal = \"off\" # c\n", "[alert]\n# b\nterminal = \"note\" # c\n"),
        ("alert.terminal = \"off\"\n[keys]\n", "alert.terminal = \"note\"\n[keys]\n"),
        ("alert = { terminal = \"off\" }\n", "alert = { terminal = \"note\" }\n"),
        ("# no settings\n", "# no settings\nalert.terminal = \"note\"\n"),
    ] {
        let edited = edit(before, &[("alert.terminal", "\"note\"".into())]).unwrap();
        assert_eq!(edited, after);
    }
    let why = edit("theme = \"dark\"\nutc = perhaps\n", &[("theme", "\"nord\"".into())]).unwrap_err();
    assert!(why.starts_with("line 2: ") && why.ends_with("mend it first, nothing was written"), "{why}");
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let theme = [("theme", "\"nord\"".to_owned())];
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    // The mode stays, and a link of one's own still leads to the file.
    std::fs::write(dir.path().join("real.toml"), "theme = \"dark\"\n").unwrap();
    std::fs::set_permissions(dir.path().join("real.toml"), PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("real.toml", dir.path().join("link.toml")).unwrap();
    let real = dir.path().canonicalize().unwrap().join("real.toml");
    assert_eq!(save(&dir.path().join("link.toml"), &theme), Ok(real.clone()));
    assert_eq!(read("real.toml"), "theme = \"nord\"\n");
    assert!(dir.path().join("link.toml").is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    // A link that leads nowhere, a directory, a file above it, a file that is broken.
    std::os::unix::fs::symlink("nowhere", dir.path().join("lost.toml")).unwrap();
    std::fs::create_dir(dir.path().join("dir.toml")).unwrap();
    std::fs::write(dir.path().join("broken.toml"), "theme = \n").unwrap();
    for (name, says) in
        [("lost.toml", "no such file"), ("dir.toml", "directory"), ("real.toml/config.toml", "file exists"), ("broken.toml", "line 1: ")]
    {
        let why = save(&dir.path().join(name), &theme).unwrap_err();
        assert!(why.contains(says) && why.contains(name.split('/').next().unwrap()), "{name}: {why}");
    }
    assert_eq!(read("broken.toml"), "theme = \n");
    if !rustix::process::geteuid().is_root() {
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o400)).unwrap();
        assert!(save(&real, &[("theme", "\"mono\"".into())]).unwrap_err().contains("permission denied"));
        assert_eq!(read("real.toml"), "theme = \"nord\"\n");
    }
    let names = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.starts_with('.')), "nothing is left beside it");
}
