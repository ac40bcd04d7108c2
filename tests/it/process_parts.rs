//! What single files below /proc say of a process: environment, arguments, counters, program, end.

mod mask {
    use nccl_top::base::mask::arguments;
    use proptest::prelude::*;

    fn masked(args: &[&str]) -> Vec<String> {
        arguments(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_secret_is_hidden_in_every_form_of_option() {
        assert_eq!(masked(&["train.py", "--api-key=abc", "--lr=1e-4"]), ["train.py", "--api-key=***", "--lr=1e-4"]);
        assert_eq!(masked(&["--api-key", "abc", "--lr", "1e-4"]), ["--api-key", "***", "--lr", "1e-4"]);
        assert_eq!(masked(&["--wandb_token", "--next", "x"]), ["--wandb_token", "--next", "x"]);
        assert_eq!(masked(&["wandb.Password=x", "-e", "HF_TOKEN=abc"]), ["wandb.Password=***", "-e", "HF_TOKEN=***"]);
        assert_eq!(masked(&["--env=HF_TOKEN=abc"]), ["--env=HF_TOKEN=***"]);
        assert_eq!(masked(&["{\"aws_secret_access_key\":\"abc\"}"]), ["{\"aws_secret_access_key\":\"***\"}"]);
    }

    #[test]
    fn a_secret_within_a_script_is_hidden() {
        assert_eq!(
            masked(&["bash", "-c", "export WANDB_API_KEY=abc; python t.py --password abc --x 1"]),
            ["bash", "-c", "export WANDB_API_KEY=***; python t.py --password *** --x 1"]
        );
        assert_eq!(masked(&["A_SECRET='one two three' python t.py"]), ["A_SECRET='***' python t.py"]);
        assert_eq!(masked(&["curl -H \"Authorization: Bearer abcd\" --api-token: Bearer abcd"])[0].matches("abcd").count(), 0);
    }

    #[test]
    fn a_secret_is_known_by_its_looks() {
        assert_eq!(masked(&["login", "hf_AbCdEfGhIjKlMnOp0123"]), ["login", "***"]);
        assert_eq!(masked(&["id:AKIAIOSFODNN7EXAMPLE,x"]), ["id:***,x"]);
        assert_eq!(masked(&["sk-proj-0123456789abcdefghij"]), ["***"]);
        assert_eq!(masked(&["git+https://me:pw@github.com/a@b"]), ["git+https://***@github.com/a@b"]);
    }

    #[test]
    fn what_every_trainer_says_stays_readable() {
        let args = [
            "--tokenizer-type=Llama",
            "--tokenizer-model",
            "/m",
            "--max-tokens",
            "4096",
            "max_tokens=1e3",
            "s3://b/k",
            "sk-learn",
            "hf_model",
            "-p",
            "2222",
        ];
        assert_eq!(masked(&args), args);
    }

    proptest! {
        #[test]
        fn no_argument_panics_and_no_named_secret_survives(args in prop::collection::vec("\\PC{0,40}", 0..6), name in "[a-z_]{0,4}(token|KEY|Secret)") {
            arguments(&args);
            let mut args = args;
            args.push(format!("--{name}=V3RYS3CR3T"));
            prop_assert!(!arguments(&args).iter().any(|a| a.contains("V3RYS3CR3T")));
        }
    }
}

mod stat {
    use nccl_top::sources::procs::stat::{Io, Stat, Status, cgroup, exit_code};
    fn stat(comm: &str, state: char, threads: u32, wait_status: i32) -> Vec<u8> {
        let mut text = format!("4711 ({comm}) {state} 12 4711 4711 0 -1 4194304 9 0 0 0 150 25 0 0 20 0 {threads} 0 987654 1 2");
        text.push_str(&" 0".repeat(27));
        text.push_str(&format!(" {wait_status}\n"));
        text.into_bytes()
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = stat("a) (b) R 1", 'S', 7, 0);
        let stat = Stat::parse(&text).unwrap();
        assert_eq!(stat.comm, b"a) (b) R 1");
        assert_eq!((stat.state, stat.ppid, stat.threads, stat.start_ticks), ('S', 12, 7, 987_654));
        assert_eq!(stat.cpu_ticks, 175);
        assert_eq!(stat.wait_status, Some(0));
        assert!(!stat.kernel_thread);
    }

    #[test]
    fn the_wait_status_is_field_52() {
        assert_eq!(Stat::parse(&stat("x", 'Z', 1, 9)).unwrap().wait_status, Some(9));
        assert_eq!(exit_code(9), -9);
        assert_eq!(exit_code(139), -11, "a core dump is still signal 11");
        assert_eq!(exit_code(1 << 8), 1);
        assert_eq!(exit_code(0), 0);
    }

    #[test]
    fn a_leader_that_left_its_threads_behind_is_not_dead() {
        assert!(Stat::parse(&stat("x", 'Z', 1, 0)).unwrap().is_dead());
        assert!(!Stat::parse(&stat("x", 'Z', 5, 0)).unwrap().is_dead());
        assert!(!Stat::parse(&stat("x", 'T', 1, 0)).unwrap().is_dead());
    }

    #[test]
    fn the_innermost_pid_is_the_last() {
        let status = Status::parse(b"Name:\tpython\nUid:\t1000\t0\t0\t0\nNSpid:\t9001\t20\t7\nVmRSS:\t  2048 kB\n");
        assert_eq!(status, Status { uid: Some(1000), ns_pid: Some(7), rss_bytes: Some(2 << 20), ..Status::default() });
    }

    #[test]
    fn io_is_all_or_nothing() {
        let text = b"rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 30\nwrite_bytes: 40\ncancelled_write_bytes: 0\n";
        assert_eq!(Io::parse(text), Some(Io { rchar: 10, wchar: 20, read: 30, write: 40 }));
        assert_eq!(Io::parse(b"rchar: 10\n"), None);
    }

    #[test]
    fn the_telling_cgroup_wins() {
        assert_eq!(cgroup(b"0::/system.slice/job_7\n").as_deref(), Some("/system.slice/job_7"));
        assert_eq!(cgroup(b"12:cpuset:/\n4:memory:/slurm/job_7/step_0\n1:name=systemd:/x\n0::/\n").as_deref(), Some("/slurm/job_7/step_0"));
        assert_eq!(cgroup(b"0::/\n").as_deref(), Some("/"));
        assert_eq!(cgroup(b"garbage"), None);
    }
}

mod environ {
    use nccl_top::sources::procs::environ::{Family, RankKey, Signs, shown};
    fn key(env: &str) -> Option<RankKey> {
        Signs::read(env.replace(' ', "\0").as_bytes()).key
    }

    #[test]
    fn every_family_needs_a_rank_and_a_world() {
        let is = |family, rank, world| Some(RankKey { family, rank, world });
        assert_eq!(key("RANK=3 WORLD_SIZE=8"), is(Family::Torch, 3, Some(8)));
        assert_eq!(key("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2"), is(Family::OpenMpi, 1, Some(2)));
        assert_eq!(key("MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2"), is(Family::Mvapich, 1, Some(2)));
        assert_eq!(key("PMI_RANK=1 PMI_SIZE=2"), is(Family::Pmi, 1, Some(2)));
        assert_eq!(key("PMIX_RANK=1 PMIX_NAMESPACE=prterun-x@1"), is(Family::Pmix, 1, None));
        assert_eq!(key("HOROVOD_RANK=1 HOROVOD_SIZE=2 HOROVOD_LOCAL_RANK=1"), is(Family::Horovod, 1, Some(2)));
        assert_eq!(key("JAX_PROCESS_ID=2 JAX_NUM_PROCESSES=4 SLURM_PROCID=0 SLURM_NTASKS=1"), is(Family::Jax, 2, Some(4)));
        assert_eq!(key("JAX_PROCESS_INDEX=2 JAX_PROCESS_COUNT=3"), is(Family::Jax, 2, Some(3)));
        assert_eq!(key("PADDLE_TRAINER_ID=1 PADDLE_TRAINERS_NUM=2"), is(Family::Paddle, 1, Some(2)));
        assert_eq!(key("SLURM_PROCID=4 SLURM_NTASKS=16"), is(Family::Slurm, 4, Some(16)));
        assert_eq!(key("JOB_COMPLETION_INDEX=1 WORLD_SIZE=2"), is(Family::Kubernetes, 1, Some(2)));
        for lone in ["RANK=3", "WORLD_SIZE=8", "RANK=x WORLD_SIZE=8", "RANK=1 WORLD_SIZE=many", "PMIX_RANK=1", ""] {
            assert_eq!(key(lone), None, "{lone}");
        }
    }

    #[test]
    fn torchrun_wins_over_srun() {
        let both = key("SLURM_PROCID=0 SLURM_NTASKS=2 RANK=5 WORLD_SIZE=16");
        assert_eq!(both, Some(RankKey { family: Family::Torch, rank: 5, world: Some(16) }));
    }

    #[test]
    fn a_secret_that_would_be_cut_is_masked() {
        let raw = format!("TORCH_X={} hf_AbCdEfGhIjKlMnOp0123", "x".repeat(245));
        let shown = shown(raw.as_bytes());
        assert!(shown["TORCH_X"].ends_with(" ***"), "{shown:?}");
    }

    #[test]
    fn only_listed_variables_are_taken_and_secrets_never() {
        let raw = b"RANK=0\0HOME=/home/me\0NCCL_DEBUG=INFO\0NCCL_API_KEY=x\0TORCH_SECRET=x\0AWS_SECRET_ACCESS_KEY=x\0FI_PROVIDER=efa\0\
            SLURM_JOB_NAME=run\0SLURM_JOB_USER=ann\0SLURM_JWT=x\0KUBERNETES_SERVICE_HOST=10.0.0.1\0TORCH_X=hf_AbCdEfGhIjKlMnOp0123\0nonsense";
        let shown: Vec<String> = shown(raw).into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            shown,
            [
                "FI_PROVIDER=efa",
                "KUBERNETES_SERVICE_HOST=set",
                "NCCL_DEBUG=INFO",
                "RANK=0",
                "SLURM_JOB_NAME=run",
                "SLURM_JOB_USER=ann",
                "TORCH_X=***"
            ]
        );
    }

    #[test]
    fn a_value_is_bounded() {
        let raw = format!("NCCL_TOPO={}", "é".repeat(1000));
        assert_eq!(shown(raw.as_bytes())["NCCL_TOPO"].chars().count(), 256);
    }
}

mod program {
    use nccl_top::sources::procs::program::Program;
    fn of(comm: &str, line: &str) -> Program {
        Program::of(comm, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn launchers_are_known_however_they_are_started() {
        for (comm, line) in [
            ("torchrun", "/usr/bin/python3 /usr/bin/torchrun --nproc-per-node 8 train.py"),
            ("python3", "/opt/conda/bin/python3 -u -m torch.distributed.run train.py"),
            ("pt_main_thread", "/usr/bin/python3 /usr/bin/torchrun train.py"),
            ("python", "python -m torch.distributed.launch train.py"),
            ("python", "python /lib/python3/site-packages/torch/distributed/launch.py train.py"),
            ("accelerate", "python /usr/bin/accelerate launch train.py"),
            ("python3.12", "python3.12 -u -m deepspeed.launcher.launch --world_info=x train.py"),
            ("python", "python -um torch.distributed.run train.py"),
            ("hydra_pmi_proxy", "/usr/bin/hydra_pmi_proxy --control-port x"),
            ("srun", "srun python train.py"),
            ("slurmstepd", "slurmstepd: [42.0]"),
        ] {
            assert_eq!(of(comm, line), Program::Launcher, "{comm}: {line}");
        }
    }

    #[test]
    fn a_training_script_is_no_launcher() {
        for (comm, line) in [
            ("python", "python -u train.py --launcher torchrun"),
            ("pt_main_thread", "/usr/bin/python3 -u pretrain_gpt.py"),
            ("python", "python -c import\\ torchrun"),
            ("python", "python -m mypackage.launch"),
            ("python", "python tools/launch.py"),
        ] {
            assert_eq!(of(comm, line), Program::Python, "{comm}: {line}");
        }
        assert_eq!(of("all_reduce_perf", "./all_reduce_perf -b 8"), Program::Other);
        assert_eq!(of("bash", "bash run.sh torchrun"), Program::Wrapper);
        assert_eq!(of("nvidia-smi", "nvidia-smi dmon"), Program::Monitor);
        assert_eq!(of("pt_data_worker", "python train.py"), Program::Helper);
    }
}

mod pidfd {
    use nccl_top::sources::procs::pidfd::{Pidfd, Status, wait};
    use rustix::io::Errno;
    use std::time::Duration;
    #[test]
    fn no_process_has_no_handle() {
        assert_eq!(Pidfd::open(0).unwrap_err(), Errno::SRCH);
        assert_eq!(Pidfd::open(u32::MAX).unwrap_err(), Errno::SRCH);
    }

    #[test]
    fn one_that_is_gone_has_none_either() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Pidfd::open(child.id()).unwrap_err(), Errno::SRCH);
    }

    #[test]
    fn a_death_ends_the_wait() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pidfd = Pidfd::open(child.id()).unwrap();
        assert!(!pidfd.is_dead());
        child.kill().unwrap();
        assert!(wait([&pidfd].into_iter(), Duration::from_secs(60)));
        assert!(pidfd.is_dead());
        child.wait().unwrap();
        assert!(pidfd.is_dead(), "its number may be another's by now");
    }

    #[test]
    fn one_that_lives_is_not_dead() {
        let own = Pidfd::open(std::process::id()).unwrap();
        assert!(!own.is_dead());
        assert_ne!(own.status(), Status::Told(0));
        assert!(!wait([&own].into_iter(), Duration::ZERO));
    }
}

mod pieces {
    use nccl_top::sources::Roots;
    use nccl_top::sources::procs::read::Reader;

    /// The kernel hands out tables such as `mountinfo`, `net/tcp` and `smaps` a page of whole lines at a time.
    #[test]
    fn what_comes_in_pieces_is_read_to_its_end() {
        let mut reader = Reader::new(Roots::live());
        let maps = reader.read(std::process::id(), "smaps").unwrap();
        assert!(maps.len() > 4096 && String::from_utf8_lossy(maps).contains("[stack]"), "{} bytes", maps.len());
    }
}
