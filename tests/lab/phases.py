"""Jobs with formats and phases of their own, each with one fault or pause: those of docs/ACCURACY.md that were judged once, after those of trainers.py.

torchrun --standalone --nproc-per-node 2 phases.py CASE --truth /tmp/truth.jsonl --dir /tmp; the cases stand at the end. They train until somebody ends them.
"""
import contextlib, json, logging, math, os, random, signal, socket, subprocess, sys, threading, time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from lab import Job
j = Job(after=13)
a, rank, local, world, cuda, dev, dt, T0 = j.a, j.rank, j.local, j.world, j.cuda, j.dev, j.dt, j.t0
D, T, B, V = j.D, j.T, j.B, j.V
init, since, sync, truth, started, Once, Agreed, Model, tokens, ce, ddp = j.init, j.since, j.sync, j.truth, j.started, j.once, j.agreed, j.model, j.tokens, j.ce, j.ddp
def halt(how):
    truth("begins")
    if how == "lock": k = threading.Lock(); k.acquire(); k.acquire()
    if how == "stop": os.kill(os.getpid(), signal.SIGSTOP)
    if how == "segv": import ctypes; ctypes.string_at(0)
    if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
    if how == "socket": x, y = socket.socketpair(); x.recv(1)
    if how == "child": subprocess.run(["sleep", "36000"])
    if how == "queue": import queue; queue.Queue().get()

def nano():
    """nanoGPT: a line each ten iterations, micro batches, metrics of rank 0."""
    init(); m = ddp(Model()); o = torch.optim.AdamW(m.parameters(), lr=6e-4, fused=cuda); bad = Once(); t = time.time(); mfu = -1.0
    if rank == 0: print("tokens per iteration will be: 65,536\nnum decayed parameter tensors: 50, with 124,354,560 parameters\nusing fused AdamW: True", flush=True)
    for n in range(1 << 30):
        started(n)
        if rank == 1 and bad(): halt("lock")
        for k in range(4):
            m.require_backward_grad_sync = k == 3
            l = ce(m(x := tokens()), x) / 4; l.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0); o.step(); o.zero_grad(set_to_none=True)
        d = time.time() - t; t = time.time()
        if n % 10 == 0 and rank == 0: print(f"iter {n}: loss {l.item() * 4:.4f}, time {d * 1000:.2f}ms, mfu {mfu * 100:.2f}%", flush=True)

def titan(how=None):
    """FSDP2 with torchtitan's line."""
    from torch.distributed.fsdp import fully_shard
    init(); m = Model(12).to(dev)
    for l in m.layers: fully_shard(l)
    fully_shard(m); o = torch.optim.AdamW(m.parameters(), lr=3e-4); bad = Once(); t = time.time()
    logging.basicConfig(level=logging.INFO, format="[titan] %(asctime)s - %(name)s - %(levelname)s - %(message)s")
    for n in range(1, 1 << 30):
        started(n)
        if rank == 0 and bad(): halt("stop")
        o.zero_grad(); l = ce(m(x := tokens(4)), x); l.backward(); o.step()
        if n % 5 == 0 or n == 1:
            v = l.detach().clone(); dist.all_reduce(v); tps = 5 * 4 * T / (time.time() - t); t = time.time()
            logging.info(f"\033[31mstep: {n:2}  \033[32mloss: {v.item() / world:7.4f}  \033[38;2;180;60;0mgrad_norm: {0.9 + random.random() / 10:7.4f}  \033[33mmemory: 21.44GiB(15.33%)  \033[34mtps: {round(tps):,}  \033[36mtflops: {tps * 1e-3:,.2f}  \033[35mmfu: {tps * 1e-4:.2f}%\033[39m")

def zero():
    """ZeRO stage 2 by hand: gradients are reduced and scattered in one bucket, weights gathered; DeepSpeed's lines each ten steps."""
    init(); m = Model(8).to(dev, dt); ps = list(m.parameters()); size = sum(q.numel() for q in ps); size += -size % world; part = size // world
    master = torch.zeros(part, device=dev); mom = torch.zeros(part, device=dev); bad = Once(); t = time.time()
    log = logging.getLogger("DeepSpeed"); h = logging.StreamHandler(sys.stdout); h.setFormatter(logging.Formatter("[%(asctime)s] [%(levelname)s] [%(filename)s:%(lineno)d:%(funcName)s] %(message)s")); log.addHandler(h); log.setLevel(logging.INFO)
    def log_dist(s):
        if rank == 0: log.info("[Rank 0] " + s)
    flat = torch.zeros(size, device=dev, dtype=dt); mine = torch.zeros(part, device=dev, dtype=dt)
    for n in range(1, 1 << 30):
        started(n)
        if rank == 1 and bad(): halt("socket")
        l = ce(m(x := tokens()), x); l.backward(); at = 0
        for q in ps: flat[at:at + q.numel()] = q.grad.view(-1); q.grad = None; at += q.numel()
        dist.reduce_scatter_tensor(mine, flat); mom.mul_(.9).add_(mine.float(), alpha=.1); master.add_(mom, alpha=-1e-5)
        dist.all_gather_into_tensor(flat, master.to(dt)); sync()
        if n % 10 == 0: log_dist(f"step={n}, skipped=0, lr=[9.9e-05], mom=[[0.9, 0.95]]"); log_dist(f"rank=0 time (ms) | fwd: 22.10 | bwd: 41.02 | step: {(time.time() - t) * 100 - 63:.2f}"); t = time.time()

class Rows(torch.utils.data.Dataset):
    def __init__(s, bad=None): s.bad, s.me = bad, os.getpid()
    def __len__(s): return 1 << 22
    def __getitem__(s, i):
        if rank == s.bad and os.getpid() != s.me and since() > a.after:
            try: os.close(os.open(f"{a.dir}/told", os.O_CREAT | os.O_EXCL)); truth("begins")
            except FileExistsError: pass
            os.kill(os.getpid(), signal.SIGSTOP)
        x = torch.randint(0, V, (T,)); return {"input_ids": x, "labels": x}
def hf():
    """HF Trainer: four micro batches a step, a line each 50 steps, no bar; then the loader's workers of rank 1 are stopped."""
    from transformers import Trainer, TrainingArguments, GPT2Config, GPT2LMHeadModel
    m = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_positions=T, n_embd=D // 2, n_layer=4, n_head=max(1, D // 128)))
    ar = TrainingArguments(f"{a.dir}/out", per_device_train_batch_size=4, gradient_accumulation_steps=4, max_steps=100000, logging_steps=50, save_strategy="no", report_to=[], disable_tqdm=True, bf16=cuda, use_cpu=not cuda, dataloader_num_workers=2, ddp_find_unused_parameters=False)
    Trainer(m, ar, train_dataset=Rows(1)).train()

def gan():
    """Two networks, two optimizers, the line of PyTorch's DCGAN example."""
    init(); G, Ds = ddp(nn.Sequential(nn.Linear(128, 2 * D), *[q for _ in range(5) for q in (nn.ReLU(), nn.Linear(2 * D, 2 * D))])), ddp(nn.Sequential(*[q for _ in range(5) for q in (nn.Linear(2 * D, 2 * D), nn.LeakyReLU(.2))], nn.Linear(2 * D, 1)))
    oG, oD = torch.optim.Adam(G.parameters(), lr=2e-4), torch.optim.Adam(Ds.parameters(), lr=2e-4); bad = Once(); b = 8192 if cuda else 16
    for e in range(25):
        for i in range(1583):
            started(i + e)
            if rank == 1 and bad(): halt("segv")
            real = torch.randn(b, 2 * D, device=dev, dtype=dt); z = torch.randn(b, 128, device=dev, dtype=dt)
            oD.zero_grad(); dr = Ds(real); er = F.softplus(-dr.float()).mean(); er.backward(); f = G(z); df = Ds(f.detach()); ef = F.softplus(df.float()).mean(); ef.backward(); oD.step()
            oG.zero_grad(); df2 = Ds(f); eg = F.softplus(-df2.float()).mean(); eg.backward(); oG.step(); sync()
            if i % 10 == 0 and rank == 0: print("[%d/%d][%d/%d]\tLoss_D: %.4f\tLoss_G: %.4f\tD(x): %.4f\tD(G(z)): %.4f / %.4f" % (e, 25, i, 1583, (er + ef).item(), eg.item(), dr.sigmoid().mean().item(), df.sigmoid().mean().item(), df2.sigmoid().mean().item()), flush=True)

def rl(how=None):
    """Four seconds of rollouts without a collective, then two seconds of updates; a line of a table each iteration."""
    init(); m = ddp(Model(6)); o = torch.optim.Adam(m.parameters(), lr=1e-5); bad = Once()
    for n in range(1, 1 << 30):
        started(n); t = time.time(); m.eval()
        with torch.no_grad():
            while time.time() - t < 3.5 + random.random():
                for _ in range(4): m.module(tokens(4)).argmax(-1).cpu()
                x = 0.0
                for i in range(200000): x = x * .99 + i % 7
                if rank == 1 and how and bad(): halt(how)
        r = torch.tensor([random.random()], device=dev); dist.all_reduce(r); t1 = time.time(); m.train()
        for _ in range(24): o.zero_grad(); l = ce(m(x := tokens()), x); l.backward(); o.step(); sync()
        if rank == 0: print(f"| iteration {n} | ep_rew_mean {r.item() * 10:.2f} | rollout {t1 - t:.1f}s | update {time.time() - t1:.1f}s | approx_kl 0.0{n % 10}12 | value_loss {l.item():.3f} |", flush=True)

def long(how=None):
    """Steps of four seconds over one long sequence, in chunks; a dictionary is printed for each."""
    init(); m = ddp(Model(10)); o = torch.optim.AdamW(m.parameters(), lr=1e-5); bad = Once(a.after + 6)
    for n in range(1, 1 << 30):
        started(n); t = time.time(); o.zero_grad()
        if rank == 1 and how and bad(): time.sleep(1.7); halt(how)
        with m.no_sync():
            while time.time() - t < 3.9: l = ce(m(x := tokens(4 if cuda else 1)), x); l.backward(); sync()
        l = ce(m(x := tokens()), x); l.backward(); o.step(); sync()
        if rank == 0: print({"global_step": n, "lm_loss": round(l.item(), 4), "seq_len": 131072, "step_s": round(time.time() - t, 2)}, flush=True)

def nosync():
    """Two micro batches without a reduction, then one with it, behind a bar of tqdm; rank 1 becomes late."""
    from tqdm import tqdm
    init(); m = ddp(Model(6)); o = torch.optim.SGD(m.parameters(), lr=1e-4); bad = Once(); bar = tqdm(range(100000), desc="train", disable=rank != 0, mininterval=.5)
    for n in bar:
        started(n)
        if rank == 1 and bad(): truth("begins", n)
        for k in range(3):
            with m.no_sync() if k < 2 else contextlib.nullcontext(): l = ce(m(x := tokens()), x); l.backward()
            if rank == 1 and bad.did: time.sleep(.03)
        o.step(); o.zero_grad(); bar.set_postfix(loss=f"{l.item():.3f}", refresh=False)

def distil():
    """A teacher without gradients beside the student; the loss is no number any more after a while."""
    init(); teacher = Model(10).to(dev, dt).eval(); m = ddp(Model(4)); o = torch.optim.AdamW(m.parameters(), lr=1e-4); bad = Agreed(); is_bad = False
    log = logging.getLogger("distill"); logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)-8s | %(name)s:%(funcName)s:%(lineno)d - %(message)s")
    for n in range(1, 1 << 30):
        started(n)
        if bad(n):
            is_bad = True
            if rank == 0: truth("begins", n)
        with torch.no_grad(): y = teacher(x := tokens())
        z = m(x); kd = F.kl_div(F.log_softmax(z.float(), -1), F.softmax(y.float(), -1), reduction="batchmean") / T; l = .5 * kd + .5 * ce(z, x)
        if is_bad: l = l * float("nan")
        o.zero_grad(); l.backward(); o.step()
        if n % 4 == 0 and rank == 0: log.info(f"Epoch 1/3 | Batch {n}/25000 | KD Loss: {kd.item() * (float('nan') if is_bad else 1):.4f} | Total Loss: {l.item():.4f} | LR: 1.00e-04")

def clip(how=None):
    """Contrastive: embeddings of all ranks are gathered each step; OpenCLIP's line."""
    init(); m = ddp(nn.Sequential(*[q for _ in range(8) for q in (nn.Linear(2 * D, 2 * D), nn.GELU())], nn.Linear(2 * D, 256))); o = torch.optim.AdamW(m.parameters(), lr=1e-4); bad = Once(); b = 8192 if cuda else 16; t = time.time()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)s | %(message)s", datefmt="%Y-%m-%d,%H:%M:%S")
    for n in range(1, 1 << 30):
        started(n); f = F.normalize(m(torch.randn(b, 2 * D, device=dev, dtype=dt)), dim=-1)
        if rank == 1 and how and bad(): truth("begins", n); dist.all_reduce(f.detach().clone()); sync()
        every = [torch.empty_like(f) for _ in range(world)]; dist.all_gather(every, f.detach()); every[rank] = f
        z = f.float() @ torch.cat(every).float().T * 10; l = F.cross_entropy(z, torch.arange(b, device=dev) + rank * b); o.zero_grad(); l.backward(); o.step(); sync()
        if n % 10 == 0 and rank == 0:
            d = (time.time() - t) / 10; t = time.time()
            logging.info(f"Train Epoch: 0 [{n * b * world:>9}/100000000 (0%)] Data (t): 0.001 Batch (t): {d:.3f}, {b * world / d:#g}/s, {b / d:#g}/s/gpu LR: 0.000100 Logit Scale: 10.000 Contrastive_loss: {l.item():#.5g} ({l.item():#.5g}) Loss: {l.item():#.5g} ({l.item():#.5g})")

def stream():
    """Each rank reads its batches from a server of data, which stops to send; a line of JSON each 20 steps."""
    init(); m = ddp(Model(6)); o = torch.optim.SGD(m.parameters(), lr=1e-4); st = dist.distributed_c10d._get_default_store()
    if rank == 0:
        code = """import json, select, socket, sys, time
s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True); cs = [s.accept()[0] for _ in range(int(sys.argv[1]))]
while time.time() < float(sys.argv[3]):
    for c in select.select(cs, [], [], .1)[0]:
        if not c.recv(1): sys.exit()
        c.sendall(bytes(int(sys.argv[2])))
with open(sys.argv[4], "a") as f: f.write(json.dumps({"at": time.time(), "case": "stream-all", "event": "begins", "rank": 0, "step": 0, "pid": 0}) + "\\n")
time.sleep(45)"""
        clean = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME")}
        s = subprocess.Popen([sys.executable, "-c", code, str(world), str(T * B), str(T0 + a.after), a.truth, a.dir], stdout=subprocess.PIPE, env=clean, start_new_session=True); st.set("port", s.stdout.readline().strip())
    c = socket.create_connection(("127.0.0.1", int(st.get("port")))); f = c.makefile("rb")
    for n in range(1, 1 << 30):
        started(n); c.sendall(b"g"); x = torch.frombuffer(bytearray(f.read(T * B)), dtype=torch.uint8).long().view(B, T).to(dev)
        o.zero_grad(); l = ce(m(x), x); l.backward(); o.step(); sync()
        if n % 20 == 0 and rank == 0: print(json.dumps({"ts": round(time.time(), 3), "num_updates": n, "train_nll": round(l.item(), 4), "ups": 12.1, "gnorm": .42}), flush=True)

def silent(how=None, samples=False):
    """Nothing is printed at all. Healthy, rank 0 draws samples for some seconds now and then."""
    init(); m = ddp(Model(8)); o = torch.optim.SGD(m.parameters(), lr=1e-4); bad = Once(); draw = Agreed(each=12)
    for n in range(1, 1 << 30):
        started(n)
        if how and rank == 0 and bad(): halt(how)
        if samples and draw(n):
            if rank == 0: truth("begins", n)
            e = time.time() + 7
            if rank == 0:
                with torch.no_grad():
                    while time.time() < e: m.module(tokens(1)).argmax(-1).cpu()
            dist.barrier(); sync()
            if rank == 0: truth("ends", n)
        o.zero_grad(); l = ce(m(x := tokens()), x); l.backward(); o.step(); sync()

def filelog():
    """Metrics go to a file of its own each 30 s, nothing else is printed; rank 0 calls a program that does not end."""
    init(); m = ddp(Model(8), gradient_as_bucket_view=True); o = torch.optim.AdamW(m.parameters(), lr=1e-4); bad = Once(a.after + 2); t = T0 - 25
    h = logging.FileHandler(f"{a.dir}/run.log"); h.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s")); log = logging.getLogger("run"); log.addHandler(h); log.setLevel(logging.INFO)
    for n in range(1, 1 << 30):
        started(n)
        if rank == 0 and bad(): halt("child")
        o.zero_grad(); l = ce(m(x := tokens()), x); l.backward(); o.step(); sync()
        if rank == 0 and time.time() - t > 30: t = time.time(); log.info(f"updates={n} nll={l.item():.4f} tokens={n * B * T * world}")

def offload():
    """FSDP2 whose weights and optimizer live in host memory: the GPU idles for most of a step."""
    from torch.distributed.fsdp import fully_shard, CPUOffloadPolicy
    if cuda: dist.init_process_group("cpu:gloo,cuda:nccl")
    else: dist.init_process_group("gloo")
    m = Model(10)
    for l in m.layers: fully_shard(l, offload_policy=CPUOffloadPolicy()) if cuda else fully_shard(l)
    fully_shard(m, offload_policy=CPUOffloadPolicy()) if cuda else fully_shard(m)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4); t = time.time()
    for n in range(1, 1 << 30):
        started(n); o.zero_grad(); l = ce(m(x := tokens(2)), x); l.backward(); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        if rank == 0: print(f"Step: {n} Loss: {v:.4f} Step time: {d:.2f} sec Peak mem: 6.1 GB", flush=True)

def light():
    """Lightning without a bar: a file of metrics, an evaluation and a checkpoint each 120 batches."""
    import lightning as pl
    from lightning.pytorch.loggers import CSVLogger
    class M(pl.LightningModule):
        def __init__(s): super().__init__(); s.m = Model(6)
        def training_step(s, b, i):
            started(s.global_step); l = ce(s.m(b["input_ids"]), b["input_ids"]); s.log("train_loss", l); return l
        def validation_step(s, b, i): s.log("val_loss", ce(s.m(b["input_ids"]), b["input_ids"]), sync_dist=True)
        def on_validation_start(s):
            if rank == 0: truth("begins", s.global_step)
        def on_validation_end(s):
            if rank == 0: truth("ends", s.global_step)
        def configure_optimizers(s): return torch.optim.AdamW(s.parameters(), lr=1e-4)
    dl = lambda: torch.utils.data.DataLoader(Rows(), batch_size=B, num_workers=2)
    pl.Trainer(accelerator="gpu" if cuda else "cpu", devices=world, strategy="ddp", max_steps=100000, precision="bf16-mixed" if cuda else 32, logger=CSVLogger(a.dir), enable_progress_bar=False, enable_model_summary=False, default_root_dir=a.dir, val_check_interval=120 if cuda else 20, limit_val_batches=150 if cuda else 20, num_sanity_val_steps=0, log_every_n_steps=10).fit(M(), dl(), dl())

def join():
    """Each epoch rank 1 runs out of data seconds before rank 0; it shadows the reductions until all are done."""
    from torch.distributed.algorithms.join import Join
    init(); m = ddp(Model(6)); o = torch.optim.SGD(m.parameters(), lr=1e-4)
    for e in range(1 << 20):
        with Join([m]):
            for i in range((60 if cuda else 12) * (1 if rank else 4)):
                started(i + e + 1)
                if i == 60 and rank == 0: truth("begins", i)
                o.zero_grad(); l = ce(m(x := tokens()), x); l.backward(); o.step(); sync()
                if rank == 0 and i % 10 == 0: print(f"Epoch: [{e}][{i:4d}/240]\tTime  0.082 ( 0.083)\tLoss {l.item():.4e} ({l.item():.4e})\tAcc@1   0.78 (  0.71)", flush=True)
        if rank == 0: truth("ends", e)

def save0():
    """Rank 0 alone writes a checkpoint for six seconds now and then, and says so only when it is done; the others wait in a barrier."""
    init(); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4); now = Agreed(each=9)
    for n in range(1, 1 << 30):
        started(n)
        if now(n):
            if rank == 0:
                truth("begins", n); e = time.time() + 6; w = os.urandom(4 << 20)
                with open(f"{a.dir}/step{n}.bin", "wb") as f:
                    while time.time() < e: f.write(w); f.flush(); os.fsync(f.fileno()); time.sleep(.02)
            dist.barrier(); sync()
            if rank == 0: truth("ends", n); print(f"wrote {a.dir}/step{n}.bin", flush=True)
        o.zero_grad(); l = ce(m(x := tokens()), x); l.backward(); o.step(); v = l.item()
        if rank == 0: print(f"n={n:>6} nll={v:.5f}", flush=True)

def evaluate():
    """All ranks evaluate for fifteen seconds with metrics on the CPU, and gather objects at the end; nothing is printed of it."""
    init(); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4); now = Agreed(); t = time.time()
    for n in range(1, 1 << 30):
        started(n)
        if now(n):
            if rank == 0: truth("begins", n)
            e = time.time() + 15 + rank * 2; hits = {}
            with torch.no_grad():
                while time.time() < e:
                    for row in m.module(tokens(2)).argmax(-1).cpu().tolist():
                        for k in row: hits[k] = hits.get(k, 0) + 1
            out = [None] * world; dist.all_gather_object(out, hits); sync()
            if rank == 0: truth("ends", n)
        o.zero_grad(); l = ce(m(x := tokens()), x); l.backward(); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        if rank == 0: print(f"[GPU0] Epoch 3 | Batch {n} | Loss {v:.4f} | {d * 1e3:.0f} ms/batch", flush=True)

cases = {
 "nano-lock1": nano, "titan-stop0": titan, "zero-socket1": zero, "hf-workers1": hf, "gan-segv1": gan, "rl-child1": lambda: rl("child"), "long-kill1": lambda: long("kill"),
 "nosync-late1": nosync, "distil-nan": distil, "clip-mismatch": lambda: clip("mismatch"), "stream-all": stream, "silent-queue0": lambda: silent("queue"), "filelog-child0": filelog,
 "offload-none": offload, "light-none": light, "rl-none": rl, "join-none": join, "save0-none": save0, "evaluate-none": evaluate, "long-none": long, "silent-none": lambda: silent(samples=True),
}
cases[a.case]()
