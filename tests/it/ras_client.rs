//! The client of NCCL's RAS service: one question and its answer, whom it asks, and how often.

mod one_question {
    use nccl_top::formats::ras::{Collective, RasError, parse};
    use nccl_top::observe::SourceState;
    use nccl_top::sources::ras::question::{self, Limits, Outcome, Question};
    use nccl_top::sources::ras::{Service, diagnose};
    use nccl_top::sources::{RasAddress, Roots};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;
    const QUICK: Limits = Limits {
        connect: Duration::from_millis(500),
        line: Duration::from_millis(300),
        whole: Duration::from_millis(1500),
        reply_bytes: 1 << 20,
    };
    /// For answers that are to come, however busy the machine.
    const PATIENT: Limits =
        Limits { connect: Duration::from_secs(60), line: Duration::from_secs(60), whole: Duration::from_secs(60), reply_bytes: 1 << 20 };

    fn ask(addresses: &[SocketAddr], text_only: bool, limits: &Limits) -> Outcome {
        nccl_top::edge::run(async { Ok(question::ask(addresses, Question::Status { text_only }, limits).await) }).unwrap()
    }

    fn recorded(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ras").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let report = text.split("\n# ").next().unwrap();
        let start = report.find('{').or_else(|| report.find("NCCL version")).unwrap();
        report[start..].to_string()
    }

    /// What a fake service does with a connection.
    trait Manner: Fn(TcpStream) + Send + 'static {}
    impl<F: Fn(TcpStream) + Send + 'static> Manner for F {}

    /// Serves for as long as the test runs, one connection at a time.
    fn service(manner: impl Manner) -> [SocketAddr; 1] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(manner));
        [address]
    }

    /// Speaks the protocol as NCCL 2.28 (`knows_json`) or 2.24 does, and hands over when the report is asked for.
    fn polite(stream: TcpStream, knows_json: bool, report: impl Fn(&mut TcpStream)) {
        let mut out = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = match line.to_ascii_lowercase().as_str() {
                "client protocol 2" => "SERVER PROTOCOL 2\n",
                "timeout 3" => "OK\n",
                "set format json" if knows_json => "OK\n",
                "set format json" => "ERROR: Unknown command set format json\n",
                "verbose status" => return report(&mut out),
                _ => "ERROR: Unknown command\n",
            };
            out.write_all(answer.as_bytes()).unwrap();
        }
    }

    fn says(knows_json: bool, reply: String) -> [SocketAddr; 1] {
        service(move |stream| polite(stream, knows_json, |out| drop(out.write_all(reply.as_bytes()))))
    }

    #[test]
    fn a_new_service_answers_in_json_which_is_kept_small() {
        let original = recorded("stop-4.json");
        let outcome = ask(&says(true, original.clone()), false, &PATIENT);
        assert_eq!((outcome.error, outcome.json), (None, true));
        assert!(outcome.reply.len() * 3 < original.len() * 2, "{} of {}", outcome.reply.len(), original.len());
        assert_eq!(parse(&outcome.reply), parse(&original), "it says the same");
        assert_eq!(parse(&outcome.reply).unwrap().comms[0].missing[0].rank, 4);
    }

    #[test]
    fn an_old_service_answers_in_text() {
        for text_only in [false, true] {
            let outcome = ask(&says(false, recorded("hang-5.txt")), text_only, &PATIENT);
            assert_eq!((outcome.error, outcome.json), (None, false));
            assert_eq!(parse(&outcome.reply).unwrap().comms[0].op_counts(Collective::AllReduce)[0].ranks[0].0, 3);
        }
    }

    #[test]
    fn a_stopped_process_of_the_job_does_not_keep_the_others_from_answering() {
        let connections = std::sync::atomic::AtomicUsize::new(0);
        let held = std::sync::Mutex::new(Vec::new());
        let text = recorded("stop-4.json");
        let address = service(move |stream| match connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => held.lock().unwrap().push(stream),
            _ => polite(stream, true, |out| out.write_all(text.as_bytes()).unwrap()),
        });
        assert_eq!(ask(&address, false, &Limits { line: Duration::from_secs(3), ..PATIENT }).error, None);
    }

    #[test]
    fn a_slow_service_is_heard_out_within_the_limit() {
        let slowly = |pause: u64| {
            let text = recorded("hang-5.txt");
            service(move |stream| {
                polite(stream, false, |out| {
                    for byte in text.as_bytes() {
                        if out.write_all(&[*byte]).is_err() {
                            return;
                        }
                        std::thread::sleep(Duration::from_micros(pause));
                    }
                })
            })
        };
        assert_eq!(ask(&slowly(100), false, &PATIENT).error, None);
        let outcome = ask(&slowly(20_000), false, &QUICK);
        assert_eq!(outcome.error.as_deref(), Some("no answer in time"));
        assert!(outcome.reply.starts_with("NCCL version"), "what came is kept");
    }

    #[test]
    fn a_connection_that_breaks_leaves_a_part() {
        let whole = recorded("stop-4.json");
        let outcome = ask(&says(true, whole[..2000].to_string()), false, &PATIENT);
        assert_eq!(outcome.error.as_deref(), Some("the connection was closed in the middle of the answer"));
        assert!(matches!(parse(&outcome.reply), Err(RasError::CutOff(_))));
        let outcome = ask(&service(drop), false, &PATIENT);
        assert!(outcome.error.is_some() && outcome.reply.is_empty());
        let refused = ask(&says(true, "ERROR: no memory\n".into()), false, &PATIENT);
        assert_eq!(refused.error.as_deref(), Some("ERROR: no memory"));
    }

    #[test]
    fn something_else_at_the_port_is_not_taken_for_ras() {
        let web = |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        };
        let outcome = ask(&service(web), false, &PATIENT);
        assert_eq!(outcome.error.as_deref(), Some("is not a RAS service: it said \"HTTP/1.1 400 Bad Request\""));
    }

    #[test]
    fn endless_garbage_ends_at_the_limit() {
        let flood = |stream: &mut TcpStream| while stream.write_all(&[b'x'; 4096]).is_ok() {};
        let outcome = ask(&service(move |stream| polite(stream, false, flood)), false, &PATIENT);
        assert_eq!(outcome.error.as_deref(), Some("the answer is larger than 1048576 bytes: not read further"));
        assert_eq!(outcome.reply.len(), 64 << 10);
        let outcome = ask(&service(move |mut stream| flood(&mut stream)), false, &PATIENT);
        assert!(outcome.error.unwrap().starts_with("is not a RAS service"));
    }

    #[test]
    fn hostile_bytes_stay_text() {
        let reply = b"{\"nccl_version\":\"\x1b]0;x\x07\xff\xfe\",\"communicators\":[]}\n".to_vec();
        let outcome = ask(&service(move |stream| polite(stream, true, |out| drop(out.write_all(&reply)))), false, &PATIENT);
        assert_eq!(outcome.error, None);
        assert!(outcome.reply.contains('\u{fffd}'));
        let refusal = "ERROR: \x1b[2J\x1b]52;c;cm0gLXJm\x07 no\n".to_owned();
        let error = ask(&says(true, refusal), false, &PATIENT).error.unwrap();
        assert!(error.contains("no") && !error.contains(|c: char| c.is_control()), "{error:?}");
        let banner = |mut stream: TcpStream| drop((stream.read(&mut [0; 64]), stream.write_all(b"\x1b[31mhello\n")));
        let error = ask(&service(banner), false, &PATIENT).error.unwrap();
        assert!(error.starts_with("is not a RAS service") && !error.contains('\x1b'), "{error:?}");
    }

    /// A newer service than there is: what is known of it is read, and what is not is left.
    #[test]
    fn a_service_that_says_more_than_is_known_is_understood() {
        let mut newer: serde_json::Value = serde_json::from_str(&recorded("healthy-4.json")).unwrap();
        newer["progress"] = serde_json::json!({"state": [1, {"a": null}]});
        let comms = newer["communicators"].as_array_mut().unwrap();
        for rank in comms.iter_mut().flat_map(|comm| comm["ranks"].as_array_mut().unwrap()) {
            rank["gpu_progress"] = serde_json::json!({"work": 7});
            rank["status"]["revoked"] = false.into();
            rank["collective_counts"]["AlltoAll"] = 12.into();
            rank["collective_counts"]["SendRecv"] = serde_json::json!({"sends": 1});
        }
        let newer = newer.to_string();
        let address = service(move |stream| {
            let mut out = stream.try_clone().unwrap();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let answer = match line.as_str() {
                    "CLIENT PROTOCOL 2" => "SERVER PROTOCOL 7\n",
                    "VERBOSE STATUS" => return out.write_all(newer.as_bytes()).unwrap(),
                    _ => "OK\n",
                };
                out.write_all(answer.as_bytes()).unwrap();
            }
        });
        let outcome = ask(&address, false, &PATIENT);
        assert_eq!(outcome.error, None);
        assert_eq!(parse(&outcome.reply).unwrap().comms, parse(&recorded("healthy-4.json")).unwrap().comms);
    }

    /// Answers `diagnostics` as NCCL's `ras/client_support.cc` does: `knows` is 2.31 and newer, others go on listening.
    fn diagnoses(knows: bool, reply: &'static str) -> RasAddress {
        let address = service(move |stream| {
            let mut out = stream.try_clone().unwrap();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let answer = match line.to_ascii_lowercase().as_str() {
                    "client protocol 2" => "SERVER PROTOCOL 2\n",
                    "timeout 3" => "OK\n",
                    "diagnostics" if knows => return out.write_all(reply.as_bytes()).unwrap(),
                    _ => "ERROR: Unknown command DIAGNOSTICS\n",
                };
                out.write_all(answer.as_bytes()).unwrap();
            }
        });
        RasAddress { name: address[0].to_string(), pids: Vec::new(), apart: None }
    }

    /// The lines are those of NCCL's user guide (2.31, RAS diagnostics), put together.
    const FOUND: &str = "\
node042:12345 NCCL DIAG === RAS Diagnostics ===
node042:12345 NCCL DIAG [OK]   GPU inventory: 8x NVIDIA H100 per node consistent across 8 ranks in comm 0x1234
node042:12345 NCCL DIAG [OK]   NVLink: found 18 link(s) per device, all active across 8 ranks in comm 0x1234
node042:12345 NCCL DIAG [INFO] NCCL environment: mismatch across 8 ranks in comm 0x1234 for NCCL_DEBUG
node042:12345 NCCL DIAG [INFO] NCCL environment: NCCL_DEBUG=WARN on rank(s) {4,5,6,7}
node042:12345 NCCL DIAG RAS diagnostics completed in 12.3 ms across 8 RAS peers
";

    #[test]
    fn nccl_is_asked_for_its_own_diagnostics() {
        let asked = |address| diagnose(&Roots::live(), &[address], &PATIENT).remove(0).answer;
        let found = asked(diagnoses(true, FOUND)).unwrap();
        let lines: Vec<_> = found.lines.iter().map(|line| (line.ok, line.check.as_str())).collect();
        let (inventory, links, env) = ((true, "GPU inventory"), (true, "NVLink"), (false, "NCCL environment"));
        assert_eq!((lines, found.peers, found.took_ms), (vec![inventory, links, env, env], Some(8), Some(12.3)));
        assert_eq!(found.lines[3].text, "NCCL_DEBUG=WARN on rank(s) {4,5,6,7}");
        for (knows, reply, why) in [
            (false, "", "this NCCL has no diagnostics: they are there from NCCL 2.31 on"),
            (true, "BUSY: diagnostics already in progress\n", "RAS answered \"BUSY: diagnostics already in progress\""),
            (true, "ERROR: diagnostics failed to start (3)\n", "RAS answered \"ERROR: diagnostics failed to start (3)\""),
            (true, FOUND.split_once("node042:12345 NCCL DIAG RAS").unwrap().0, "the connection was closed in the middle of the answer"),
        ] {
            assert_eq!(asked(diagnoses(knows, reply)), Err(why.into()));
        }
    }

    /// Constructed after RFC 8446: the alert `protocol_version`, with which a server of TLS may answer what is not TLS.
    #[test]
    fn a_service_that_speaks_tls_is_no_missing_job() {
        let secretive = |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"\x15\x03\x01\x00\x02\x02\x46");
        };
        let address = service(secretive);
        let outcome = ask(&address, false, &PATIENT);
        let why = "the job's sockets are encrypted (TLS): RAS can be asked only by who has the job's key";
        assert_eq!((outcome.encrypted, outcome.error.as_deref()), (true, Some(why)));
        let mut asked = Service::new(RasAddress { name: address[0].to_string(), pids: vec![1], apart: None });
        asked.learn(&outcome);
        assert_eq!(asked.trouble(), Some(&(SourceState::Denied, format!("{}: {why}", address[0]))));
        let address = RasAddress { name: address[0].to_string(), pids: Vec::new(), apart: None };
        assert_eq!(diagnose(&Roots::live(), &[address], &PATIENT).remove(0).answer, Err(why.into()));
    }

    #[test]
    fn white_space_goes_but_not_from_strings() {
        for (report, whole, small) in [
            ("{ \"a b\" : \"c\\\" d\",\n \"e\\\\\" :[ 1 , 2\t] }\n", true, r#"{"a b":"c\" d","e\\":[1,2]}"#),
            ("{ \"a\" : \"never closed  ", false, "{\"a\":\"never closed  "),
            ("{\"nvml_dev\": 4\n  \"status\": {}}", true, "{\"nvml_dev\":4\"status\":{}}"),
        ] {
            let outcome = ask(&says(true, report.into()), false, &PATIENT);
            assert_eq!((outcome.reply.as_str(), outcome.error.is_none()), (small, whole));
        }
    }
}

mod whom_and_when {
    use nccl_top::observe::{Body, SourceState};
    use nccl_top::sources::ras::question::Outcome;
    use nccl_top::sources::ras::{self, AGAIN, MOVING, REFUSED, STILL, Service};
    use nccl_top::sources::{Hint, RasAddress, Roots, Setup, Source, SourceError};
    use std::net::{SocketAddr, TcpListener};
    use std::time::{Duration, Instant};
    fn address(name: &str, pids: &[u32]) -> RasAddress {
        RasAddress { name: name.into(), pids: pids.to_vec(), apart: None }
    }

    fn service() -> Service {
        Service::new(address("localhost:1", &[]))
    }

    fn answered(reply: &str) -> Outcome {
        Outcome {
            address: ([127, 0, 0, 1], 1).into(),
            connected: true,
            encrypted: false,
            json: reply.starts_with('{'),
            reply: reply.into(),
            error: None,
        }
    }

    #[test]
    fn a_job_that_stands_still_is_asked_more_often() {
        let mut service = service();
        let moving =
            |n| answered(&format!(r#"{{"timestamp":"{n}","AllReduce":{n},"ras":{{"collection_time_sec":0.{n},"timeouts_count":0}}}}"#));
        let still =
            |n| answered(&format!(r#"{{"timestamp":"{n}","AllReduce":5,"ras":{{"collection_time_sec":0.{n},"timeouts_count":0}}}}"#));
        assert_eq!(service.learn(&moving(1)), STILL, "one answer says nothing of movement");
        assert_eq!(service.learn(&moving(2)), MOVING);
        assert_eq!(service.learn(&still(3)), MOVING);
        assert_eq!(service.learn(&still(4)), STILL);
        let refused = Outcome { error: Some("connection refused".into()), connected: false, ..answered("") };
        assert_eq!(service.learn(&refused), REFUSED);
        assert_eq!(service.trouble().map(|t| t.0), Some(SourceState::Absent));
    }

    fn job(pid: u32, count: u32) -> Outcome {
        answered(&format!(r#"{{"timestamp":"x","communicators":[{{"ranks":[{{"pid":{pid},"AllReduce":{count}}}]}}]}}"#))
    }

    #[test]
    fn of_two_jobs_at_one_address_both_are_asked_and_compared_with_themselves() {
        let mut service = Service::new(address("localhost:1", &[10, 20]));
        assert_eq!(service.learn(&job(10, 5)), AGAIN, "the other was not heard");
        assert_eq!(service.learn(&job(20, 7)), STILL);
        assert_eq!(service.learn(&job(10, 5)), STILL, "it stands still, whatever the other does");
        assert_eq!(service.learn(&job(20, 8)), MOVING);
        assert_eq!(service.trouble(), None);
    }

    #[test]
    fn the_wrong_job_is_said_to_be_the_wrong_one_and_not_asked_for_ever() {
        let mut service = Service::new(address("localhost:1", &[10]));
        let waits: Vec<Duration> = (0..6).map(|n| service.learn(&job(99, n))).collect();
        assert_eq!(waits, [AGAIN, AGAIN, MOVING, MOVING, MOVING, MOVING]);
        let (state, words) = service.trouble().cloned().unwrap();
        assert!(state == SourceState::Slow && words.contains("another job answers here"), "{words}");
        service.has(vec![10, 99]);
        service.learn(&job(99, 7));
        assert_eq!(service.trouble(), None, "it belongs to this node after all");
    }

    #[test]
    fn what_has_no_communicator_is_no_other_job() {
        let mut service = Service::new(address("localhost:1", &[10]));
        let empty = [(); 3].map(|()| service.learn(&answered(r#"{"communicators":[]}"#)));
        assert_eq!((empty, service.trouble()), ([AGAIN, AGAIN, STILL], None));
        let text = answered("NCCL version 2.24.3\nErrors\n  Process 9 on node 10.0.0.1\nRank 1 -- GPU 1 managed by process 4 on node x\n");
        assert_ne!(service.learn(&text), AGAIN);
        assert_eq!(service.trouble(), None);
    }

    #[test]
    fn text_answers_are_compared_with_those_of_the_same_job_and_without_their_duration() {
        let mut service = Service::new(address("localhost:1", &[4, 9]));
        let text = |line: &str, took: &str, count: u32| {
            answered(&format!("NCCL version 2.24.3\n{line}\nCommunicators... ({took}s)\n operation {count}\n"))
        };
        let four = |took, count| text("Rank 1 -- GPU 1 managed by process 4 on node x", took, count);
        let nine = |took, count| text("Errors\n  Process 9 on node 10.0.0.1", took, count);
        for first in [four("0.001", 7), nine("0.001", 8), four("0.002", 7), nine("0.003", 8)] {
            assert_eq!(service.learn(&first), STILL, "{}", first.reply);
        }
        assert_eq!([service.learn(&four("0.002", 8)), service.learn(&nine("0.003", 9))], [MOVING; 2]);
    }

    /// The source that is asked about these addresses.
    fn source(names: &[&str]) -> (Box<dyn Source>, Setup) {
        let mut setup = Setup::new(Roots::live(), Duration::from_secs(1), Vec::new());
        setup.to_ras.send(Hint::RasAddresses(names.iter().map(|name| address(name, &[])).collect()));
        (ras::make(&mut setup), setup)
    }

    /// Whom a poll asked, and how the source is then.
    fn asked(name: &str) -> (Option<String>, Option<SourceState>) {
        let (mut source, _setup) = source(&[name]);
        let mut out = Vec::new();
        source.poll(&mut out).unwrap();
        let address = out.into_iter().find_map(|body| if let Body::Ras(answer) = body { Some(answer.address) } else { None });
        (address, source.remark().map(|(state, _)| state))
    }

    #[test]
    fn only_this_host_is_asked() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for own in ["127.0.0.1", "0.0.0.0"] {
            assert_eq!(asked(&format!("{own}:{}", free.port())), (Some(free.to_string()), Some(SourceState::Absent)), "{own}");
        }
        assert_eq!(asked("[::1]:1").0.as_deref(), Some("[::1]:1"));
        let local: SocketAddr = asked(&format!("localhost:{}", free.port())).0.unwrap().parse().unwrap();
        assert!(local.ip().is_loopback());
        for other in ["192.0.2.77:28028", "[2001:db8::1]:28028", "example.com:28028", "255.255.255.255:1", "224.0.0.1:1"] {
            assert_eq!(asked(other), (None, Some(SourceState::Denied)), "{other}");
        }
        for wrong in ["localhost", "localhost:", "localhost:99999", ""] {
            assert_eq!(asked(wrong), (None, Some(SourceState::Failed)), "{wrong}");
        }
    }

    #[test]
    fn without_a_job_nothing_is_asked_and_a_new_one_ends_the_wait() {
        let (mut source, setup) = source(&[]);
        let hints = setup.to_ras;
        assert!(matches!(source.poll(&mut Vec::new()), Err(SourceError::Absent(_))));
        hints.send(Hint::RasAddresses(Vec::new()));
        hints.send(Hint::RasAddresses(vec![address("192.0.2.77:28028", &[])]));
        let began = Instant::now();
        source.wait(Duration::from_secs(120));
        assert!(began.elapsed() < Duration::from_secs(120));

        let mut out = Vec::new();
        source.poll(&mut out).unwrap();
        assert!(out.is_empty());
        assert_eq!(source.remark().unwrap().0, SourceState::Denied);

        hints.send(Hint::RasAddresses(Vec::new()));
        assert!(matches!(source.poll(&mut out), Err(SourceError::Absent(_))), "the job is gone");
    }

    #[test]
    fn a_service_that_is_not_there_is_tried_again_later() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let free = free.to_string();
        let (mut source, _setup) = source(&[&free, &free]);
        let mut out = Vec::new();
        source.poll(&mut out).unwrap();
        let [Body::Ras(answer)] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((answer.address.as_str(), answer.error.as_deref()), (free.as_str(), Some("connection refused")));
        assert_eq!(source.remark().unwrap().0, SourceState::Absent);
        assert!(source.every() > Duration::from_secs(8));
    }
}
