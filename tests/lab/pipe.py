"""A pipeline, experts or data-parallel job with one fault or one pause, on purpose: mostly calls that NCCL's RAS does not count.

torchrun --standalone --nproc-per-node 4 pipe.py --kind batched --fault sleep --fault-rank 1 --truth /tmp/truth.jsonl

Kinds: plain (send and recv, all forward, then all backward), batched (1F1B with batch_isend_irecv), interleaved (two chunks of
layers a rank), experts (all_to_all), data (DDP fed by a DataLoader with workers). --tp N makes N ranks one stage that all_reduces.
Faults: sleep (a rank stops and does nothing), sendsend (two stages send to each other first), slowstage (one stage computes three
times as much), latestage (one rank sleeps in every step), dataall, dataone (the loader of all ranks or of one stops), slowdata (the loader cannot keep up),
spinkernel (a kernel of one rank does not end), gil (a thread keeps the interpreter's lock). No faults: none, ckpt (all ranks
write files for a while, without a line), gc (ranks collect garbage one after the other), long (now and then a long sequence, on a rank by turns).
"""
import argparse, ctypes, gc, json, os, sys, time
import torch
import torch.distributed as dist

p = argparse.ArgumentParser()
p.add_argument("--kind", default="plain")
p.add_argument("--fault", default="none")
p.add_argument("--fault-rank", type=int, default=-1, help="the last by default")
p.add_argument("--tp", type=int, default=1)
p.add_argument("--after", type=float, default=18, help="healthy training before it, seconds")
p.add_argument("--for", dest="length", type=float, default=25, help="length of a pause; of training after a lasting fault, seconds")
p.add_argument("--hidden", type=int, default=8192)
p.add_argument("--rows", type=int, default=4096)
p.add_argument("--layers", type=int, default=2)
p.add_argument("--micro", type=int, default=8)
p.add_argument("--cpu", action="store_true", help="gloo on CPUs")
p.add_argument("--dir", default="/tmp")
p.add_argument("--truth")
a = p.parse_args()

rank, local, world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
dev = torch.device("cpu") if a.cpu else torch.device("cuda", local)
if a.cpu:
    torch.set_num_threads(1)
    a.hidden, a.rows = min(a.hidden, 256), min(a.rows, 256)
else:
    torch.cuda.set_device(local)
dist.init_process_group("gloo" if a.cpu else "nccl")
bad = a.fault_rank if a.fault_rank >= 0 else world - 1
dtype = torch.float32 if a.cpu else torch.bfloat16
stages, stage, lane = world // a.tp, rank // a.tp, rank % a.tp
tp = None
if a.tp > 1:
    for s in range(stages):
        g = dist.new_group(list(range(s * a.tp, (s + 1) * a.tp)))
        tp = g if s == stage else tp
prev, nxt = rank - a.tp, rank + a.tp
first, last = stage == 0, stage == stages - 1
w = [torch.randn(a.hidden, a.hidden, device=dev, dtype=dtype) / a.hidden**0.5 for _ in range(a.layers)]


def sync():
    if not a.cpu:
        torch.cuda.synchronize()


def truth(event, step):
    if a.truth:
        with open(a.truth, "a") as f:
            f.write(json.dumps({"at": time.time(), "kind": a.kind, "fault": a.fault, "event": event, "rank": rank, "step": step, "pid": os.getpid()}) + "\n")


def new():
    return torch.empty(a.rows, a.hidden, device=dev, dtype=dtype)


times = 1


def work(x):
    for _ in range(times):
        y = x
        for m in w:
            y = torch.tanh(y @ m)
    if tp is not None:
        dist.all_reduce(y, group=tp)
        y = y / a.tp
    return y


def p2p(*ops):
    ops = [dist.P2POp(o, t, peer) for o, t, peer in ops if 0 <= peer < world]
    for r in dist.batch_isend_irecv(ops) if ops else []:
        r.wait()


def plain_step():
    for _ in range(a.micro):
        x = new()
        if not first:
            dist.recv(x, prev)
        else:
            x.normal_()
        x = work(x)
        if not last:
            dist.send(x, nxt)
    for _ in range(a.micro):
        x = new()
        if not last:
            dist.recv(x, nxt)
        x = work(work(x))
        if not first:
            dist.send(x, prev)


def take(peer):
    x = new()
    p2p((dist.irecv, x, peer))
    return x


def batched_step():
    warm = min(stages - 1 - stage, a.micro)
    to, fro = (nxt if not last else -1), (prev if not first else -1)
    for _ in range(warm):
        p2p((dist.isend, work(take(fro)), to))
    n = a.micro - warm
    x = take(fro)
    for i in range(n):
        y, g = work(x), new()
        p2p((dist.isend, y, to), (dist.irecv, g, to))
        g, x = work(work(g)), new()
        if i == n - 1:
            p2p((dist.isend, g, fro))
        else:
            p2p((dist.isend, g, fro), (dist.irecv, x, fro))
    for _ in range(warm):
        p2p((dist.isend, work(work(take(to))), fro))


def interleaved_step():
    right, left = (rank + 1) % world, (rank - 1) % world
    for _ in range(a.micro):
        for chunk in range(2):
            x = new()
            if not (first and chunk == 0):
                p2p((dist.irecv, x, left))
            x = work(x)
            if not (last and chunk == 1):
                p2p((dist.isend, x, right))
    for _ in range(a.micro):
        for chunk in (1, 0):
            x = new()
            if not (last and chunk == 1):
                p2p((dist.irecv, x, right))
            x = work(work(x))
            if not (first and chunk == 0):
                p2p((dist.isend, x, left))


def experts_step():
    x = new()
    x.normal_()
    for _ in range(a.micro):
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x)
        x = work(y)
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x)
        x = y


class Rows(torch.utils.data.Dataset):
    """Rows that stop to come when a file appears: as of a file system that hangs, all workers wait."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        stop = f"{a.dir}/stop-{os.getppid()}"
        if os.path.exists(stop):
            with open(stop + ".fifo", "rb") as f:
                f.read(1)
        if os.path.exists(f"{a.dir}/slow-{os.getppid()}"):
            time.sleep(0.04)
        return torch.randn(512)


if a.kind == "data":
    net = torch.nn.Sequential(torch.nn.Linear(512, a.hidden), *[torch.nn.Linear(a.hidden, a.hidden) for _ in range(4)]).to(dev)
    net = torch.nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4)
    rows = iter(torch.utils.data.DataLoader(Rows(), batch_size=64, num_workers=3))


def data_step():
    x = next(rows).to(dev)
    opt.zero_grad(set_to_none=True)
    for _ in range(4):
        loss = net(x.repeat(8, 1)).float().pow(2).mean()
        loss.backward()
    opt.step()


run = {"plain": plain_step, "batched": batched_step, "interleaved": interleaved_step, "experts": experts_step, "data": data_step}[a.kind]
store = dist.distributed_c10d._get_default_store()
junk = []


def fault(step, at):
    global times
    mine = rank == bad
    if step == at:
        if mine or a.fault in ("dataall", "slowdata", "ckpt", "gc", "sendsend", "long"):
            truth("begins", step)
        if a.fault == "sleep" and mine:
            time.sleep(36000)
        if a.fault == "sendsend" and rank in (bad, bad - 1):
            x = torch.empty(1 << 28, device=dev, dtype=dtype)
            peer = bad - 1 if mine else bad
            dist.send(x, peer)
            dist.recv(x, peer)
        if a.fault == "slowstage" and mine:
            times = 4
        if a.fault == "dataall" or (a.fault == "dataone" and mine):
            os.mkfifo(f"{a.dir}/stop-{os.getpid()}.fifo")
            open(f"{a.dir}/stop-{os.getpid()}", "w").close()
        if a.fault == "slowdata":
            open(f"{a.dir}/slow-{os.getpid()}", "w").close()
        if a.fault == "spinkernel" and mine:
            torch.cuda._sleep(1 << 62)
        if a.fault == "gil" and mine:
            ctypes.PyDLL(None).sleep(36000)
        if a.fault == "ckpt":
            block = os.urandom(8 << 20)
            end = time.time() + a.length
            with open(f"{a.dir}/shard-{rank}.distcp", "wb") as f:
                while time.time() < end:
                    f.write(block)
                    f.flush()
                    os.fsync(f.fileno())
                    time.sleep(0.05)
            os.unlink(f"{a.dir}/shard-{rank}.distcp")
            truth("ends", step)
    if step >= at:
        if a.fault == "latestage" and mine:
            time.sleep(0.3)
        if a.fault == "gc" and step % world == rank:
            if not junk:
                junk.extend([{"k": [i]} for i in range(1_500_000)])
            gc.collect()
        if a.fault == "long" and step % 3 == 0 and (step // 3) % world == rank:
            for _ in range(6):
                work(new())


start, at, end = time.time(), 1 << 30, None
step = 0
while True:
    t0 = time.time()
    if step == 20:
        if rank == 0:
            left = a.after - (t0 - start)
            store.set("at", str(20 + max(5, int(left / ((t0 - warm_from) / 15)))))
        at = int(store.get("at"))
    if step == 5:
        sync()
        warm_from = time.time()
    fault(step, at)
    run()
    sync()
    if rank == world - 1 and step % 2 == 0:
        print(f" iteration {step:8d}/ 100000 | elapsed time per iteration (ms): {(time.time() - t0) * 1e3:.1f} | global batch size: {a.micro} | lm loss: {4.2 - step * 1e-4:.6E} |", flush=True)
    step += 1
    if step == at + 1:
        end = time.time() + a.length
        store.set(f"end{rank}", str(end))
    if end and step % 10 == 0:
        if rank == 0:
            store.set(f"go{step}", "1" if time.time() < end else "0")
        if store.get(f"go{step}") == b"0":
            break
if rank == world - 1:
    print("training finished", flush=True)
dist.destroy_process_group()
