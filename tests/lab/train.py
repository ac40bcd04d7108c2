"""A sharded training loop (FSDP2) with one fault or one pause, after a time of healthy steps that it measures itself.

torchrun --standalone --nproc-per-node 4 train.py --fault lock --fault-rank 1 --truth /tmp/truth.jsonl

Recordings of it are in tests/tapes. Faults: segv (SIGSEGV), lock (a rank waits for a lock that nobody gives back), slowall (every
step of every rank is late), exit (a rank calls os._exit(3)), illegal (a kernel writes where no memory is mapped: Xid 31). No faults: none, epoch (all ranks wait for data, without a line),
evalrank0 (rank 0 evaluates alone while the others wait), slowckpt (rank 0 writes little by little to a slow disk).
"""
import argparse
import json
import os
import signal
import threading
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import fully_shard

p = argparse.ArgumentParser()
p.add_argument("--fault", default="none")
p.add_argument("--fault-rank", type=int, default=1)
p.add_argument("--after", type=float, default=32, help="healthy training before it, seconds")
p.add_argument("--go-on", type=float, default=15, help="healthy training after a pause, seconds")
p.add_argument("--pause", type=float, default=40)
p.add_argument("--late", type=float, default=0.15)
p.add_argument("--hidden", type=int, default=8192)
p.add_argument("--layers", type=int, default=12)
p.add_argument("--batch", type=int, default=8192)
p.add_argument("--dir", default="/tmp")
p.add_argument("--truth")
a = p.parse_args()

rank, local, world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
model = nn.Sequential(*[m for _ in range(a.layers) for m in (nn.Linear(a.hidden, a.hidden), nn.GELU())]).cuda().bfloat16()
for layer in model:
    fully_shard(layer)
fully_shard(model)
opt = torch.optim.AdamW(model.parameters(), lr=1e-5)
x = torch.randn(a.batch, a.hidden, device="cuda", dtype=torch.bfloat16)


def truth(event, step):
    if a.truth:
        with open(a.truth, "a") as f:
            f.write(json.dumps({"at": time.time(), "fault": a.fault, "event": event, "rank": rank, "step": step, "pid": os.getpid()}) + "\n")


def pause(step):
    """What is no fault: seconds without a step."""
    if rank == 0:
        truth("begins", step)
    end = time.time() + a.pause
    if a.fault == "epoch":
        time.sleep(a.pause)
    elif rank == 0 and a.fault == "evalrank0":
        w = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        while time.time() < end:
            for _ in range(50):
                w @ w
            torch.cuda.synchronize()
    elif rank == 0 and a.fault == "slowckpt":
        path = os.path.join(a.dir, "slow.ckpt")
        with open(path, "wb") as f:
            while time.time() < end:
                f.write(os.urandom(12 << 20))
                f.flush()
                os.fsync(f.fileno())
                time.sleep(6)
        os.unlink(path)
    dist.barrier()
    if rank == 0:
        truth("ends", step)


def fault(step):
    if rank != a.fault_rank:
        return
    truth("begins", step)
    if a.fault == "segv":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    if a.fault == "exit":
        os._exit(3)
    if a.fault == "illegal":

        class Beyond:
            __cuda_array_interface__ = {"shape": (1 << 39,), "typestr": "|u1", "data": (x.data_ptr(), False), "version": 3}

        torch.as_tensor(Beyond(), device="cuda")[-1].fill_(1)
        torch.cuda.synchronize()
    if a.fault == "lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()


at = torch.zeros(2, dtype=torch.int64, device="cuda")
began = time.time()
step = 0
while True:
    t0 = time.time()
    if step == 30:
        began = time.time()
    if step == 60:
        # All ranks must do it at the same step.
        a_step = (time.time() - began) / 30
        when = 60 + int(a.after / a_step)
        at = torch.tensor([when, when + int(a.go_on / a_step)], device="cuda")
        dist.broadcast(at, 0)
        at = [int(v) for v in at]
    if step > 60 and step == at[0]:
        pause(step) if a.fault in ("epoch", "evalrank0", "slowckpt") else fault(step)
    if step > 60 and step >= at[0] and a.fault == "slowall":
        if step == at[0] and rank == 0:
            truth("begins", step)
        time.sleep(a.late)
    if step > 60 and step >= at[1]:
        break
    loss = model(x).float().pow(2).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    torch.cuda.synchronize()
    if rank == 0 and step % 10 == 0:
        print(f"iter {step}: loss {loss.item():.4f}, time {(time.time() - t0) * 1e3:.2f}ms", flush=True)
    step += 1
dist.barrier()
dist.destroy_process_group()
