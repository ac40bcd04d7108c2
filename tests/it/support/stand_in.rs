//! A server of HTTP in the place of Prometheus, which answers what a test wants: from a recording, or badly.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

pub struct Request {
    pub path: String,
    pub headers: String,
    pub body: String,
}

/// The raw bytes of an answer; `None`: none ever comes.
pub type Reply = Option<Vec<u8>>;

/// Serves for the life of the test, at the URL that is returned.
pub fn serve(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || one(&stream, &*answer));
        }
    });
    url
}

fn one(stream: &TcpStream, answer: &dyn Fn(&Request) -> Reply) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut headers) = (String::new(), String::new());
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
            length = n.trim().parse().unwrap();
        }
        headers.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let request = Request { path: first.split(' ').nth(1).unwrap_or("").to_owned(), headers, body: String::from_utf8(body).unwrap() };
    match answer(&request) {
        Some(bytes) => drop((&mut &*stream).write_all(&bytes)),
        // Until the other end gives up.
        None => drop(reader.read(&mut [0])),
    }
}

pub fn reply(status: &str, body: &str) -> Reply {
    Some(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()).into_bytes())
}

/// Series of an answer at one moment, as JSON.
pub fn success(result: &str) -> Reply {
    reply("200 OK", &format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#))
}

/// Answers of a real Prometheus, by the whole question.
pub fn recorded() -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(recording()).unwrap()).read_to_string(&mut text).unwrap();
    let answers: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
    serve(move |request| match answers.get(&key(request)) {
        Some(answer) => reply("200 OK", answer),
        None => reply("404 Not Found", &format!("not recorded: {}; see `record_answers` in tests/it/fleet_screens.rs", key(request))),
    })
}

/// The same answers whenever they are asked for; none while `fails` says so.
pub fn recorded_always(fails: impl Fn() -> bool + Send + Sync + 'static) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(recording()).unwrap()).read_to_string(&mut text).unwrap();
    let moment = regex::Regex::new("(time|start|end)=[^&]*").unwrap();
    let answers: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
    let answers: BTreeMap<String, String> =
        answers.into_iter().map(|(key, answer)| (moment.replace_all(&key, "").into_owned(), answer)).collect();
    serve(move |request| match answers.get(&*moment.replace_all(&key(request), "")) {
        _ if fails() => reply("503 Service Unavailable", "<html>busy"),
        Some(answer) => reply("200 OK", answer),
        None => success(""),
    })
}

pub fn recording() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fleet/answers.json.gz")
}

pub fn key(request: &Request) -> String {
    format!("{} {}", request.path, request.body)
}

/// Asks a real server the same.
pub fn forward(url: &str, request: &Request) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let (path, body) = (&request.path, &request.body);
    // HTTP/1.0 has no pieces to put together.
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
