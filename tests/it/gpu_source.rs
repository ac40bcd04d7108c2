//! What is asked of GPUs when, and what becomes of one that does not answer; without a driver, and on a machine with GPUs.

mod sweep {
    use nccl_top::observe::gpu::{GpuHealth, GpuInfo, GpuPair, GpuProcess, GpuProcesses, GpuSample, GpuTrouble, GpuTroubleKind};
    use nccl_top::observe::gpu::{NvLink, NvLinks};
    use nccl_top::observe::{Body, SourceState};
    use nccl_top::sources::nvml::{Answer, Ask, Doing, Gpu, Links, Nvml, Opened, PAIRS_PER_POLL, Pace, make};
    use nccl_top::sources::{Hint, Hints, Roots, Setup, Source, SourceError};
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::Receiver;
    use std::time::{Duration, Instant};

    /// Where a GPU does not answer.
    const DEADLINE: Duration = Duration::from_millis(200);
    /// Where all answer, however busy the machine.
    const PATIENT: Duration = Duration::from_secs(60);

    /// A GPU whose call blocks while `stuck` is set, and which is lost while `lost` is.
    #[derive(Default)]
    struct Switches {
        stuck: AtomicBool,
        lost: AtomicBool,
        asked: Mutex<Vec<Ask>>,
    }

    struct Fake {
        index: u32,
        switches: Arc<Switches>,
    }

    impl Gpu for Fake {
        fn answer(&mut self, ask: &Ask, doing: &Doing) -> Answer {
            self.switches.asked.lock().unwrap().push(ask.clone());
            doing.set("nvmlDeviceGetUtilizationRates");
            while self.switches.stuck.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let index = self.index;
            if self.switches.lost.load(Ordering::Relaxed) {
                let trouble = GpuTrouble { kind: GpuTroubleKind::Lost, detail: "lost".into() };
                return Answer { sample: Some(GpuSample { index, trouble: Some(trouble), ..GpuSample::default() }), ..Answer::default() };
            }
            Answer {
                sample: Some(GpuSample { index, util_pct: Some(98), ..GpuSample::default() }),
                info: ask.info.then(|| GpuInfo { index, bus_id: Some(format!("0000:0{index}:00.0")), ..GpuInfo::default() }),
                processes: ask.processes.then(|| GpuProcesses { index, processes: vec![GpuProcess { pid: 100 + index, mem_bytes: None }] }),
                health: ask.health.then(|| GpuHealth { index, ..GpuHealth::default() }),
                links: ask.links.then(|| Links { to_switch: 18 - index, peers: Vec::new() }),
                pairs: ask.pairs.iter().map(|&b| GpuPair { a: index, b, pcie_level: Some(30), ..GpuPair::default() }).collect(),
                nvlinks: ask.links.then(|| NvLinks { index, links: vec![NvLink::default(); 18], c2c: None }),
                gpm_denied: false,
            }
        }
    }

    struct Bench {
        source: Nvml,
        gpus: Vec<Arc<Switches>>,
        hints: Receiver<Hint>,
    }

    fn bench(count: u32, deadline: Duration) -> Bench {
        let gpus: Vec<Arc<Switches>> = (0..count).map(|_| Arc::default()).collect();
        let shared = gpus.clone();
        let open = move || -> Opened {
            let fake = |(index, switches): (u32, &Arc<Switches>)| Box::new(Fake { index, switches: switches.clone() }) as Box<dyn Gpu>;
            Ok((0..).zip(&shared).map(fake).collect())
        };
        let (to_procs, hints) = Hints::line();
        let pace = Pace { interval: Duration::from_millis(10), deadline, info: Duration::ZERO };
        Bench { source: Nvml::new(Arc::new(open), pace, to_procs), gpus, hints }
    }

    impl Bench {
        fn poll(&mut self) -> Vec<Body> {
            let mut out = Vec::new();
            self.source.poll(&mut out).unwrap();
            out
        }

        fn samples(&mut self) -> Vec<GpuSample> {
            self.poll().into_iter().find_map(|body| if let Body::Gpus { gpus } = body { Some(gpus) } else { None }).unwrap_or_default()
        }
    }

    /// Polls until the GPUs have these troubles: a thread that answers may have to wait for the processor longer than a deadline.
    fn until(bench: &mut Bench, wanted: &[Option<GpuTroubleKind>]) -> Vec<GpuSample> {
        let began = Instant::now();
        loop {
            let samples = bench.samples();
            if troubles(&samples) == wanted {
                return samples;
            }
            assert!(began.elapsed() < PATIENT, "{:?}", troubles(&samples));
        }
    }

    fn troubles(samples: &[GpuSample]) -> Vec<Option<GpuTroubleKind>> {
        samples.iter().map(|s| s.trouble.as_ref().map(|t| t.kind)).collect()
    }

    #[test]
    fn the_first_poll_tells_who_the_gpus_are_and_how_they_do() {
        let mut bench = bench(3, PATIENT);
        let kinds: Vec<&str> = bench
            .poll()
            .iter()
            .map(|body| match body {
                Body::GpuInfo(_) => "info",
                Body::Gpus { gpus } if gpus.len() == 3 => "samples",
                Body::GpuProcesses { gpus } if gpus.len() == 3 => "processes",
                Body::GpuHealth { gpus } if gpus.len() == 3 => "health",
                Body::Nvlinks(links) if links.links.len() == 18 => "links",
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["info", "info", "info", "samples", "processes", "health", "links"]);
        assert_eq!(bench.hints.try_recv(), Ok(Hint::GpuPids(vec![100, 101, 102])));
        assert_eq!(bench.samples().len(), 3, "and the second one only how they do");
    }

    #[test]
    fn a_gpu_that_blocks_is_named_and_the_others_go_on() {
        let mut bench = bench(4, DEADLINE);
        bench.poll();
        bench.gpus[1].stuck.store(true, Ordering::Relaxed);

        let first = until(&mut bench, &[None, Some(GpuTroubleKind::NotAnswering), None, None]);
        assert!(first[1].trouble.as_ref().unwrap().detail.starts_with("nvmlDeviceGetUtilizationRates has not returned for "));
        let (state, text) = bench.source.remark().unwrap();
        assert_eq!((state, text.as_str()), (SourceState::Slow, "GPU 1 does not answer; the others do"));

        let asked_before = bench.gpus[1].asked.lock().unwrap().len();
        assert_eq!(bench.samples()[1].trouble.as_ref().map(|t| t.kind), Some(GpuTroubleKind::NotAnswering));
        assert_eq!(bench.gpus[1].asked.lock().unwrap().len(), asked_before, "it is not asked again, and so not waited for");

        bench.gpus[1].stuck.store(false, Ordering::Relaxed);
        let back = until(&mut bench, &[None; 4]);
        assert_eq!(back[1].util_pct, Some(98));
        assert_eq!(bench.source.remark(), None);
    }

    #[test]
    fn all_gpus_may_block_and_the_poll_still_ends() {
        let mut bench = bench(8, DEADLINE);
        bench.poll();
        for gpu in &bench.gpus {
            gpu.stuck.store(true, Ordering::Relaxed);
        }
        until(&mut bench, &[Some(GpuTroubleKind::NotAnswering); 8]);
        for gpu in &bench.gpus {
            gpu.stuck.store(false, Ordering::Relaxed);
        }
        let pace = Pace { deadline: DEADLINE, ..Pace::usual(DEADLINE) };
        let wasted = (0..8).fold(Duration::ZERO, |wasted, _| wasted + pace.patience(wasted));
        assert!(wasted < DEADLINE * 2, "{wasted:?}");
    }

    #[test]
    fn a_lost_gpu_keeps_its_row_and_is_asked_who_it_is_when_it_is_back() {
        let mut bench = bench(2, PATIENT);
        bench.gpus[0].lost.store(true, Ordering::Relaxed);
        let first = bench.poll();
        let named: Vec<u32> = first.iter().filter_map(|b| if let Body::GpuInfo(info) = b { Some(info.index) } else { None }).collect();
        assert_eq!(named, [1]);
        assert_eq!(troubles(&bench.samples()), [Some(GpuTroubleKind::Lost), None]);
        assert_eq!(bench.source.remark().unwrap().0, SourceState::Ok);

        bench.gpus[0].lost.store(false, Ordering::Relaxed);
        let back = bench.poll();
        assert!(back.iter().any(|b| matches!(b, Body::GpuInfo(info) if info.index == 0)));
    }

    #[test]
    fn the_topology_is_asked_a_little_at_a_time_and_told_once() {
        let mut bench = bench(8, PATIENT);
        let mut told = Vec::new();
        for _ in 0..12 {
            told.extend(bench.poll().into_iter().filter_map(|b| if let Body::GpuTopology(t) = b { Some(t) } else { None }));
        }
        let [topology] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(topology.pairs.len(), 28);
        assert_eq!((topology.pairs[0].a, topology.pairs[0].b, topology.pairs[0].nvlinks), (0, 1, Some(17)), "min of 18 and 17");
        let most = bench.gpus.iter().flat_map(|g| g.asked.lock().unwrap().iter().map(|a| a.pairs.len()).collect::<Vec<_>>()).max();
        assert_eq!(most, Some(PAIRS_PER_POLL));
    }

    #[test]
    fn opening_that_fails_or_blocks_is_said_in_words() {
        let (to_procs, _hints) = Hints::line();
        let pace = |deadline| Pace { interval: Duration::from_millis(10), deadline, info: Duration::ZERO };
        let refuse = || -> Opened { Err(SourceError::Absent("no driver".into())) };
        let mut source = Nvml::new(Arc::new(refuse), pace(PATIENT), to_procs.clone());
        for _ in 0..2 {
            assert_eq!(source.poll(&mut Vec::new()), Err(SourceError::Absent("no driver".into())));
        }
        let blocked = Arc::new(AtomicBool::new(true));
        let told = blocked.clone();
        let block = move || -> Opened {
            while told.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(Vec::new())
        };
        let mut source = Nvml::new(Arc::new(block), pace(Duration::from_millis(4)), to_procs);
        assert_eq!(source.poll(&mut Vec::new()), Err(SourceError::Failed("nvmlInit_v2 has not returned for 0 s".into())));
        blocked.store(false, Ordering::Relaxed);
        let began = Instant::now();
        while source.poll(&mut Vec::new()) != Ok(()) {
            assert!(began.elapsed() < PATIENT);
        }
    }

    #[test]
    fn without_a_driver_nvml_is_absent() {
        let mut setup = Setup::new(Roots::live(), Duration::from_secs(1), Vec::new());
        if let Err(err) = make(&mut setup).poll(&mut Vec::new()) {
            assert!(matches!(err, SourceError::Absent(_)), "{err}");
        }
    }

    /// Prints what a machine with GPUs says, and what asking costs:
    /// `cargo test --release --test it what_this_machine_says -- --ignored --nocapture`
    #[test]
    #[ignore = "needs NVIDIA GPUs"]
    #[allow(clippy::print_stdout)]
    fn what_this_machine_says() {
        let mut setup = Setup::new(Roots::live(), Duration::from_secs(1), Vec::new());
        let mut source = make(&mut setup);
        let ticks = || -> u64 {
            let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
            stat.rsplit(") ").next().unwrap().split(' ').skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum()
        };
        let mut measured_from = (ticks(), Instant::now());
        for poll in 0..40 {
            let (mut out, began) = (Vec::new(), Instant::now());
            let result = source.poll(&mut out);
            println!("poll {poll}: {:.1} ms, {result:?}, {:?}", began.elapsed().as_secs_f64() * 1e3, source.remark());
            for body in out.iter().filter(|body| poll < 3 || matches!(body, Body::GpuTopology(_))) {
                println!("  {}", serde_json::to_string(body).unwrap());
            }
            if poll == 10 {
                measured_from = (ticks(), Instant::now());
            }
            source.wait(source.every());
        }
        let (cpu, wall) = (ticks() - measured_from.0, measured_from.1.elapsed());
        println!("CPU since poll 10: {:.2} % of a core", cpu as f64 / wall.as_secs_f64());
    }
}

mod topology {
    use nccl_top::observe::gpu::GpuPair;
    use nccl_top::sources::nvml::{Links, Topology};
    use std::time::Instant;
    #[test]
    fn links_between_two_gpus_count_before_those_to_a_switch() {
        let mut topology = Topology::new(3, Instant::now());
        let peers = |ids: &[&str]| Links { to_switch: 0, peers: ids.iter().map(|id| id.to_string()).collect() };
        topology.learn(0, Some(peers(&["b", "b", "c"])), Vec::new());
        topology.learn(1, Some(peers(&["a", "a"])), Vec::new());
        topology.learn(2, Some(peers(&["a"])), Vec::new());
        let ids = [Some("a"), Some("b"), Some("c")];
        let pairs = [(0, 1), (0, 2), (1, 2), (0, 9)].map(|(a, b)| GpuPair { a, b, ..GpuPair::default() });
        topology.learn(0, None, pairs.to_vec());
        assert_eq!(topology.take(&ids), None, "the others were not asked yet");
        while (0..3).map(|gpu| topology.next(gpu, &[false; 3])).any(|(links, pairs)| links || !pairs.is_empty()) {
            (0..3).for_each(|gpu| topology.learn(gpu, None, Vec::new()));
            if let Some(told) = topology.take(&ids) {
                let nvlinks: Vec<_> = told.pairs.iter().map(|pair| (pair.a, pair.b, pair.nvlinks)).collect();
                return assert_eq!(nvlinks, [(0, 1, Some(2)), (0, 2, Some(1)), (0, 9, None), (1, 2, Some(0))]);
            }
        }
        panic!("never told");
    }
}

mod pci {
    use nccl_top::sources::Roots;
    use nccl_top::sources::nvml::{bus_id, gpus_from_pci};
    #[test]
    fn bus_ids_are_written_as_sysfs_does() {
        assert_eq!(bus_id("00000000:B7:00.0"), "0000:b7:00.0");
        assert_eq!(bus_id("00010000:01:00.0"), "10000:01:00.0");
        assert_eq!(bus_id("FFFFFFFF:FF:FF.0"), "ffffffff:ff:ff.0");
        assert_eq!(bus_id("nonsense"), "nonsense");
    }

    #[test]
    fn gpus_are_found_in_the_pci_tree_in_bus_order() {
        let dir = tempfile::tempdir().unwrap();
        let device = |id: &str, vendor: &str, class: &str, numa: &str| {
            let path = dir.path().join("sys/bus/pci/devices").join(id);
            std::fs::create_dir_all(&path).unwrap();
            for (name, text) in [("vendor", vendor), ("class", class), ("numa_node", numa)] {
                std::fs::write(path.join(name), format!("{text}\n")).unwrap();
            }
        };
        device("10000:01:00.0", "0x10de", "0x030200", "1");
        device("0000:b7:00.0", "0x10de", "0x030200", "-1");
        device("0000:07:00.0", "0x10de", "0x030000", "0");
        device("0000:08:00.0", "0x10de", "0x068000", "0");
        device("0000:09:00.0", "0x1a03", "0x030000", "0");

        let found = gpus_from_pci(&Roots::below(dir.path()));

        let seen: Vec<_> = found.iter().map(|g| (g.index, g.bus_id.as_deref().unwrap(), g.numa)).collect();
        assert_eq!(seen, [(0, "0000:07:00.0", Some(0)), (1, "0000:b7:00.0", None), (2, "10000:01:00.0", Some(1))]);
        assert!(found.iter().all(|g| g.name.is_none()));
        assert!(gpus_from_pci(&Roots::below(dir.path().join("nowhere"))).is_empty());
    }
}

mod events {
    use nccl_top::observe::gpu::GpuEvent;
    use nccl_top::observe::{Body, SourceState};
    use nccl_top::sources::nvml::{Ear, Events, make_events};
    use nccl_top::sources::{Roots, Setup, Source, SourceError};
    use std::sync::mpsc::Sender;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
    use std::time::Duration;

    struct Fake(Receiver<Result<GpuEvent, SourceError>>);

    impl Ear for Fake {
        fn next(&mut self, patience: Duration) -> Result<Option<GpuEvent>, SourceError> {
            match self.0.recv_timeout(patience) {
                Ok(told) => told.map(Some),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
            }
        }

        fn deaf_to(&self) -> Option<String> {
            Some("no events of GPU 3: not supported".into())
        }
    }

    fn source() -> (Events, Receiver<Sender<Result<GpuEvent, SourceError>>>) {
        let (opened, openings) = channel();
        let open = move || {
            let (tell, heard) = channel();
            opened.send(tell).unwrap();
            Ok(Box::new(Fake(heard)) as Box<dyn Ear>)
        };
        (Events::new(Duration::from_millis(20), Box::new(open)), openings)
    }

    fn xid(data: u64) -> GpuEvent {
        GpuEvent { index: Some(2), event_bits: 0x8, data, mig_instance: None }
    }

    fn polled(source: &mut Events) -> (Vec<u64>, Result<(), SourceError>) {
        let mut out = Vec::new();
        let result = source.poll(&mut out);
        let told = out.into_iter().flat_map(|body| if let Body::GpuEvents { events } = body { events } else { Vec::new() });
        (told.map(|e| e.data).collect(), result)
    }

    #[test]
    fn events_come_in_order_and_none_is_lost_while_it_waits() {
        let (mut source, openings) = source();
        assert_eq!(polled(&mut source), (vec![], Ok(())));
        let tell = openings.recv().unwrap();
        for data in [79, 48, 63] {
            tell.send(Ok(xid(data))).unwrap();
        }
        source.wait(Duration::from_millis(20));
        source.wait(Duration::from_millis(1));
        assert_eq!(polled(&mut source), (vec![79, 48, 63], Ok(())));
        assert_eq!(source.remark(), Some((SourceState::Ok, "no events of GPU 3: not supported".into())));
        for data in 0..300 {
            tell.send(Ok(xid(data))).unwrap();
        }
        assert_eq!((polled(&mut source).0.len(), polled(&mut source).0.len()), (256, 44));
    }

    #[test]
    fn after_an_error_it_listens_anew() {
        let (mut source, openings) = source();
        polled(&mut source).1.unwrap();
        let tell = openings.recv().unwrap();
        tell.send(Ok(xid(79))).unwrap();
        let lost = SourceError::Failed("nvmlEventSetWait_v2: GPU is lost".into());
        tell.send(Err(lost.clone())).unwrap();
        assert_eq!(polled(&mut source), (vec![79], Err(lost)), "what was told before still counts");
        source.wait(Duration::from_millis(1));
        assert_eq!(polled(&mut source), (vec![], Ok(())));
        openings.recv().unwrap().send(Ok(xid(31))).unwrap();
        assert_eq!(polled(&mut source), (vec![31], Ok(())));
    }

    fn live() -> Box<dyn Source> {
        make_events(&mut Setup::new(Roots::live(), Duration::from_secs(1), Vec::new()))
    }

    #[test]
    fn without_a_driver_it_says_so() {
        let mut source = live();
        if let Err(err) = source.poll(&mut Vec::new()) {
            assert!(matches!(err, SourceError::Absent(_)), "{err}");
            source.wait(Duration::from_millis(1));
        }
    }

    /// Prints what a machine with GPUs registers and tells in 30 s, and what waiting costs; a program that writes to an address which is
    /// not mapped makes an Xid 31 meanwhile: `cargo test --test it events_of_this_machine -- --ignored --nocapture`
    #[test]
    #[ignore = "needs NVIDIA GPUs"]
    #[allow(clippy::print_stdout)]
    fn events_of_this_machine() {
        let mut source = live();
        let began = std::time::Instant::now();
        source.poll(&mut Vec::new()).expect("events can be registered");
        println!("registered in {:.1} ms, {:?}", began.elapsed().as_secs_f64() * 1e3, source.remark());
        while began.elapsed() < Duration::from_secs(30) {
            let waited = std::time::Instant::now();
            source.wait(source.every());
            let (waited, mut out) = (waited.elapsed(), Vec::new());
            source.poll(&mut out).expect("events can be waited for");
            for body in &out {
                println!("after {:.3} s: {}", waited.as_secs_f64(), serde_json::to_string(body).unwrap());
            }
            assert!(!out.is_empty() || waited >= Duration::from_millis(900), "it waits in the driver and does not spin");
        }
    }
}

mod device {
    use nccl_top::observe::gpu::GpuSample;
    use nccl_top::sources::SourceError;
    use nccl_top::sources::nvml::{GpmPace, cannot_open, gpm_of, link_rates, sm_count};
    use nvml_wrapper::error::NvmlError;
    use std::time::Duration;
    #[test]
    fn gpm_values_become_percent_and_bytes_per_second() {
        let gpm = gpm_of([100.0, 18.2, 4.8, 0.0, 0.0, 2.0, 3.0, 1000.0, f64::NAN]).unwrap();
        assert_eq!(gpm.sm_active_pct, Some(18.2));
        assert_eq!(gpm.tensor_active_pct, Some(0.0), "no activity is a value");
        assert_eq!(gpm.pcie_tx_bytes_per_s, Some(2_097_152.0));
        assert_eq!(gpm.pcie_rx_bytes_per_s, Some(3_145_728.0));
        assert_eq!(gpm.nvlink_rx_bytes_per_s, Some(1_024_000_000.0));
        assert_eq!(gpm.nvlink_tx_bytes_per_s, None, "NaN is no value");
        assert_eq!(gpm_of([f64::NAN; 9]), None);
    }

    #[test]
    fn rates_of_links_are_known_for_all_or_none() {
        assert_eq!(link_rates(&[1000.0, 2.0, 0.0, 1.0]), [(1_024_000_000.0, 2_048_000.0), (0.0, 1_024_000.0)]);
        assert!(link_rates(&[1000.0, 2.0, f64::NAN, 1.0]).is_empty());
        assert!(link_rates(&[]).is_empty());
    }

    #[test]
    fn gpm_is_read_seldom_while_nothing_changes_and_at_once_when_it_does() {
        let sample = |util, memory, power_w: u64| GpuSample {
            util_pct: Some(util),
            mem_util_pct: Some(memory),
            power_mw: Some(power_w * 1000),
            ..GpuSample::default()
        };
        let mut pace = GpmPace::new(0, Duration::from_secs(1));
        let mut due = |s: &GpuSample, polls: u32| (0..polls).map(|_| if pace.is_due(s) { '#' } else { '.' }).collect::<String>();
        assert_eq!(due(&sample(99, 40, 690), 19), "###.......#.......#");
        assert_eq!(due(&sample(100, 0, 255), 13), "###.......#..", "a hang: memory stands still, power falls");
        assert_eq!(due(&sample(100, 0, 262), 6), ".....#", "noise is no change");
        assert_eq!(due(&sample(0, 0, 121), 36), format!("###{}#.", ".".repeat(31)), "nothing runs");
    }

    #[test]
    fn cores_are_counted_in_sms() {
        assert_eq!(sm_count(16896, 9, 0), Some(132), "H200");
        assert_eq!(sm_count(6912, 8, 0), Some(108), "A100");
        assert_eq!(sm_count(5120, 7, 0), Some(80), "V100");
        assert_eq!(sm_count(16896, 99, 0), None);
    }

    #[test]
    fn failures_to_open_say_what_to_do() {
        assert!(
            matches!(cannot_open(&NvmlError::LibraryNotFound), SourceError::Absent(text) if text.starts_with("libnvidia-ml.so.1 not found"))
        );
        assert!(matches!(cannot_open(&NvmlError::DriverNotLoaded), SourceError::Absent(_)));
        assert!(matches!(cannot_open(&NvmlError::LibRmVersionMismatch), SourceError::Failed(text) if text.contains("reload")));
        assert!(matches!(cannot_open(&NvmlError::NoPermission), SourceError::Denied(_)));
    }
}

mod structs {
    use nvml_wrapper_sys::bindings as sys;
    use std::mem;
    /// The sizes in nvml.h 13; a driver reads and writes exactly these.
    #[test]
    fn structs_are_as_large_as_the_driver_believes() {
        assert_eq!(mem::size_of::<sys::nvmlFieldValue_t>(), 40);
        assert_eq!(mem::size_of::<sys::nvmlGpuFabricInfo_v2_t>(), 36);
        assert_eq!(mem::size_of::<sys::nvmlGpuFabricInfo_v3_t>(), 40);
        assert_eq!(mem::size_of::<sys::nvmlGpmMetric_t>(), 40);
        assert_eq!(mem::size_of::<sys::nvmlEventData_t>(), 32);
    }
}
