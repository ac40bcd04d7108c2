"""Ten small jobs on CPUs that end, stop or pause in a way of their own: those of docs/ACCURACY.md.

torchrun --standalone --nproc-per-node N ends.py CASE --truth FILE --dir DIR; what an expert would say stands in `EXPECTED`.
"""
import argparse, ctypes, json, os, signal, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

# Ranks to start, what is to be found (any of these; none: no finding at error or above), of which ranks, within how many seconds.
EXPECTED = {
    "exception": (3, ["python-exception"], [1], 5),
    "segfault": (2, ["rank-exited"], [1], 5),
    "exit7": (4, ["rank-exited"], [2], 5),
    "exit0": (3, ["rank-exited"], [1], 10),
    "sigstop": (2, ["rank-stopped"], [1], 10),
    "uneven": (3, ["collective-mismatch", "hang-rank-absent"], [1], 20),
    "loaderkill": (2, ["python-exception", "rank-oom-killed"], [1], 10),
    "evalsleep": (3, [], [], 40),
    "checkpoint": (4, [], [], 30),
    "gil": (2, ["hang-rank-absent"], [1], 20),
}

p = argparse.ArgumentParser()
p.add_argument("case"); p.add_argument("--truth"); p.add_argument("--dir", default="/tmp"); p.add_argument("--after", type=int, default=40)
a = p.parse_args()
torch.set_num_threads(1)
rank = int(os.environ["RANK"])


class Rows(Dataset):
    def __len__(self): return 1 << 20
    def __getitem__(self, i): return torch.full((64,), i % 7.0)


def truth(event):
    with open(a.truth, "a") as f:
        f.write(json.dumps({"at": time.time(), "case": a.case, "event": event, "rank": rank, "pid": os.getpid()}) + "\n")


def fault(step, batches):
    case = a.case
    if case == "evalsleep":
        truth("begins"); time.sleep(40); truth("over")
    elif case == "checkpoint":
        truth("begins"); end = time.time() + 30
        with open(f"{a.dir}/shard-{rank}.pt", "wb") as f:
            while time.time() < end:
                f.write(os.urandom(1 << 20)); f.flush(); time.sleep(0.2)
        os.remove(f"{a.dir}/shard-{rank}.pt"); truth("over")
    elif rank != EXPECTED[case][2][0]:
        return
    else:
        truth("begins")
        if case == "exception": raise ValueError(f"label 1007 is out of range at step {step}")
        elif case == "segfault": ctypes.string_at(8)
        elif case == "exit7": os._exit(7)
        elif case == "exit0": sys.exit(0)
        elif case == "sigstop": os.kill(os.getpid(), signal.SIGSTOP)
        elif case == "uneven": dist.barrier()
        elif case == "loaderkill": os.kill(batches._workers[0].pid, signal.SIGKILL)
        elif case == "gil": ctypes.PyDLL(None).sleep(45)


dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = iter(DataLoader(Rows(), batch_size=8, num_workers=1 if a.case == "loaderkill" else 0))
for step in range(1, 90 if not EXPECTED[a.case][1] else 1 << 20):
    if step == a.after: fault(step, batches)
    loss = model(next(batches)).square().mean()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    time.sleep(0.25)
    if rank == 0: print(f"step {step} loss {2 + loss.item() * 1e-9:.4f}", flush=True)
dist.destroy_process_group()
if rank == 0: print("Training done.", flush=True)
