"""A GPT that learns, for the demos: its loss falls, and one thing goes wrong after a while.

torchrun --standalone --nproc-per-node 2 demo.py --kind data --fault late --fault-rank 1

Kinds: data (DDP), pipeline (each rank is a stage; four micro batches a step, by send and receive in batches). Faults: late (a rank prepares its batches slowly),
stop (a rank does nothing any more). The text is made of a fixed table of what follows what, so that there is something to learn.
"""
import argparse, os, time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from lab import Layer, Model

p = argparse.ArgumentParser()
p.add_argument("--kind", default="data")
p.add_argument("--fault", default="none")
p.add_argument("--fault-rank", type=int, default=1)
p.add_argument("--after", type=float, default=40, help="healthy training before it, seconds")
p.add_argument("--late", type=float, default=0.12, help="seconds a step")
p.add_argument("--for", dest="length", type=float, default=35, help="seconds after it")
p.add_argument("--cpu", action="store_true")
a = p.parse_args()

rank, local, world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
dev = torch.device("cpu") if a.cpu else torch.device("cuda", local)
if not a.cpu: torch.cuda.set_device(local)
else: torch.set_num_threads(1)
dist.init_process_group("gloo" if a.cpu else "nccl", device_id=None if a.cpu else dev)
D, T, B, V, L = (64, 32, 4, 64, 2) if a.cpu else (1024, 512, 16, 512, 16)
dt = torch.float32 if a.cpu else torch.bfloat16
torch.manual_seed(7)
follows = torch.multinomial(torch.ones(V, V), 4).to(dev)
torch.manual_seed(rank if a.kind == "data" else 7)


def batch(n):
    x = torch.empty(n, T, dtype=torch.long, device=dev)
    x[:, 0] = torch.randint(0, V, (n,), device=dev)
    which = torch.randint(0, 4, (n, T), device=dev)
    for t in range(1, T): x[:, t] = follows[x[:, t - 1], which[:, t]]
    return x


pool = [batch(B) for _ in range(64)]
began, hit = time.time(), None


def trouble():
    """Seconds since the fault began on this rank; 0 before it and on others."""
    global hit
    if a.fault == "none" or rank != a.fault_rank or time.time() - began < a.after: return 0
    hit = hit or time.time()
    if a.fault == "stop": time.sleep(a.length)
    return max(time.time() - hit, 1e-9)


def over(): return time.time() - began > a.after + a.length


def prepare(n):
    if trouble() and a.fault == "late": time.sleep(a.late)
    return pool[n % len(pool)]


def say(n, loss, took):
    print(f"step {n:5d} | loss {loss:.4f} | lr {rate(n):.2e} | step_time {took * 1e3:.1f} ms | tokens/s {B * T * (world if a.kind == 'data' else 4) / took:,.0f}", flush=True)


def rate(n): return 3e-4 * min(1, n / 50)


def data():
    m = Model(V, D, L)
    m = nn.parallel.DistributedDataParallel(m.to(dev, dt), device_ids=None if a.cpu else [local])
    opt, then = torch.optim.AdamW(m.parameters(), lr=0), time.time()
    for n in range(1, 1 << 30):
        x = prepare(n)
        loss = F.cross_entropy(m(x[:, :-1]).float().flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        for g in opt.param_groups: g["lr"] = rate(n)
        opt.step(); opt.zero_grad()
        v = loss.item()
        if rank == 0: say(n, v, time.time() - then)
        then = time.time()
        stop = torch.tensor([float(over())], device=dev)
        dist.all_reduce(stop)
        if stop.item(): break


def exchange(*ops):
    for work in dist.batch_isend_irecv([op for op in ops if op]): work.wait()


def pipeline():
    first, last = rank == 0, rank == world - 1
    layers = nn.ModuleList(Layer(D) for _ in range(L // world)).to(dev, dt)
    e = nn.Embedding(V, D).to(dev, dt) if first else None
    f = nn.Linear(D, V, bias=False).to(dev, dt) if last else None
    params = [q for part in (layers, e, f) if part is not None for q in part.parameters()]
    opt, then = torch.optim.AdamW(params, lr=0), time.time()
    for n in range(1, 1 << 30):
        trouble()
        total, kept = 0.0, []
        for micro in range(4):
            x = pool[(4 * n + micro) % len(pool)]
            h = e(x[:, :-1]) if first else torch.empty(B, T - 1, D, device=dev, dtype=dt)
            if not first:
                exchange(dist.P2POp(dist.irecv, h, rank - 1))
                h.requires_grad_()
            y = h
            for layer in layers: y = layer(y)
            if last:
                y = F.cross_entropy(f(y).float().flatten(0, 1), x[:, 1:].flatten()) / 4
                total += y.item()
            else: exchange(dist.P2POp(dist.isend, y.detach().contiguous(), rank + 1))
            kept.append((h, y))
        for h, y in kept:
            if last: y.backward()
            else:
                g = torch.empty_like(y)
                exchange(dist.P2POp(dist.irecv, g, rank + 1))
                y.backward(g)
            if not first: exchange(dist.P2POp(dist.isend, h.grad, rank - 1))
        for g in opt.param_groups: g["lr"] = rate(n)
        opt.step(); opt.zero_grad()
        if not a.cpu: torch.cuda.synchronize()
        if last: say(n, total, time.time() - then)
        then = time.time()
        if time.time() - began > a.after + 2 * a.length: break


{"data": data, "pipeline": pipeline}[a.kind]()
