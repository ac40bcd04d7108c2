"""Jobs that stand, slow down or wait for reasons of their own: those of docs/ACCURACY.md that were judged once, after those of phases.py.

`live.py causes.py` runs each beside the program. They train until somebody ends them. What an expert would say of each was written down before the first of
them ran: its rule, others that are right, too, and the ranks to blame.
"""
# Name: (launcher, seconds to watch after the fault, or after the first step of a healthy job, rule, others, ranks)
CASES = {
    "ulysses-stdin1": ("torchrun", 17, "hang-rank-absent", [], [1]),
    "tpasync-baton0": ("torchrun", 17, "hang-rank-absent", [], [0]),
    "syncbn-flock1": ("torchrun", 17, "hang-rank-absent", ["storage-hang"], [1]),
    "output-stuck0": ("torchrun, output stuck", 22, "hang-rank-absent", [], [0]),
    "accel-worker1": ("accelerate", 7, "python-exception", ["rank-exited"], [1]),
    "bash-abort1": ("bash", 8, "rank-exited", ["python-exception"], [1]),
    "spawn-zero1": ("spawn", 8, "python-exception", ["rank-exited"], [1]),
    "mixed-barrier1": ("torchrun", 17, "hang-rank-absent", ["collective-mismatch"], [1]),
    "destroy1": ("torchrun", 17, "hang-rank-absent", [], [1]),
    "restart-sleep1": ("torchrun, restarts", 36, "hang-rank-absent", [], [1]),
    "tenant0": ("torchrun, tenant", 20, "straggler", ["slow-steps"], [0]),
    "pinned-all": ("torchrun", 20, "host-cpu-contention", ["slow-steps", "input-stall"], []),
    "gradspike": ("torchrun", 8, "loss-spike", [], []),
    "beside-hang1": ("torchrun, beside", 17, "hang-rank-absent", [], [1]),
    "wds-pipe0": ("torchrun", 17, "hang-rank-absent", ["input-stall"], [0]),
    "slowread1": ("torchrun", 20, "straggler", ["input-stall", "slow-steps"], [1]),
    "suspended-all": ("torchrun, stop all", 10, "rank-stopped", [], []),
    "curriculum-none": ("torchrun", 32, "none", [], []),
    "often-none": ("torchrun", 26, "none", [], []),
    "prepare-none": ("torchrun", 10, "none", [], []),
    "launcher-none": ("torchrun, stop launcher", 14, "none", [], []),
    "accel-none": ("accelerate", 26, "none", [], []),
    "profile-none": ("torchrun", 28, "none", [], []),
    "lastrank-none": ("torchrun", 32, "none", [], []),
    "local-none": ("torchrun", 28, "none", [], []),
    "kernel1": ("torchrun", 22, "hang-rank-absent", ["hang-symmetric", "collective-mismatch"], [1]),
}

import ctypes, datetime, fcntl, json, logging, os, random, subprocess, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from lab import Job, Layer
from lab import Model as Lm
j = Job(after=11)
a, rank, local, world, cuda, dev, dt = j.a, j.rank, j.local, j.world, j.cuda, j.dev, j.dt
D, T, B, V = j.D, j.T, j.B, j.V
init, since, sync, truth, started, Once, Agreed, Model, tokens, ce, ddp = j.init, j.since, j.sync, j.truth, j.started, j.once, j.agreed, j.model, j.tokens, j.ce, j.ddp
zero = lambda *t: print(*t, flush=True) if rank == 0 else None

def train(m, o, x, scale=1.0):
    o.zero_grad(); l = ce(m(x), x); (l * scale).backward(); return l

class Swap(torch.autograd.Function):
    """From a part of the sequence with all heads to the whole of it with some of them, and back."""
    @staticmethod
    def forward(ctx, x, into_heads):
        ctx.back = not into_heads; b, h, t, d = x.shape
        parts = x.view(b, world, h // world, t, d).transpose(0, 1) if into_heads else x.view(b, h, world, t // world, d).permute(2, 0, 1, 3, 4)
        out = torch.empty_like(parts := parts.contiguous()); dist.all_to_all_single(out, parts)
        return out.permute(1, 2, 0, 3, 4).reshape(b, h // world, t * world, d) if into_heads else out.transpose(0, 1).reshape(b, h * world, t // world, d)
    @staticmethod
    def backward(ctx, g): return Swap.apply(g.contiguous(), ctx.back), None

class UlyssesLayer(Layer):
    def attend(s, q, k, v): return Swap.apply(super().attend(*[Swap.apply(y.contiguous(), True) for y in (q, k, v)]).contiguous(), False)

def ulysses():
    """Sequence parallel by AlltoAll, as DeepSpeed-Ulysses does; a breakpoint that was left in waits for input."""
    init(); m = ddp(Lm(V, D if cuda else 128, 6, UlyssesLayer)); o = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=cuda); bad = Once(); t = time.time()
    for n in range(1, 1 << 30):
        started(n)
        if rank == 1 and bad(): truth("begins", n); input("(Pdb) ")
        l = train(m, o, tokens(2)); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        zero(f"[{time.strftime('%m/%d %H:%M:%S')} ulysses]: global step {n:>6}   lm loss {v:.6f}   seq 262144   {d:.4f} s/step")

class Gather(torch.autograd.Function):
    """The whole sequence before a layer whose weights are split; its gradient is reduced and scattered. Both run beside a product."""
    @staticmethod
    def forward(ctx, x):
        out = x.new_empty(x.shape[0] * world, *x.shape[1:]); h = dist.all_gather_into_tensor(out, x.contiguous(), async_op=True); x @ x.mT; h.wait(); return out
    @staticmethod
    def backward(ctx, g):
        out = g.new_empty(g.shape[0] // world, *g.shape[1:]); h = dist.reduce_scatter_tensor(out, g.contiguous(), async_op=True); g @ g.mT; h.wait(); return out
class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return Gather.backward(ctx, x)
    @staticmethod
    def backward(ctx, g): return Gather.forward(ctx, g)

def tpasync():
    """Tensor and sequence parallel with asynchronous gathers; rank 0 waits for a lock file that a killed build left behind."""
    init(); k = 4 * D // world; ws = [(nn.Parameter(torch.randn(D, k, device=dev, dtype=dt) * .02), nn.Parameter(torch.randn(k, D, device=dev, dtype=dt) * .02)) for _ in range(12)]
    o = torch.optim.SGD([w for p in ws for w in p], lr=1e-5); bad = Once(); lock = f"{a.dir}/fused_ext.lock"; open(lock, "w").close()
    for n in range(1, 1 << 30):
        started(n)
        if rank == 0 and bad():
            truth("begins", n)
            while os.path.exists(lock): time.sleep(.1)
        x = torch.randn(T * B // 2, D, device=dev, dtype=dt)
        for up, down in ws: x = x + Scatter.apply(F.gelu(Gather.apply(F.layer_norm(x, (D,))) @ up) @ down)
        o.zero_grad(); l = x.float().square().mean(); l.backward(); o.step(); sync()
        if n % 5 == 0: zero(f" iteration {n:8d}/  500000 | consumed samples: {n * 8:12d} | elapsed time per iteration (ms): {90 + random.random():.1f} | learning rate: 1.000000E-05 | lm loss: {l.item():.6E} | loss scale: 1.0 | number of skipped iterations:   0 | number of nan iterations:   0 |")

def syncbn():
    """A convolutional net with synchronised batch norm; rank 1 waits for the lock of a cache on a shared file system."""
    init(); c = 256 if cuda else 8; block = lambda i: [nn.Conv2d(i, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU()]
    net = nn.Sequential(*block(3), *[q for _ in range(8) for q in block(c)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 100))
    m = nn.parallel.DistributedDataParallel((nn.SyncBatchNorm.convert_sync_batchnorm(net) if cuda else net).to(dev), device_ids=[local] if cuda else None)
    o = torch.optim.SGD(m.parameters(), lr=1e-3, momentum=.9); bad = Once(); b = 32 if cuda else 2; t = time.time()
    log = logging.getLogger("train"); logging.basicConfig(level=logging.INFO, format="%(message)s")
    for n in range(1 << 30):
        started(n)
        if rank == 1 and bad():
            truth("begins", n); f = [open(f"{a.dir}/cache.lock", "w") for _ in range(2)]
            for g in f: fcntl.flock(g, fcntl.LOCK_EX)
        l = F.cross_entropy(m(torch.randn(b, 3, 64, 64, device=dev)), torch.randint(0, 100, (b,), device=dev)); o.zero_grad(); l.backward(); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        if n % 10 == 0 and rank == 0: log.info(f"Train: 0 [{n:>4d}/10009 ({n / 100:>3.0f}%)]  Loss: {v:#.3g} ({v:#.3g})  Time: {d:.3f}s, {b * world / d:>7.2f}/s  ({d:.3f}s, {b * world / d:>7.2f}/s)  LR: 1.000e-03  Data: 0.001 (0.001)")

def output():
    """Prints much of each step; nobody reads it any more (a terminal held by ctrl-s, a tee whose disk hangs)."""
    init(); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    for n in range(1, 1 << 30):
        started(n); l = train(m, o, tokens()); o.step(); v = l.item()
        zero(f"step {n} loss {v:.4f} " + " ".join(f"act{i}={random.random():.6f}" for i in range(60)))

class Rows(torch.utils.data.Dataset):
    def __init__(s, bad=None, work=0): s.bad, s.work = bad, work
    def __len__(s): return 1 << 20
    def __getitem__(s, i):
        if s.bad and rank == 1 and since() > a.after: s.bad(i)
        if s.work: torch.randn(s.work).sort()
        return {"input_ids": torch.randint(0, V, (T,))}
def first(n):
    """Only the first of the workers tells."""
    try: os.close(os.open(f"{a.dir}/told", os.O_CREAT | os.O_EXCL)); truth("begins", n)
    except FileExistsError: pass
def broken(i): first(i); raise KeyError("input_ids")
def far(i): time.sleep(.06 if cuda else .4)

def accel(bad=None):
    """Hugging Face's accelerate with its own loop."""
    from accelerate import Accelerator
    from tqdm import tqdm
    ac = Accelerator(mixed_precision="bf16" if cuda else "no", gradient_accumulation_steps=1 if bad else 8, cpu=not cuda); m = Model(6); o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    m, o, dl = ac.prepare(m, o, torch.utils.data.DataLoader(Rows(bad), batch_size=B, num_workers=2)); bar = tqdm(range(100000), disable=not ac.is_local_main_process); n = 0; save = Agreed(each=9)
    for batch in dl:
        with ac.accumulate(m):
            l = ce(m(batch["input_ids"]), batch["input_ids"]); ac.backward(l); o.step(); o.zero_grad()
        if ac.sync_gradients:
            n += 1; started(n); bar.update(1); bar.set_postfix(step_loss=l.detach().item(), lr=1e-4)
            if not bad and save(n): ac.save_state(f"{a.dir}/state-{n}")

def bare(how=None, pre=None, begin=init):
    """Data parallel, a line each step."""
    begin(); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=cuda); bad = Once(); other = pre() if pre else None; t = time.time()
    for n in range(1, 1 << 30):
        started(n)
        if how and rank == (0 if how == "tenant" else 1) and bad(): act(how, n, other)
        l = train(m, o, tokens()); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        zero(f"{time.strftime('%H:%M:%S')} INFO trainer: step={n} loss={v:.4f} step_time={d:.3f}")
def act(how, n, other):
    truth("begins", n)
    if how == "abort": ctypes.CDLL(None).abort()
    if how == "zero": 1 / 0
    if how == "gloo": dist.barrier(group=other)
    if how == "epoll": import select; select.epoll().poll()
    if how == "kernel": torch.cuda._sleep(1 << 60) if cuda else time.sleep(36000)
    if how == "destroy":
        print("early stopping: no improvement for 3 evaluations", flush=True); dist.destroy_process_group(); time.sleep(36000)

def restart():
    """A watchdog of 20 s ends a job that hangs, and its launcher starts it again."""
    init(timeout=datetime.timedelta(seconds=20)); again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4); bad = Once()
    for n in range(1, 1 << 30):
        started(n)
        if rank == 1 and not again and bad(): truth("begins", n); time.sleep(36000)
        l = train(m, o, tokens()); o.step(); v = l.item(); zero(f"step: {n} | loss: {v:.5f} | attempt {again}")

def pinned():
    """Loaders that work, and then all threads of all ranks may use one CPU only."""
    init(); m = ddp(Model(4)); o = torch.optim.SGD(m.parameters(), lr=1e-4); now = Agreed(); t = time.time()
    for n, batch in enumerate(torch.utils.data.DataLoader(Rows(work=40000), batch_size=B, num_workers=3), 1):
        started(n)
        if now(n):
            if rank == 0: truth("begins", n)
            pids = [os.getpid(), *map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())]
            for tid in (int(k) for p in pids for k in os.listdir(f"/proc/{p}/task")): os.sched_setaffinity(tid, {0})
        x = batch["input_ids"].to(dev); l = train(m, o, x); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        zero(f"Epoch 0 | Step {n}/40000 | Loss {v:.4f} | {d * 1000:.1f} ms")

def gradspike():
    """The gradients explode; they are clipped, and the loss hardly moves."""
    init(); m = ddp(Model(6)); o = torch.optim.SGD(m.parameters(), lr=1e-5); now = Agreed(); scale = 1.0
    for n in range(1, 1 << 30):
        started(n)
        if now(n):
            scale = 3e4
            if rank == 0: truth("begins", n)
        l = train(m, o, tokens(), scale); g = nn.utils.clip_grad_norm_(m.parameters(), 1.0); o.step()
        if n % 3 == 0: zero(f"step {n:>5} | train loss {l.item():.4f} | grad norm {g.item():.3f} | lr 1.0e-05 | {B * T * world * 9 // 1000 * 1000} tok/s")

def wds():
    """Shards come through pipes of a program that fetches them, as WebDataset's `pipe:curl` does; one of rank 0 stalls."""
    init(); m = ddp(Model(6)); o = torch.optim.SGD(m.parameters(), lr=1e-4); bad = Once(); size = B * T; shard = None
    for n in range(1, 1 << 30):
        started(n)
        if shard is None or not (data := shard.read(size)):
            stalls = rank == 0 and bad()
            if stalls: truth("begins", n)
            shard = subprocess.Popen(["sh", "-c", f"sleep {36000 if stalls else 0}; head -c {size * 5} /dev/urandom"], stdout=subprocess.PIPE).stdout; data = shard.read(size)
        x = torch.frombuffer(bytearray(data), dtype=torch.uint8).long().view(B, T).to(dev) % V; l = train(m, o, x); o.step(); v = l.item()
        if n % 4 == 0: zero(json.dumps({"step": n, "loss": round(v, 4), "shard": n // 5}))

def slowread():
    """The loader of rank 1 reads from a file system that has become slow."""
    init(); m = ddp(Model(6)); o = torch.optim.SGD(m.parameters(), lr=1e-4); bad = Once(); t = time.time()
    for n, batch in enumerate(torch.utils.data.DataLoader(Rows(far), batch_size=B, num_workers=2), 1):
        started(n)
        if rank == 1 and bad(): truth("begins", n)
        l = train(m, o, batch["input_ids"].to(dev)); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        zero(f"| epoch 1 | {n:5d}/90000 batches | lr 0.00 | ms/batch {d * 1000:.2f} | loss {v:.2f} | ppl {2.718 ** v:.2f}")

def curriculum():
    """Sequences become longer; so do steps, and tokens a second stay what they are."""
    init(); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=cuda); grow = Agreed(each=7); t = time.time(); length = T // 4
    for n in range(1, 1 << 30):
        started(n)
        if grow(n):
            length *= 2
            if rank == 0: truth("grows", length)
        l = train(m, o, tokens(8, length)); o.step(); v = l.item(); d = time.time() - t; t = time.time()
        zero(f"step {n} | seqlen {length} | loss {v:.4f} | dt {d * 1000:.1f} ms | {8 * length * world / d:,.0f} tok/s")

def often():
    """All ranks evaluate for a second and a half each twenty steps."""
    init(); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4); t = time.time()
    for n in range(1, 1 << 30):
        started(n); l = train(m, o, tokens()); o.step(); v = l.item(); zero(f"[train] step {n}: loss={v:.4f}")
        if n % 20 == 0:
            e = torch.zeros(1, device=dev); k = 0; t = time.time()
            with torch.no_grad():
                while k < (40 if cuda else 5): e += ce(m.module(x := tokens()), x); k += 1
            dist.all_reduce(e); zero(f"[valid] step {n}: loss={e.item() / k / world:.4f} in {time.time() - t:.1f}s")

def numbers(k):
    """What tokenising costs."""
    end, words = time.time() + 1.5, {}
    while time.time() < end:
        for w in str(random.random()): words[w] = words.get(w, 0) + 1
    return k, len(words)
def prepare():
    """Rank 0 tokenises with a pool for some twenty seconds before the first step, while the others wait for it."""
    init(); dist.all_reduce(torch.ones(1, device=dev)); sync()
    if rank == 0:
        import multiprocessing
        truth("prepares")
        with multiprocessing.get_context("fork").Pool(2) as pool, open(f"{a.dir}/tokens.txt", "w") as f:
            for k, w in pool.imap(numbers, range(26)): f.write(f"{k} {w}\n"); f.flush()
        truth("prepared")
    dist.barrier(); bare(begin=lambda: None)

def profiled():
    """Rank 0 profiles thirty steps, writes the trace and prints a table, while the others wait."""
    init(); m = ddp(Model(10)); o = torch.optim.AdamW(m.parameters(), lr=1e-4, foreach=False); now = Agreed(); prof = None; upto = 0
    for n in range(1, 1 << 30):
        started(n)
        if now(n):
            upto = n + 30
            if rank == 0: prof = torch.profiler.profile(record_shapes=True, with_stack=True, profile_memory=True); prof.start()
        if n == upto and rank == 0:
            prof.stop(); truth("begins", n); prof.export_chrome_trace(f"{a.dir}/trace.json"); print(prof.key_averages(group_by_stack_n=5).table(row_limit=5)[:900], flush=True); truth("ends", n); prof = None
        l = train(m, o, tokens()); o.step(); v = l.item(); zero(f"iter: {n} train_loss: {v:.4f}")

def lastrank():
    """The last rank alone evaluates on its GPU for fourteen seconds, and says nothing; the others wait for it."""
    init(); m = ddp(Model(8)); o = torch.optim.AdamW(m.parameters(), lr=1e-4); now = Agreed()
    for n in range(1, 1 << 30):
        started(n)
        if now(n):
            e = time.time() + 14
            if rank == world - 1:
                truth("begins", n)
                with torch.no_grad():
                    while time.time() < e: m.module(tokens(4)).argmax(-1).float().mean().item()
                truth("ends", n)
            dist.barrier(); sync()
        l = train(m, o, tokens()); o.step(); v = l.item(); zero(f"n_step={n} nll_loss={v:.4f}")

def localsgd():
    """Six seconds of steps of its own for each rank, then the weights of all are averaged."""
    init(); m = Model(8).to(dev, dt); o = torch.optim.AdamW(m.parameters(), lr=1e-4); n = 0
    for outer in range(1, 1 << 30):
        started(outer); e = time.time() + 6
        while time.time() < e: l = train(m, o, tokens()); o.step(); n += 1; sync()
        for q in m.parameters(): dist.all_reduce(q.data); q.data /= world
        sync(); zero(f"outer step {outer} | inner steps {n} | loss {l.item():.4f} | synced")

cases = {
 "ulysses-stdin1": ulysses, "tpasync-baton0": tpasync, "syncbn-flock1": syncbn, "output-stuck0": output, "accel-worker1": lambda: accel(broken), "bash-abort1": lambda: bare("abort"),
 "spawn-zero1": lambda: bare("zero"), "mixed-barrier1": lambda: bare("gloo", lambda: dist.new_group(backend="gloo")), "destroy1": lambda: bare("destroy"), "restart-sleep1": restart,
 "tenant0": lambda: bare("tenant"), "pinned-all": pinned, "gradspike": gradspike, "beside-hang1": lambda: bare("epoll"), "wds-pipe0": wds, "kernel1": lambda: bare("kernel"),
 "slowread1": slowread, "suspended-all": bare, "curriculum-none": curriculum, "often-none": often, "prepare-none": prepare, "launcher-none": bare, "accel-none": accel, "profile-none": profiled,
 "lastrank-none": lastrank, "local-none": localsgd,
}
cases[a.case]()
