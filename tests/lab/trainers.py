"""Jobs of trainers and schedules, each with one fault or pause: those of docs/ACCURACY.md that were judged once, after those of kinds.py.

torchrun --standalone --nproc-per-node 2 trainers.py CASE --truth /tmp/truth.jsonl --dir /tmp; the cases stand at the end.
"""
import argparse, json, os, signal, socket, sys, time, threading, random, math
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
p = argparse.ArgumentParser()
p.add_argument("case"); p.add_argument("--dir", default="/tmp"); p.add_argument("--truth"); p.add_argument("--cpu", action="store_true")
p.add_argument("--after", type=float, default=13); p.add_argument("--for", dest="length", type=float, default=25)
a = p.parse_args()
rank, local, world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
cuda = not a.cpu
dev = torch.device("cuda", local) if cuda else torch.device("cpu")
if cuda: torch.cuda.set_device(local)
else: torch.set_num_threads(1)
D, L, T, BS = (2048, 8, 1024, 8) if cuda else (64, 2, 32, 2)
dt = torch.bfloat16 if cuda else torch.float32
T0 = time.time()
def truth(event, step):
    with open(a.truth, "a") as f: f.write(json.dumps({"at": time.time(), "case": a.case, "event": event, "rank": rank, "step": step, "pid": os.getpid()}) + "\n")
def sync():
    if cuda: torch.cuda.synchronize()
def init():
    dist.init_process_group("nccl" if cuda else "gloo", device_id=dev if cuda else None)
class Gate:
    """Wall clock agreed once through the store: all ranks see the same step as the first after it."""
    def __init__(s): s.n = 0; s.at = s.end = 1 << 40
    def __call__(s):
        s.n += 1
        if s.n == 3: s.w = time.time()
        if s.n == 7:
            st = dist.distributed_c10d._get_default_store()
            if rank == 0:
                d = (time.time() - s.w) / 4
                k = 7 + max(3, int((a.after - (time.time() - T0)) / d)); st.set("gate", json.dumps([k, k + max(3, int(a.length / d))]))
            s.at, s.end = json.loads(st.get("gate"))
        return s.n == s.at
class Block(nn.Module):
    def __init__(s, d=None):
        super().__init__(); d = d or D
        s.n1 = nn.LayerNorm(d); s.qkv = nn.Linear(d, 3 * d); s.o = nn.Linear(d, d); s.n2 = nn.LayerNorm(d); s.up = nn.Linear(d, 4 * d); s.down = nn.Linear(4 * d, d); s.h = max(1, d // 64)
    def forward(s, x):
        b, t, d = x.shape
        q, k, v = s.qkv(s.n1(x)).view(b, t, 3, s.h, d // s.h).permute(2, 0, 3, 1, 4)
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + s.down(F.gelu(s.up(s.n2(x))))
class Lm(nn.Module):
    def __init__(s, n=None):
        super().__init__(); s.e = nn.Embedding(4096, D); s.b = nn.ModuleList(Block() for _ in range(n or L)); s.f = nn.Linear(D, 4096)
    def forward(s, x, *_):
        x = s.e(x)
        for m in s.b: x = m(x)
        return s.f(x)
def ids(n=None): return torch.randint(0, 4096, (n or BS, T), device=dev)
def lm_loss(m, x): return F.cross_entropy(m(x).float().view(-1, 4096), x.view(-1))
def finish():
    dist.barrier(); dist.destroy_process_group(); sys.exit(0)
def halt(how):
    if how == "sleep": time.sleep(36000)
    if how == "spin":
        n = 0
        while True: n += 1
    if how == "stop": os.kill(os.getpid(), signal.SIGSTOP)
    if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
    if how == "segv": import ctypes; ctypes.string_at(0)
    if how == "exit0": os._exit(0)
    if how == "raise": raise ValueError("Expected input batch_size (8) to match target batch_size (7).")
    if how == "lock": l = threading.Lock(); l.acquire(); l.acquire()
    if how == "socket":
        s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); c = socket.create_connection(s.getsockname()); c.recv(1)
    if how == "fifo": os.mkfifo(f"{a.dir}/shard.fifo"); open(f"{a.dir}/shard.fifo", "rb").read()
    if how == "thread": t = threading.Thread(target=time.sleep, args=(36000,)); t.start(); t.join()
    if how == "oom":
        keep = []
        while True: keep.append(torch.empty(1 << 33, dtype=torch.uint8, device=dev))

def ddp(how=None, bad=None, style="plain", late=0.0, pause=None):
    init(); m = nn.parallel.DistributedDataParallel(Lm().to(dev, dt), device_ids=[local] if cuda else None); o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    g = Gate(); t = time.time(); after = False
    while True:
        begins = g(); after |= begins
        if begins and (rank == bad or (bad is None and rank == 0)): truth("begins", g.n)
        if begins and rank == bad and how: halt(how)
        if begins and pause: pause(m)
        if g.n >= g.end: finish()
        o.zero_grad(); l = lm_loss(m, ids()); l.backward(); o.step()
        if after and rank == bad and late: time.sleep(late)
        v = float(l) if style != "quiet" else 0; sync()
        if after and style == "nan": v = float("nan")
        d = time.time() - t; t = time.time()
        if rank == 0:
            if style == "plain": print(f"epoch 0 | step {g.n:>6d} | loss {v:.4f} | {d*1e3:.1f} ms/step | {BS*T*world/d:,.0f} tok/s", flush=True)
            if style == "nan": print(f"Iter {g.n}: loss={v:.4f}, time={d:.3f}s", flush=True)
        if style == "each": print(f"[rank{rank}] iter {g.n} loss {v:.3f} took {d:.3f}s", flush=True)
def eval0(m):
    if rank == 0:
        e = time.time() + 22
        with torch.no_grad():
            while time.time() < e: m.module(ids()); sync()
    dist.barrier(); sync()
    if rank == 0: truth("ends", 0)
def save0(m):
    if rank == 0:
        e = time.time() + 22; b = os.urandom(8 << 20)
        with open(f"{a.dir}/model.pt", "wb") as f:
            while time.time() < e: f.write(b); f.flush(); os.fsync(f.fileno()); time.sleep(.02)
    dist.barrier(); sync()
    if rank == 0: truth("ends", 0)
def fetch_all(m):
    """All ranks wait for a slow object store: they sleep in recv, and nothing moves."""
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); c = socket.create_connection(s.getsockname()); c.settimeout(36000); c.recv(1)
def compile_all(m):
    torch._dynamo.reset(); e = time.time() + 18; k = 64
    f = torch.compile(lambda z: torch.softmax(F.layer_norm(z @ z.T, [z.shape[0]]).float(), -1).sum())
    while time.time() < e: k += 64; torch._dynamo.reset(); f(torch.randn(k, k, device=dev, dtype=dt))
    if rank == 0: truth("ends", 0)

def slowsteps(how=None, bad=None):
    """Steps of seconds: many micro batches without a collective, then one reduction of all gradients."""
    init(); m = nn.parallel.DistributedDataParallel(Lm().to(dev, dt), device_ids=[local] if cuda else None); o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    st = dist.distributed_c10d._get_default_store(); n = 0; told = False
    while True:
        n += 1; t = time.time(); o.zero_grad()
        if rank == 0: st.set(f"go{n}", "1" if time.time() - T0 < a.after else "2" if time.time() - T0 < a.after + a.length else "3")
        go = st.get(f"go{n}")
        if go == b"2" and not told:
            told = True
            if rank == (bad or 0): truth("begins", n)
            if rank == bad and how: time.sleep(1); halt(how)
        if go == b"3": finish()
        with m.no_sync():
            while time.time() - t < 6: lm_loss(m, ids()).backward(); sync()
        lm_loss(m, ids()).backward(); o.step(); sync()
        if rank == 0: print(f"{time.strftime('%H:%M:%S')} INFO train: update {n} train_loss 2.{900-n} elapsed {time.time()-t:.2f}s", flush=True)

def pipe(schedule="ScheduleInterleaved1F1B", how=None, bad=None):
    from torch.distributed.pipelining import PipelineStage, schedules
    init(); S = getattr(schedules, schedule); many = issubclass(S, schedules.PipelineScheduleMulti); k = 2 if many else 1; mb = 8
    class Part(nn.Module):
        def __init__(s, i): super().__init__(); s.e = nn.Embedding(4096, D) if i == 0 else None; s.b = nn.ModuleList(Block() for _ in range(3)); s.f = nn.Linear(D, 4096) if i == k * world - 1 else None
        def forward(s, x):
            x = s.e(x) if s.e else x
            for b in s.b: x = b(x)
            return s.f(x) if s.f else x
    ix = [rank + j * world for j in range(k)]
    parts = [Part(i).to(dev, dt) for i in ix]
    stages = [PipelineStage(q, i, k * world, dev) for q, i in zip(parts, ix)]
    loss = lambda y, t: F.cross_entropy(y.float().view(-1, 4096), t.view(-1))
    sch = S(stages if many else stages[0], mb, loss_fn=loss); o = torch.optim.SGD([w for q in parts for w in q.parameters()], lr=1e-3); g = Gate(); t = time.time()
    first, last = 0 in ix, (k * world - 1) in ix
    while True:
        if g():
            if rank == (bad if bad is not None else 0): truth("begins", g.n)
            if rank == bad: halt(how)
        if g.n >= g.end: finish()
        o.zero_grad(); ls = []; kw = {}
        x = ids(16)
        if first and last: sch.step(x, target=x, losses=ls)
        elif first: sch.step(x)
        elif last: sch.step(target=x, losses=ls)
        else: sch.step()
        o.step(); sync()
        if last: print(f"iteration {g.n:8d}/ 10000 | elapsed time per iteration (ms): {(time.time()-t)*1e3:.1f} | lm loss: {float(torch.stack(ls).mean()):.6E} |", flush=True)
        t = time.time()

def tp(how=None, bad=None):
    from torch.distributed.tensor.parallel import parallelize_module, ColwiseParallel, RowwiseParallel
    from torch.distributed.device_mesh import init_device_mesh
    init(); mesh = init_device_mesh("cuda" if cuda else "cpu", (world,)); m = Lm().to(dev, dt)
    for b in m.b: parallelize_module(b, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    o = torch.optim.SGD(m.parameters(), lr=1e-3); g = Gate(); torch.manual_seed(1)
    while True:
        if g():
            if rank == (bad or 0): truth("begins", g.n)
            if rank == bad: halt(how)
        if g.n >= g.end: finish()
        o.zero_grad(); l = lm_loss(m, ids()); l.backward(); o.step(); sync()
        if rank == 0: print(json.dumps({"step": g.n, "loss": round(float(l), 4)}), flush=True)

def fsdp1(how=None, bad=None, full=False, style=None):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType, FullStateDictConfig
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    init(); m = FSDP(Lm(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=dev); o = torch.optim.AdamW(m.parameters(), lr=1e-4); g = Gate(); t = time.time()
    while True:
        if g():
            if rank == (bad or 0): truth("begins", g.n)
            if rank == bad: halt(how)
            if full:
                for i in range(3):
                    with FSDP.state_dict_type(m, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)): sd = m.state_dict()
                    if rank == 0: torch.save(sd, f"{a.dir}/full{i}.pt"); time.sleep(2)
                    dist.barrier()
        if g.n >= g.end: finish()
        o.zero_grad(); l = lm_loss(m, ids()); l.backward(); o.step(); v = float(l); d = time.time() - t; t = time.time()
        if rank == 0: print(f"INFO:root:[{g.n}] loss={v:.3f} ({d:.2f} s/it)", flush=True)

def moe(how=None, bad=None, uneven=False):
    init(); ex = Block().to(dev, dt); g = Gate(); t = time.time()
    while True:
        if g():
            if rank == (bad or 0): truth("begins", g.n)
            if rank == bad: halt(how)
        if g.n >= g.end: finish()
        x = torch.randn(world * 4, T, D, device=dev, dtype=dt)
        for _ in range(6):
            k = random.Random(g.n).randint(1, 7) if uneven else 4
            sp = [k, 8 - k] if world == 2 else [4] * world
            mine = [4] * world; s_in = sp if rank == 0 else list(reversed(sp)); s_in = s_in if uneven else mine
            cnt = torch.tensor(s_in, device=dev); got = torch.empty_like(cnt); dist.all_to_all_single(got, cnt); out = got.tolist()
            y = torch.empty(sum(out), T, D, device=dev, dtype=dt); dist.all_to_all_single(y, x, out, s_in)
            with torch.no_grad(): y = ex(y)
            x = torch.empty(sum(s_in), T, D, device=dev, dtype=dt); dist.all_to_all_single(x, y, s_in, out)
        sync(); d = time.time() - t; t = time.time()
        if rank == 0: print(f"[{time.strftime('%Y-%m-%d %H:%M:%S,000')}] [INFO] [trainer] global_step={g.n} samples/sec={8*world/d:.1f}", flush=True)

def serve():
    """An inference worker group: rank 0 waits on a socket for requests, the others in a broadcast; no web server's log."""
    init(); m = Lm().to(dev, dt).eval(); e = T0 + a.after; quiet = False
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
    if rank == 0:
        print("model loaded, 8 layers, tp=2", flush=True)
        def ask(port):
            c = socket.create_connection(("127.0.0.1", port)); e = T0 + a.after
            while time.time() < e: c.send(b"1"); time.sleep(random.random() * .3)
            truth("begins", 0); time.sleep(26)
            for _ in range(10): c.send(b"1"); time.sleep(.2)
            c.send(b"0"); time.sleep(1)
        threading.Thread(target=ask, args=(s.getsockname()[1],), daemon=True).start(); c, _ = s.accept()
    told = False
    while True:
        go = torch.ones(1, device=dev)
        if rank == 0:
            if c.recv(1) == b"0": go.zero_()
        dist.broadcast(go, 0); sync()
        if go.item() == 0: finish()
        with torch.no_grad():
            for _ in range(8): y = m(ids(1)); dist.all_reduce(y)
        sync()

class Text(torch.utils.data.Dataset):
    def __init__(s, bad=None, how=None): s.bad, s.how, s.t = bad, how, time.time()
    def __len__(s): return 1 << 20
    def __getitem__(s, i):
        if s.how and rank == s.bad and time.time() - T0 > a.after:
            f = f"{a.dir}/said"
            if not os.path.exists(f): open(f, "w").close(); truth("begins", 0)
            halt(s.how)
        x = torch.randint(0, 4096, (T,)); return {"input_ids": x, "labels": x}
def hf(bad=None, how=None, evaluate=False, tqdm=True, save=False, workers=0):
    from transformers import Trainer, TrainingArguments, LlamaConfig, LlamaForCausalLM, TrainerCallback
    m = LlamaForCausalLM(LlamaConfig(vocab_size=4096, hidden_size=D // 2, intermediate_size=2 * D, num_hidden_layers=4, num_attention_heads=max(1, D // 128), max_position_embeddings=T))
    class Say(TrainerCallback):
        def on_evaluate(s, *_, **k):
            if rank == 0: truth("ends", 0)
        def on_step_end(s, ar, st, c, **k):
            if time.time() - T0 > a.after and not getattr(s, "did", 0) and bad is None:
                # decided on all ranks alike by broadcast of rank 0's clock
                pass
            x = torch.tensor([time.time() - T0], device=dev); dist.broadcast(x, 0); now = x.item()
            if now > a.after and not getattr(s, "did", 0):
                s.did = 1
                if bad is None and rank == 0: truth("begins", st.global_step)
                if evaluate: c.should_evaluate = True
                if save: c.should_save = True
            if now > a.after + a.length: c.should_training_stop = True
            return c
    kw = {"eval_strategy": "no"}
    ar = TrainingArguments(f"{a.dir}/out", per_device_train_batch_size=BS, max_steps=100000, logging_steps=5, save_strategy="no", report_to=[], disable_tqdm=not tqdm, bf16=cuda, use_cpu=not cuda, dataloader_num_workers=workers, ddp_find_unused_parameters=False, per_device_eval_batch_size=BS, **kw)
    ev = torch.utils.data.Subset(Text(), range(16000 if cuda else 60))
    Trainer(m, ar, train_dataset=Text(bad, how), eval_dataset=ev, callbacks=[Say()]).train()
def light(bad=None, how=None, evaluate=False):
    import lightning as pl
    class M(pl.LightningModule):
        def __init__(s): super().__init__(); s.m = Lm(4)
        def training_step(s, b, i):
            l = lm_loss(s.m, b["input_ids"]); s.log("train_loss", l, prog_bar=True)
            x = torch.tensor([time.time() - T0], device=dev); dist.broadcast(x, 0); now = x.item()
            if now > a.after and not getattr(s, "did", 0):
                s.did = 1
                if rank == (bad or 0): truth("begins", i)
                if rank == bad: halt(how)
            if now > a.after + a.length: s.trainer.should_stop = True
            return l
        def validation_step(s, b, i): s.log("val_loss", lm_loss(s.m, b["input_ids"]), sync_dist=True)
        def configure_optimizers(s): return torch.optim.AdamW(s.parameters(), lr=1e-4)
    dl = lambda n: torch.utils.data.DataLoader(torch.utils.data.Subset(Text(), range(n)), batch_size=BS)
    t = pl.Trainer(accelerator="gpu" if cuda else "cpu", devices=world, strategy="ddp", max_steps=100000, precision="bf16-mixed" if cuda else 32, logger=False, enable_checkpointing=False, default_root_dir=a.dir, **({"val_check_interval": 300, "limit_val_batches": 2500} if evaluate else {"limit_val_batches": 0}))
    t.fit(M(), dl(1 << 17), dl(1 << 17) if evaluate else None)

cases = {
 "hf-none": lambda: hf(evaluate=True, save=True), "hf-socket1": lambda: hf(1, "socket"), "hf-raise1": lambda: hf(1, "raise", tqdm=False), "hf-loader0": lambda: hf(0, "socket", workers=2),
 "pl-lock0": lambda: light(0, "lock"), "pl-none": lambda: light(evaluate=True),
 "pp-int-sleep1": lambda: pipe(how="sleep", bad=1), "pp-int-spin0": lambda: pipe(how="spin", bad=0), "pp-gpipe-fifo1": lambda: pipe("ScheduleGPipe", "fifo", 1), "pp-int-none": lambda: pipe(), "pp-1f1b-none": lambda: pipe("Schedule1F1B"),
 "tp-spin0": lambda: tp("spin", 0), "tp-thread1": lambda: tp("thread", 1),
 "fsdp1-segv1": lambda: fsdp1("segv", 1), "fsdp1-stop0": lambda: fsdp1("stop", 0), "fsdp1-full": lambda: fsdp1(full=True), "fsdp1-oom1": lambda: fsdp1("oom", 1),
 "slow-none": lambda: slowsteps(), "slow-socket1": lambda: slowsteps("socket", 1),
 "moe-uneven-none": lambda: moe(uneven=True), "moe-sleep0": lambda: moe("sleep", 0, True),
 "ddp-late1": lambda: ddp(bad=1, late=.08), "ddp-exit1": lambda: ddp("exit0", 1, style="each"), "ddp-kill0": lambda: ddp("kill", 0), "ddp-nan": lambda: ddp(style="nan"), "ddp-fifo0": lambda: ddp("fifo", 0, style="quiet"),
 "ddp-eval0": lambda: ddp(pause=eval0), "ddp-save0": lambda: ddp(pause=save0), "ddp-fetch-all": lambda: ddp(pause=fetch_all), "ddp-compile-all": lambda: ddp(pause=compile_all),
 "serve": serve,
}
cases[a.case]()
