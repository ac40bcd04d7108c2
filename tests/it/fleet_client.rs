//! How `nccl-top fleet` speaks to its server, and what it makes of one that answers badly.

use crate::support::stand_in::{Request, reply, serve, success};
use nccl_top::base::time::Stamp;
use nccl_top::fleet::asking::{Asker, Focus};
use nccl_top::fleet::client::{Client, When};
use nccl_top::fleet::http_config::HttpConfig;
use nccl_top::fleet::queries::{self, Values};
use serde_json::json;
use std::process::Command;

fn client(url: &str) -> Client {
    Client::new(url, &HttpConfig::default()).unwrap()
}

fn why(url: &str) -> String {
    client(url).ask("up", When::At(Stamp(0))).unwrap_err()
}

#[test]
fn each_bad_answer_has_its_words() {
    let html = "<!DOCTYPE html><html><title>Sign in</title>";
    let half = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a"#;
    let cut = format!("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n{half}").into_bytes();
    let cases: Vec<(Option<Vec<u8>>, &str)> = vec![
        (reply("503 Service Unavailable", html), "the server answers 503 Service Unavailable: it begins with \"<!DOCTYPE html>"),
        (reply("200 OK", html), "the answer is not that of Prometheus's query API (it begins with \"<!DOCTYPE html>"),
        (reply("200 OK", half), "the answer ends in the middle of its JSON"),
        (Some(cut), "the answer breaks off after 73 bytes"),
        (reply("200 OK", ""), "the answer ends in the middle of its JSON"),
        (reply("401 Unauthorized", "no"), "--prometheus.config.file FILE gives a password or a token"),
        (reply("404 Not Found", "no"), "is the URL that of the server's root"),
        (reply("429 Too Many Requests", ""), "the server answers 429 Too Many Requests: it is empty"),
        (
            reply("422 Unprocessable Entity", r#"{"status":"error","errorType":"execution","error":"too many \u001b[31msamples"}"#),
            "too many samples",
        ),
        (Some(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()), ""),
    ];
    for (bytes, words) in cases {
        let url = serve(move |_| bytes.clone());
        let found = why(&url);
        assert!(found.contains(words) && !found.is_empty() && !found.contains('\x1b'), "{words}: {found}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(why(&format!("http://{nobody}")).starts_with("no connection: connection refused"), "{}", why(&format!("http://{nobody}")));
}

#[test]
fn a_server_that_never_answers_is_not_waited_for() {
    let url = serve(|_| None);
    assert_eq!(why(&url), "no answer within 5 s");
}

#[test]
fn an_answer_without_an_end_is_not_kept() {
    let series = r#"{"metric":{"instance":"n"},"value":[0,"1"]},"#.repeat(1000);
    let url = serve(move |_| success(&series.repeat(500)));
    assert!(why(&url).starts_with("the answer is larger than 16 MiB"), "{}", why(&url));
}

#[test]
fn hostile_labels_stay_text() {
    let long = "x".repeat(10_000);
    let result = format!(
        r#"{{"metric":{{"instance":"a\"b\n\u001b[2J","job_id":"\u202e}}"}},"value":[1,"1"]}},{{"metric":{{"instance":"{long}"}},"value":[1,"1"]}},{{"metric":{{}},"value":[1,"NaN"]}}"#
    );
    let url = serve(move |_| success(&result));
    let answer = client(&url).ask("x", When::At(Stamp(0))).unwrap();
    assert_eq!((answer.series.len(), answer.left_out), (2, 1));
    assert_eq!(answer.series[0].label("instance"), "a\"b\n\u{1b}[2J");
    assert_eq!(answer.series[1].value(), None, "NaN is no value");
    let values = Values { job: "a\"b\\c\n$M", matchers: r#"cluster="east""#, among: &["10.0.0.1".into()], ..Values::default() };
    let asked = queries::RANKS.promql(&values);
    assert_eq!(asked, r#"count by (instance, rank) (nccltop_rank_info{cluster="east", job_id="a\"b\\c\n$M"})"#);
    assert_eq!(queries::ADDRESSES.promql(&values), r#"nccltop_node_address_info{cluster="east", address=~"10\\.0\\.0\\.1"}"#);
}

#[test]
fn questions_go_as_forms_with_what_the_file_says_of_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        HttpConfig::load(&dir.path().join(name))
    };
    std::fs::write(dir.path().join("token"), "s3cr3t\n").unwrap();
    let basic = write("basic.yml", "basic_auth:\n  username: ada\n  password: lovelace\n").unwrap();
    let bearer = write("bearer.yml", "authorization:\n  credentials_file: token\ntls_config:\n  insecure_skip_verify: true\n").unwrap();
    for (config, header) in [(basic, "Basic YWRhOmxvdmVsYWNl"), (bearer, "Bearer s3cr3t")] {
        let url = serve(move |request: &Request| {
            let is_right = request.path == "/sub/api/v1/query"
                && request.headers.contains(&format!("{header}\r\n"))
                && request.body == "query=up%7Ba%3D%22b%22%7D&timeout=5s&time=12.500";
            if is_right { success("") } else { reply("400 Bad Request", &request.body) }
        });
        let client = Client::new(&format!("{url}/sub/"), &config).unwrap();
        client.ask(r#"up{a="b"}"#, When::At(Stamp(12_500_000_000))).unwrap();
    }
    for (text, why) in [
        ("basic_auth: {username: a}\nauthorization: {credentials: b}\n", "at most one"),
        ("oauth2: {}\n", "oauth2"),
        ("tls_config: {cert_file: a}\n", "without key_file"),
        ("authorization: {type: Basic, credentials: b}\n", "basic_auth in its place"),
        ("basic_auth: [", "wrong.yml: "),
    ] {
        let found = write("wrong.yml", text).err().unwrap();
        assert!(found.contains(why) && found.contains("wrong.yml"), "{found}");
    }
    for url in ["prometheus:9090", "ftp://x", "http://ada:pw@x:9090", "http://"] {
        assert!(Client::new(url, &HttpConfig::default()).is_err_and(|why| !why.contains("pw")), "{url}");
    }
}

#[test]
fn a_wrong_certificate_is_refused() {
    // Not TLS at all is refused, too; a file without a certificate names itself.
    let url = serve(|_| success("")).replace("http://", "https://");
    assert!(!why(&url).is_empty());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.pem"), "nothing").unwrap();
    std::fs::write(dir.path().join("c.yml"), "tls_config: {ca_file: ca.pem}\n").unwrap();
    let config = HttpConfig::load(&dir.path().join("c.yml")).unwrap();
    let found = Client::new(&url, &config).err().unwrap();
    assert!(found.contains("ca.pem: neither a certificate nor a key"), "{found}");
}

#[test]
fn what_fails_in_part_is_shown_in_part() {
    let url = serve(|request: &Request| {
        let has = |word: &str| request.body.contains(word);
        match () {
            () if has("nccltop_build_info") => success(r#"{"metric":{"instance":"n1","job":"nccl-top"},"value":[1,"1"]}"#),
            () if has("source_up") => reply("503 Service Unavailable", "busy"),
            () if has("throughput") => {
                reply("200 OK", r#"{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["store \u001b[31mgone"]}"#)
            }
            () => success(""),
        }
    });
    let frame = Asker::new(client(&url), String::new()).frame(Stamp(0), &Focus::Overview).unwrap();
    assert_eq!(frame.fleet.nodes.len(), 1);
    let remarks = frame.fleet.remarks.join("\n");
    assert!(remarks.contains("blind: the server answers 503") && remarks.contains("the server warns: store gone"), "{remarks}");
}

#[test]
fn a_server_that_cannot_be_asked_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let url = serve(|_| reply("503 Service Unavailable", "starting"));
    let fleet =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_nccl-top")).arg("fleet").args(args).env("HOME", dir.path()).output().unwrap();
    for (args, words) in [
        (vec!["--json", "--prometheus", url.as_str()], "503 Service Unavailable"),
        (vec!["--json", "--prometheus", "nonsense"], "expected a URL"),
        (vec!["--json", "--prometheus", url.as_str(), "--at", "soon"], "expected a time such as"),
        (vec!["--json", "--prometheus", url.as_str(), "--prometheus.config.file", "/nowhere.yml"], "/nowhere.yml"),
        (vec!["--json"], "--prometheus"),
        (vec!["--prometheus", url.as_str()], "fleet --json"),
    ] {
        let out = fleet(&args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains(words) && out.stdout.is_empty(), "{args:?}: {said}");
    }
    let empty = serve(|_| success(""));
    let out = fleet(&["--json", "--prometheus", &empty]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("does it scrape `nccl-top export`?"));
    assert_eq!(out.status.code(), Some(2));
}

/// `promtool` of Debian 12 is that of 2.42, the oldest server that is promised to understand the questions.
#[test]
fn the_oldest_promtool_reads_every_question() {
    if !crate::support::prometheus::is_installed() {
        return;
    }
    let values = Values {
        matchers: r#"cluster="east",pool=~"a.*""#,
        window_s: 60,
        still_s: 45,
        job: "a \"job\" \\ of\nours",
        node: "node-1",
        among: &["10.0.0.1".into(), "a$b".into()],
    };
    let single = [
        &queries::WAITING,
        &queries::WAITING_BEFORE,
        &queries::RANKS,
        &queries::WAITING_SHARE,
        &queries::WAITING_EARLIER,
        &queries::ADDRESSES,
        &queries::FINDINGS_OVER_TIME,
        &queries::WAITING_OVER_TIME,
    ];
    let instant =
        queries::OVERVIEW.iter().chain(queries::NODE).chain(queries::JOB.iter().copied()).chain(single).map(|q| q.promql(&values));
    // A rule may not be a range of samples.
    let ranges = [&queries::REACHED, &queries::SCRAPES].map(|query| format!("count_over_time({})", query.promql(&values)));
    let rules: Vec<_> = instant.chain(ranges).enumerate().map(|(no, expr)| json!({ "record": format!("q{no}"), "expr": expr })).collect();
    assert!(rules.len() > 30, "{}", rules.len());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.yml");
    std::fs::write(&file, json!({ "groups": [{ "name": "questions", "rules": rules }] }).to_string()).unwrap();
    let said = Command::new("promtool").args(["check", "rules"]).arg(&file).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
