#!/usr/bin/env python3
"""Runs the jobs of a script one after the other, each beside `nccl-top watch`, and says what was said of them.

    tests/lab/live.py tests/lab/causes.py --bin target/release/nccl-top --out DIR [--only NAME,...] [--cpu] [--until SECONDS] [--ranks N]

The script has a table CASES: launcher, seconds to watch after the fault (or after the first step), the rule that is right, others that are right, too, and the
ranks to blame. DIR gets a recording and a label of each, fit for `nccl-top score DIR`, and `told.txt`. What a launcher's words mean stands in `Case`.
"""
import argparse, ast, ctypes, fcntl, gzip, json, os, shutil, signal, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
TENANT = """import os, sys, time, torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while not any('"begins"' in l for l in (open(sys.argv[1]) if os.path.exists(sys.argv[1]) else ())): time.sleep(.1)
while True: y = x @ x; torch.cuda.synchronize()"""


def cases_of(script):
    tree = ast.parse(open(script).read())
    return next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "CASES")


def reap():
    """What nobody waited for: else the next job is watched among the dead of this one."""
    until = time.time() + 3
    while time.time() < until:
        try: pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError: return
        if pid == 0: time.sleep(.1)


class Case:
    """torchrun, accelerate, bash (a loop that sets RANK) or spawn; behind it what else happens: `output stuck` (nobody reads what it prints any more),
    `restarts` (once), `tenant` (another's process computes on GPU 0), `beside` (another job on CPUs), `stop all` and `stop launcher` (SIGSTOP)."""

    def __init__(self, args, name, row):
        self.args, self.name = args, name
        self.launcher, _, self.also = row[0].partition(", ")
        self.watch_s, self.rule, self.accept, self.ranks = row[1:]
        self.dir = tempfile.mkdtemp(prefix="job-")
        self.truth = f"{self.dir}/truth.jsonl"
        self.mark = f"{os.getpid()}-{name}"
        self.started = []

    def start(self, command, out, **k):
        env = {**os.environ, "LAB_CASE": self.mark, "NCCL_NVLS_ENABLE": "0", "PYTHONUNBUFFERED": "1", **k}
        p = subprocess.Popen(command, stdin=self.stdin, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=self.dir, start_new_session=True)
        self.started.append(p)
        return p

    def command(self, name):
        script = [os.path.abspath(self.args.script), name, "--truth", self.truth, "--dir", self.dir] + ["--cpu"] * self.args.cpu
        if self.launcher == "accelerate":
            return ["accelerate", "launch", "--num_processes", str(self.args.ranks), "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
                    "--cpu" if self.args.cpu else "--multi_gpu"] + script
        if self.launcher == "spawn":
            return [sys.executable, f"{HERE}/spawned.py", str(self.args.ranks)] + script
        if self.launcher == "bash":
            loop = f'for r in {" ".join(map(str, range(self.args.ranks)))}; do RANK=$r LOCAL_RANK=$r WORLD_SIZE={self.args.ranks} MASTER_ADDR=127.0.0.1 MASTER_PORT=29612 "$@" > out.$r 2>&1 & done; wait'
            return ["bash", "-c", loop, "bash", sys.executable] + script
        return ["torchrun", "--standalone", "--nproc-per-node", str(self.args.ranks)] + ["--max-restarts", "1"] * (self.also == "restarts") + script

    def told(self, event):
        try: lines = [json.loads(line) for line in open(self.truth)]
        except (OSError, ValueError): return None
        return next((line["at"] for line in lines if line["event"] == event), None)

    def tell(self, event):
        with open(self.truth, "a") as f: f.write(json.dumps({"at": time.time(), "case": self.name, "event": event}) + "\n")

    def read_until_stuck(self, fd):
        """What a terminal or a tee does until somebody holds it."""
        fcntl.fcntl(fd, 1031, 4096)
        until = None
        while until is None or time.time() < until:
            if not os.read(fd, 4096): return
            if until is None and (at := self.told("trains")): until = at + 9
        self.tell("begins")

    def pids(self):
        """All of this job, whoever started them."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if f"LAB_CASE={self.mark}".encode() in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"): yield int(pid)
            except OSError: pass

    def signal(self, number, pids):
        for pid in pids:
            try: os.kill(pid, number)
            except ProcessLookupError: pass

    def run(self):
        out = self.args.out
        self.stdin, keep = os.pipe()
        tape = f"{out}/{self.name}.jsonl.gz"
        watch = subprocess.Popen([self.args.bin, "watch", "--json", "-o", tape], stdout=open(f"{out}/{self.name}.events", "w"), stderr=subprocess.STDOUT)
        time.sleep(1.5)
        log = open(f"{self.dir}/job.log", "w")
        if self.also == "tenant": self.start([sys.executable, "-c", TENANT, self.truth], subprocess.DEVNULL, CUDA_VISIBLE_DEVICES="0")
        if self.also == "beside":
            other = ["torchrun", "--standalone", "--nproc-per-node", "2", os.path.abspath(self.args.script), "suspended-all", "--cpu", "--truth", "/dev/null", "--dir", self.dir]
            self.start(other, open(f"{self.dir}/other.log", "w"), CUDA_VISIBLE_DEVICES="")
        if self.also == "output stuck":
            fd, end = os.pipe()
            job = self.start(self.command(self.name), end)
            os.close(end)
            threading.Thread(target=self.read_until_stuck, args=(fd,), daemon=True).start()
        else:
            job = self.start(self.command(self.name), log)
        self.follow(job)
        watch.send_signal(signal.SIGINT)
        try: watch.wait(8)
        except subprocess.TimeoutExpired: watch.kill()
        self.signal(signal.SIGKILL, list(self.pids()))
        for p in self.started: p.wait()
        reap()
        os.close(self.stdin), os.close(keep)
        self.report(tape)
        shutil.rmtree(self.dir, ignore_errors=True)

    def follow(self, job):
        """Until the time is over in which something is to be said of it."""
        most, stops = time.time() + self.args.most, self.also.startswith("stop")
        while time.time() < most:
            time.sleep(.1)
            trains, begins = self.told("trains"), self.told("begins")
            if stops and trains and time.time() > trains + 9:
                who = [job.pid] if self.also == "stop launcher" else list(self.pids())
                stops = False
                self.tell("begins")
                self.signal(signal.SIGSTOP, who)
            due = trains if self.rule == "none" and self.also != "stop launcher" else begins
            if due and time.time() > due + self.watch_s: break
            if job.poll() is not None and not begins: break

    def report(self, tape):
        with gzip.open(tape) as f: first = next(at for at in (json.loads(line).get("at_ns") for line in f) if at) / 1e9
        began, trains = self.told("begins"), self.told("trains")
        label = {"class": self.rule, "accept": self.accept, "ranks": self.ranks, "note": f"{self.args.ranks} GPUs, {self.launcher}, {self.also}".rstrip(", ")}
        if self.rule != "none": label["since_s"] = round((began or time.time()) - first, 1)
        json.dump(label, open(f"{self.args.out}/{self.name}.label.json", "w"))
        lines = [f"== {self.name}: trains {trains and round(trains - first, 1)}, begins {began and round(began - first, 1)}, wanted {self.rule} {self.ranks}"]
        for event in open(f"{self.args.out}/{self.name}.events"):
            lines.append("   " + event.strip()[:400])
        if not trains or (self.rule != "none" and not began):
            log = f"{self.dir}/job.log"
            lines += ["   FAILED: " + line.rstrip() for line in open(log, errors="replace").readlines()[-25:]] if os.path.exists(log) else []
        with open(f"{self.args.out}/told.txt", "a") as f: f.write("\n".join(lines) + "\n")
        print(lines[0], flush=True)
        for line in lines[1:]:
            if "FAILED" in line or '"opened"' in line: print(line[:230], flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("script"); p.add_argument("--bin", required=True); p.add_argument("--out", required=True); p.add_argument("--only")
    p.add_argument("--cpu", action="store_true"); p.add_argument("--until", type=float, default=1e9, help="no job begins later than this many seconds from now")
    p.add_argument("--most", type=float, default=75, help="seconds that a job may take")
    p.add_argument("--ranks", type=int, default=2, help="of each job, one on each GPU")
    args = p.parse_args()
    args.bin, args.out, began = os.path.abspath(args.bin), os.path.abspath(args.out), time.time()
    os.makedirs(args.out, exist_ok=True)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    for name, row in cases_of(args.script).items():
        if args.only and name not in args.only.split(","): continue
        if time.time() > began + args.until: print(f"== {name}: left out"); continue
        Case(args, name, row).run()


main()
