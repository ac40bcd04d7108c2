//! The config file, the environment and the flags: what wins, what is printed, and how mistakes are named.

use nccl_top::cli::config::{Color, Config, Origins, SETTINGS, as_markdown, load, print, sample};
use nccl_top::tui::keys::Keymap;
use std::path::Path;
use std::time::Duration;

fn none(_: &str) -> Option<String> {
    None
}

fn file(text: &str) -> Result<(Config, Origins), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, text).unwrap();
    load(Some(&path), &none, &[]).map_err(|e| e.to_string().replace(&format!("{}/", dir.path().display()), ""))
}

#[test]
fn the_sample_is_the_defaults() {
    let sample = sample();
    assert_eq!(file(&sample).unwrap().0, Config::default());
    for setting in SETTINGS {
        let value = format!("\n{} = {}\n", setting.key, (setting.get)(&Config::default()));
        assert!(sample.contains(&value), "the sample has not {value:?}");
    }
    assert!(sample.ends_with(&format!("\n[keys]\n{}", Keymap::default().toml())));
}

#[test]
fn the_docs_show_the_table_of_settings() {
    let docs = include_str!("../../docs/SETTINGS.md");
    assert!(docs.contains(&as_markdown()), "the table in docs/SETTINGS.md should be:\n{}", as_markdown());
}

#[test]
fn a_setting_that_has_another_name_today_is_known_by_the_former_one() {
    let alert = |env: &dyn Fn(&str) -> Option<String>| {
        (SETTINGS.iter().find(|s| s.key == "alert.terminal").unwrap().get)(&load(None, env, &[]).unwrap().0)
    };
    assert_eq!(
        (file("alert = \"bell\"\n").unwrap().0, alert(&none)),
        (file("[alert]\nterminal = \"bell\"\n").unwrap().0, "\"off\"".into())
    );
    for name in ["NCCL_TOP_ALERT", "NCCL_TOP_ALERT_TERMINAL"] {
        assert_eq!(alert(&|asked| (asked == name).then(|| "note".into())), "\"note\"", "{name}");
    }
}

#[test]
fn what_is_printed_is_a_config_file_with_the_same_values() {
    let (config, origins) = file("interval = \"500ms\"\nutc = true\ncolor = \"never\"\nlogs = [\"/a\", \"/b\"]\n").unwrap();
    assert!(origins["utc"].ends_with("/c.toml:2"), "{origins:?}");
    assert_eq!(file(&print(&config, &origins)).unwrap().0, config);

    let other = "interval = \"1500ms\"\nutc = true\nlogs = [\"/a b:c\", \"/\\\"\\\\\"]\ntheme = \"light\"\ncolor = \"always\"\n\
        drawing = \"ascii\"\ngraphs = \"block\"\nlayout = \"mine\"\nmouse = false\nalert.terminal = \"note\"\nalert.command = [\"a b\", \"\\\"\"]\nalert.url = \"https://x/y\"\nalert.every = \"5m\"\nhistory = \"90s\"\naxis = \"5m\"\n\
        [layouts]\nmine = [[\"timeline\"], [\"gpus:2\", \"log\"]]\n[keys]\nquit = [\"v\"]\nzoom = []\nopen = \"\\\"\"\nback = [\"\\\\\", \"ctrl-alt-é\"]\n";
    let (config, origins) = file(other).unwrap();
    for setting in SETTINGS {
        assert_ne!((setting.get)(&config), (setting.get)(&Config::default()), "{} is not told apart", setting.key);
        assert!(origins[setting.key].contains("c.toml:"));
    }
    assert_eq!(file(&print(&config, &origins)).unwrap().0, config);
}

#[test]
fn flags_win_over_environment_over_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, "interval = \"3s\"\nutc = true\ncolor = \"never\"\n").unwrap();
    let env = |name: &str| match name {
        "NCCL_TOP_INTERVAL" => Some("4s".to_owned()),
        "NCCL_TOP_COLOR" => Some("always".to_owned()),
        _ => None,
    };
    let (config, origins) = load(Some(&path), &env, &[("interval", "5s".into())]).unwrap();
    assert_eq!((config.interval, config.utc, config.color), (Duration::from_secs(5), true, Color::Always));
    assert_eq!([&origins["interval"], &origins["color"], &origins["logs"]], ["--interval", "NCCL_TOP_COLOR", "default"]);
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, says) in [
        ("utc = false\ninterval = \"2\"\n", "c.toml:2: interval: found \"2\", expected a duration such as \"500ms\", \"2s\" or \"10m\""),
        ("interval = \"1ms\"\n", "c.toml:1: interval: found \"1ms\", expected a duration from \"200ms\" to \"60s\""),
        ("intervall = \"2s\"\n", "c.toml:1: unknown setting \"intervall\", expected one of interval, utc, logs, theme"),
        ("\n\ncolor = \"blue\"\n", "c.toml:3: color: found \"blue\", expected one of \"auto\", \"always\", \"never\""),
        ("logs = [1]\n", "c.toml:1: logs: expected a list of strings"),
        ("utc = maybe\n", "c.toml:1: "),
        ("utc = true\nlayout = \"mine\"\n", "c.toml:2: layout: found \"mine\", expected one of all, gpus, network, logs, or a name in"),
        ("[layouts]\nmine = [\"log\"]\n", "c.toml:2: layouts: mine: expected rows of panes, as mine = [[\"timeline\"]"),
        ("[layouts]\na = [[\"log\"]]\nmine = [[\"logs\"]]\n", "c.toml:3: layouts: mine: found \"logs\", expected one of training, gpus,"),
        ("[layouts]\nmine = [[\"log\"], [\"gpus\", \"log\"]]\n", "c.toml:2: layouts: mine: log stands in it twice"),
        ("[layouts]\nmine = [[\"log:0\"]]\n", "c.toml:2: layouts: mine: found \"log:0\", expected a share of the width from 1 to 100"),
        ("[layouts]\nmine = [[]]\n", "c.toml:2: layouts: mine: it has no pane"),
        ("[layouts]\nall = [[\"log\"]]\n", "c.toml:2: layouts: all: a layout of this name comes with nccl-top"),
        ("layouts = 3\n", "c.toml: layouts: "),
        ("[alert]\n\nterminal = \"siren\"\n", "c.toml:3: alert.terminal: found \"siren\", expected one of \"off\", \"bell\", \"note\""),
        ("alert.horn = true\n", "c.toml:1: unknown setting \"alert.horn\", expected one of interval"),
    ] {
        let err = file(text).unwrap_err();
        assert!(err.starts_with(says), "{err}");
    }
    assert_eq!(load(Some(Path::new("/nowhere/c.toml")), &none, &[]).unwrap_err().to_string(), "/nowhere/c.toml: no such file or directory");
}

#[test]
fn the_config_of_another_user_is_no_reason_not_to_start() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    open(dir.path(), 0o755);
    let program = dir.path().join("nccl-top");
    std::fs::copy(env!("CARGO_BIN_EXE_nccl-top"), &program).unwrap();
    let folder = dir.path().join(".config/nccl-top");
    std::fs::create_dir_all(folder.join("catalog")).unwrap();
    std::fs::write(folder.join("config.toml"), "interval = \"5s\"\n").unwrap();
    let run = || {
        let mut command = std::process::Command::new(&program);
        command.args(["config"]).env("HOME", dir.path()).env_remove("XDG_CONFIG_HOME").current_dir("/");
        if rustix::process::geteuid().is_root() {
            command.uid(65534);
        }
        command.output().unwrap()
    };
    for (path, mode) in [(folder.join("config.toml"), 0o600), (folder.join("catalog"), 0o700), (folder.clone(), 0o700)] {
        // Root may read everything: it asks as somebody else. Others shut themselves out.
        open(&path, if rustix::process::geteuid().is_root() { mode } else { 0 });
        let out = run();
        open(&path, 0o755);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(0), "{}: {said}", path.display());
        assert_eq!(said.contains("config.toml: permission denied; going on without it"), !path.ends_with("catalog"), "{said}");
    }
}

#[test]
fn init_writes_the_sample_and_never_over_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nccl-top"));
        let out = command.args(args).current_dir(dir.path()).env("HOME", dir.path()).env_remove("XDG_CONFIG_HOME").output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap())
    };
    let usual = dir.path().join(".config/nccl-top/config.toml");
    let (code, said) = run(&["config", "init"]);
    assert_eq!((code, std::fs::read_to_string(&usual).unwrap().as_str()), (Some(0), sample().as_str()), "{said}");
    assert!(said.contains(&usual.display().to_string()), "{said}");
    assert_eq!(run(&["config"]).0, Some(0));
    std::fs::write(&usual, "utc = true\n").unwrap();
    let (code, said) = run(&["config", "init"]);
    assert!(code == Some(2) && said.contains("config.toml: the file exists"), "{said}");
    assert_eq!(std::fs::read_to_string(&usual).unwrap(), "utc = true\n");
    assert_eq!(run(&["--config", "sub/other.toml", "config", "init"]).0, Some(0));
    assert!(dir.path().join("sub/other.toml").exists());
}
