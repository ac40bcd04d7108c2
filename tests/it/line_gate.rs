//! Which lines are looked at at all.

use nccl_top::logs::prefilter::{Class, Sieve, classify, is_noise_with_any_digits};
use proptest::prelude::*;

#[test]
fn ncclinfo_chatter_is_noise() {
    for line in [
        "vm:2692:2692 [0] NCCL INFO Tree 0 : -1 -> 0 -> 1/-1/-1",
        "vm:2692:2692 [0] NCCL INFO Ring 00 : 7 -> 0 -> 1",
        "vm:2692:2692 [0] NCCL INFO NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000",
        "vm:1:1 [0] NCCL INFO AllReduce: opCount 1a sendbuff 0x7f recvbuff 0x7f count 4 datatype 9 op 0 root 0 comm 0x7f0a [nranks=8] stream 0x1",
        "vm:2692:2735 [0] NCCL INFO RAS thread started",
        "",
        "hello",
    ] {
        assert_eq!(classify(line.as_bytes()), Class::Noise, "{line}");
    }
}

#[test]
fn classes() {
    for (line, class) in [
        ("vm:1:1 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM", Class::Fact),
        ("vm:1:1 [0] NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7", Class::Fact),
        ("vm:2692:2692 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1", Class::Fact),
        ("vm:1:1 [0] NCCL INFO GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL)", Class::Fact),
        ("vm:1:1 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 32 nics)", Class::Fact),
        ("step 0 | loss 0.0000 | step_time 265.3 ms", Class::Fact),
        ("vm:1:1 [0] a.cc:1 NCCL WARN x", Class::Alarm),
        ("[rank5]: ValueError: boom", Class::Alarm),
        ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", Class::Alarm),
        ("[rank0]:[E1121 00:10:37.678827192 WorkNCCL.cpp:1] [TC][rank=0][name=x] y", Class::Alarm),
        ("E1121 00:05:26.947000 3137 torch/x.py:986] whatever", Class::Alarm),
        ("W1121 00:05:26.176000 3137 torch/x.py:1012] Sending process 3234 closing signal SIGTERM", Class::Alarm),
        ("  rank      : 5 (local_rank: 5)", Class::Fact),
        ("[0]:", Class::Fact),
        ("[  123.456789] NVRM: Xid (PCI:0000:9b:00): 79, pid=2201, name=python3, GPU has fallen off the bus.", Class::Alarm),
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", Class::Alarm),
        ("Killed", Class::Alarm),
        ("3 requests were Killed by nobody; Evicted 7 blocks", Class::Noise),
        ("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768", Class::Fact),
    ] {
        assert_eq!(classify(line.as_bytes()), class, "{line}");
    }
}

#[test]
fn other_digits_are_seen() {
    for (text, is_noise) in [
        ("Process completed with exit code 138", false),
        ("x mlx4_core y", false),
        ("E112 00:05:26.9", true),
        ("processed 12 samples in 3.5 s", true),
    ] {
        assert_eq!(classify(text.as_bytes()), Class::Noise, "{text}");
        assert_eq!(is_noise_with_any_digits(text.as_bytes()), is_noise, "{text}");
    }
}

#[test]
fn a_warn_is_found_behind_any_number_of_its_letter() {
    for letters in [0, 1, 6, 999, 1000, 1001, 5000] {
        let text = format!("{} NCCL WARN x", "W".repeat(letters));
        assert_eq!(classify(text.as_bytes()), Class::Alarm, "{letters}");
        assert_eq!(classify("W NCCL WAR".repeat(letters).as_bytes()), Class::Noise, "{letters}");
    }
}

/// All lines that a sieve does not pass over, and the count of all.
fn sieved(chunk: &[u8]) -> (Vec<&str>, u64) {
    let mut sieve = Sieve::new(chunk);
    let (mut lines, mut count) = (Vec::new(), 0);
    while sieve.at < chunk.len() {
        let found = sieve.next_candidate();
        count += found.passed;
        if let Some(line) = found.line {
            lines.push(std::str::from_utf8(line).unwrap_or("?"));
            count += 1;
        }
    }
    (lines, count)
}

#[test]
fn chatter_is_passed_over_and_counted() {
    let chunk = "vm:1:1 [0] NCCL INFO Ring 00 : 0 -> 1 -> 2\n\nvm:1:12 [0] NCCL INFO Using network IB\nvm:1:12 [0] NCCL INFO AllReduce: opCount 1 vm:2:2 [1] a.cc:1 NCCL WARN x\nstep 1\r\nvm:1:1 [0] NCCL INFO + PCI[24.0] - NIC/0-b000";
    let (lines, count) = sieved(chunk.as_bytes());
    let glued = "vm:1:12 [0] NCCL INFO AllReduce: opCount 1 vm:2:2 [1] a.cc:1 NCCL WARN x";
    assert_eq!((lines, count), (vec!["vm:1:12 [0] NCCL INFO Using network IB", glued, "step 1"], 6));
}

proptest! {
    #[test]
    fn what_is_not_noise_is_found_and_every_line_is_counted(lines in prop::collection::vec(prop::sample::select(vec![
        "", "noise", "step 1", "vm:1:1 [0] NCCL INFO Ring 0", "vm:1:1 [0] NCCL INFO Using network x", "vm:22:1 [0] NCCL INFO Tree 0",
        "vm:1:1 [0] NCCL WARN ", "x] NCCL INFO Ring 0", "vm:1:1 [0] NCCL INFO Tree 0 NCCL WARN y",
    ]), 0..12), end in any::<bool>()) {
        let mut chunk = lines.join("\n");
        if end { chunk.push('\n') }
        let (found, count) = sieved(chunk.as_bytes());
        let want: Vec<&str> = chunk.lines().filter(|l| classify(l.as_bytes()) != Class::Noise).collect();
        prop_assert!(want.iter().all(|w| found.contains(w)), "{:?}", found);
        prop_assert_eq!(count as usize, chunk.lines().count());
    }

    #[test]
    fn any_bytes_make_progress(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        sieved(&bytes);
    }
}
