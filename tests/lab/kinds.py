"""Jobs of many kinds, each with one fault or pause: those of docs/ACCURACY.md that were judged once.

torchrun --standalone --nproc-per-node 2 kinds.py CASE --truth /tmp/truth.jsonl --dir /tmp; the cases stand at the end.
"""
import argparse, json, os, signal, sys, time, threading, random, ctypes
import torch
import torch.distributed as dist
import torch.nn as nn
p = argparse.ArgumentParser()
p.add_argument("case"); p.add_argument("--dir", default="/tmp"); p.add_argument("--truth"); p.add_argument("--cpu", action="store_true")
p.add_argument("--after", type=float, default=17); p.add_argument("--for", dest="length", type=float, default=25)
a = p.parse_args()
rank, local, world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
cuda = not a.cpu
dev = torch.device("cuda", local) if cuda else torch.device("cpu")
if cuda: torch.cuda.set_device(local)
else: torch.set_num_threads(1)
dist.init_process_group("nccl" if cuda else "gloo", device_id=dev if cuda else None)
H, B = (6144, 4096) if cuda else (128, 128)
dt = torch.bfloat16 if cuda else torch.float32
def truth(event, step):
    with open(a.truth, "a") as f: f.write(json.dumps({"at": time.time(), "case": a.case, "event": event, "rank": rank, "step": step, "pid": os.getpid()}) + "\n")
def sync():
    if cuda: torch.cuda.synchronize()
def net(n=4):
    return nn.Sequential(*[m for _ in range(n) for m in (nn.Linear(H, H), nn.GELU())]).to(dev, dt)
def tensor(rows=B): return torch.randn(rows, H, device=dev, dtype=dt)
store = dist.distributed_c10d._get_default_store()
T0 = time.time()
class Clock:
    """A step number that all ranks agree on for the fault, and for the end."""
    def __init__(s): s.at = 1 << 40; s.end = 1 << 40; s.n = 0; s.t = None; s.warm = None
    def tick(s, out=None):
        now = time.time()
        s.n += 1
        if s.n == 4: s.warm = now
        if s.n == 14:
            if rank == 0:
                d = (now - s.warm) / 10
                at = 14 + max(4, int((a.after - (now - T0)) / d))
                store.set("at", json.dumps([at, at + max(4, int(a.length / d))]))
            s.at, s.end = json.loads(store.get("at"))
        if s.t and out: out(s.n, now - s.t)
        s.t = now
        return s.n == s.at, s.n > s.at, s.n >= s.end
def line(n, d):
    if rank == 0: print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] step={n} loss={2.7 - n*1e-4:.4f} lr=3.0e-04 grad_norm={0.8 + random.random()*.05:.3f} sec/step={d:.3f}", flush=True)
c = Clock()
ddp = lambda m: nn.parallel.DistributedDataParallel(m, device_ids=[local] if cuda else None)
def finish():
    if rank == 0: print("Training done.", flush=True)
    dist.destroy_process_group(); sys.exit(0)

def pp_dp(bad=None, hang="sleep", evaluate=False):
    """Two stages, two replicas: ranks 0,1 are stage 0; ranks 2,3 stage 1."""
    half = world // 2; stage = rank // half; peer = rank + half if stage == 0 else rank - half
    groups = [dist.new_group([i for i in range(world) if i // half == s]) for s in range(2)]
    m = net(2); opt = torch.optim.SGD(m.parameters(), lr=1e-4)
    while True:
        begins, after, end = c.tick(line)
        if begins and rank == bad:
            truth("begins", c.n)
            if hang == "sleep": time.sleep(36000)
            if hang == "spin":
                while True: sum(range(1000))
        if begins and evaluate:
            if rank == 0: truth("begins", c.n)
            e = time.time() + 22
            while time.time() < e:
                with torch.no_grad(): m(tensor())
                sync()
        if end: finish()
        opt.zero_grad()
        for _ in range(6):
            if stage == 0:
                y = m(tensor()); dist.isend(y.detach(), peer).wait()
            else:
                x = torch.empty(B, H, device=dev, dtype=dt); dist.irecv(x, peer).wait(); x.requires_grad_()
                m(x).float().pow(2).mean().backward(); dist.isend(x.grad, peer).wait()
            if stage == 0:
                g = torch.empty(B, H, device=dev, dtype=dt); dist.irecv(g, peer).wait(); y.backward(g)
        for q in m.parameters(): dist.all_reduce(q.grad, group=groups[stage])
        opt.step(); sync()

def ring_attention(bad=None, fault=None):
    m = ddp(net(2)); opt = torch.optim.SGD(m.parameters(), lr=1e-4)
    right, left = (rank + 1) % world, (rank - 1) % world
    while True:
        begins, after, end = c.tick(line)
        if begins and rank == bad:
            truth("begins", c.n)
            if fault == "spin":
                while True: sum(range(1000))
            if fault == "circle": pass
        if begins and fault == "circle":
            if rank == 0: truth("begins", c.n)
            big = torch.ones(1 << 27, device=dev); dist.send(big, right); dist.recv(big, left); sync()
        if end: finish()
        opt.zero_grad(); x = m(tensor()); kv = x.detach().clone()
        for _ in range(world - 1):
            new = torch.empty_like(kv)
            for r in dist.batch_isend_irecv([dist.P2POp(dist.isend, kv, right), dist.P2POp(dist.irecv, new, left)]): r.wait()
            kv = new; x = x + kv @ torch.eye(H, device=dev, dtype=dt)
        x.float().pow(2).mean().backward(); opt.step(); sync()

def fsdp(bad=None, fault=None):
    from torch.distributed.fsdp import fully_shard
    m = net(8)
    for l in m:
        if isinstance(l, nn.Linear): fully_shard(l)
    fully_shard(m); opt = torch.optim.AdamW(m.parameters(), lr=1e-5)
    while True:
        begins, after, end = c.tick(line)
        if begins and (rank == bad or bad == -1):
            truth("begins", c.n)
            if fault == "stop": os.kill(os.getpid(), signal.SIGSTOP)
            if fault == "term": os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)
            if fault == "gil": ctypes.PyDLL(None).sleep(36000)
            if fault == "segv": ctypes.string_at(0)
            if fault == "uneven": dist.barrier(); sync(); time.sleep(36000)
            if fault == "recompile":
                f = torch.compile(lambda z: torch.softmax(torch.layer_norm(z @ z.T, [z.shape[0]]).float(), -1).sum() + torch.fft.fft(z.float()).abs().sum(), mode="max-autotune-no-cudagraphs" if cuda else None)
                e = time.time() + 14; k = 64
                while time.time() < e: k += 64; torch._dynamo.reset(); f(torch.randn(k, k, device=dev, dtype=dt))
                truth("ends", c.n)
        if begins and fault == "shards":
            truth("begins", c.n); e = time.time() + 24; blk = os.urandom(4 << 20)
            with open(f"{a.dir}/__{rank}_0.distcp", "wb") as fo:
                while time.time() < e: fo.write(blk); fo.flush(); os.fsync(fo.fileno()); time.sleep(0.03)
            truth("ends", c.n)
        if end: finish()
        opt.zero_grad(); m(tensor()).float().pow(2).mean().backward(); opt.step(); sync()

def graph(bad=None):
    x = tensor(); w = torch.randn(H, H, device=dev, dtype=dt) / 80
    def body():
        y = torch.tanh(x @ w); dist.all_reduce(y); x.copy_(y / world)
    for _ in range(5): body()
    sync(); g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(20): body()
    while True:
        begins, after, end = c.tick(line)
        if begins and rank == bad: truth("begins", c.n); time.sleep(36000)
        if end: finish()
        g.replay(); sync()

def moe(bad=None, fault=None):
    ex = net(1)
    while True:
        begins, after, end = c.tick(line)
        if begins and rank == bad:
            truth("begins", c.n)
            if fault == "kernel": torch.cuda._sleep(1 << 62)
            if fault == "mismatch": dist.all_reduce(torch.ones(1 << 20, device=dev)); sync(); time.sleep(36000)
            if fault == "python": raise RuntimeError("expert 7 got a token with id 129280, vocabulary has 129280")
        if end: finish()
        x = tensor()
        for _ in range(6):
            y = torch.empty_like(x); dist.all_to_all_single(y, x)
            with torch.no_grad(): y = ex(y)
            x = torch.empty_like(y); dist.all_to_all_single(x, y)
        sync()

def accumulate():
    m = ddp(net(4)); opt = torch.optim.SGD(m.parameters(), lr=1e-4)
    while True:
        begins, after, end = c.tick(line)
        if begins and rank == 0: truth("begins", c.n)
        if end: finish()
        opt.zero_grad()
        with m.no_sync():
            for i in range(40 if after else 20): m(tensor(B if rank or not after else int(B * (1 + i % 3 / 4)))).float().mean().backward()
        m(tensor()).float().mean().backward(); opt.step(); sync()

def server():
    """Requests in bursts; the others wait in a broadcast for what rank 0 takes from its queue. Then nobody asks for a while."""
    m = net(4); e = time.time() + a.after; quiet = False
    if rank == 0: print("INFO:     Application startup complete.\nINFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)", flush=True)
    while True:
        go = torch.ones(1, device=dev)
        if rank == 0:
            if time.time() > e and not quiet: quiet = True; truth("begins", 0); time.sleep(30); e = time.time() + 8
            elif time.time() > e: go.zero_()
            else: time.sleep(random.random() * .2)
        dist.broadcast(go, 0); sync()
        if go.item() == 0: finish()
        with torch.no_grad():
            for _ in range(30): y = m(tensor(256)); dist.all_reduce(y)
        if rank == 0: print('INFO:     10.0.0.7:51234 - "POST /v1/completions HTTP/1.1" 200 OK', flush=True)

class Rows(torch.utils.data.Dataset):
    def __len__(s): return 1 << 24
    def __getitem__(s, i):
        f = f"{a.dir}/halt-{os.getppid()}"
        if os.path.exists(f) and i % 2: time.sleep(36000)
        return torch.randn(H if not cuda else 1024)
def loader(bads, chronic=False):
    m = ddp(nn.Sequential(nn.Linear(1024 if cuda else H, H), *[nn.Linear(H, H) for _ in range(4)]).to(dev)); opt = torch.optim.SGD(m.parameters(), lr=1e-4)
    it = iter(torch.utils.data.DataLoader(Rows(), batch_size=32, num_workers=2, shuffle=False))
    while True:
        begins, after, end = c.tick(line)
        if begins and rank in bads: truth("begins", c.n); open(f"{a.dir}/halt-{os.getpid()}", "w").close()
        if end: finish()
        x = next(it).to(dev); opt.zero_grad()
        for _ in range(6): m(x.repeat(16, 1)).float().pow(2).mean().backward()
        opt.step(); sync()

def contention():
    m = ddp(net(40)); opt = torch.optim.SGD(m.parameters(), lr=1e-4)
    x = torch.randn(16, H, device=dev, dtype=dt)
    cpus = sorted(os.sched_getaffinity(0))[:world]; os.sched_setaffinity(0, cpus)
    while True:
        begins, after, end = c.tick(line)
        if begins and rank == 0:
            truth("begins", c.n)
            for _ in range(8 * world): 
                if os.fork() == 0:
                    t = time.time()
                    while time.time() - t < 60: pass
                    os._exit(0)
        if end: finish()
        opt.zero_grad()
        for _ in range(6): m(x).float().mean().backward()
        opt.step(); sync()

def spike():
    m = ddp(net(4)); opt = torch.optim.SGD(m.parameters(), lr=1e-4)
    def out(n, d):
        l = 2.7 - n * 1e-4 if n < c.at else 2.7 * 10 ** min(6, (n - c.at) / 5)
        if rank == 0: print(f"step {n} loss {l:.4f} grad_norm {(0.8 + random.random()*.1) if n < c.at else 10 ** min(7, (n - c.at)/4):.3f}", flush=True)
    while True:
        begins, after, end = c.tick(out)
        if begins and rank == 0: truth("begins", c.n)
        if end: finish()
        opt.zero_grad(); m(tensor()).float().mean().backward(); opt.step(); sync()

cases = {
 "ppdp-sleep0": lambda: pp_dp(0), "ppdp-spin3": lambda: pp_dp(3, "spin"), "ppdp-eval": lambda: pp_dp(evaluate=True),
 "cp-spin2": lambda: ring_attention(2 % world, "spin"), "cp-circle": lambda: ring_attention(None, "circle"), "cp-none": lambda: ring_attention(),
 "fsdp-stop1": lambda: fsdp(1, "stop"), "fsdp-term1": lambda: fsdp(1, "term"), "fsdp-gil1": lambda: fsdp(1, "gil"), "fsdp-segv1": lambda: fsdp(1, "segv"),
 "fsdp-uneven1": lambda: fsdp(1, "uneven"), "fsdp-recompile1": lambda: fsdp(1, "recompile"), "fsdp-shards": lambda: fsdp(None, "shards"), "fsdp-none": lambda: fsdp(),
 "graph-sleep1": lambda: graph(1), "moe-kernel1": lambda: moe(1, "kernel"), "moe-mismatch1": lambda: moe(1, "mismatch"), "moe-python1": lambda: moe(1, "python"), "moe-none": lambda: moe(),
 "accumulate": accumulate, "server": server, "loader1": lambda: loader([1]), "loader-all": lambda: loader(range(world)), "contention": contention, "spike": spike,
}
try: cases[a.case]()
except SystemExit: raise
