"""What the jobs of this directory have in common: who they are, what they train, and how they tell when something begins."""
import argparse, json, os, time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def arguments(after):
    p = argparse.ArgumentParser()
    p.add_argument("case")
    p.add_argument("--dir", default="/tmp")
    p.add_argument("--truth", help="what happens is written there, with its time")
    p.add_argument("--cpu", action="store_true", help="gloo on CPUs, small")
    p.add_argument("--after", type=float, default=after, help="seconds from the start of the script to the fault")
    return p.parse_args()


def started_as():
    return (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))


class Job:
    """One rank of a job. `D` to `V` are the sizes of its model: width, tokens, batch, vocabulary."""

    def __init__(self, after):
        self.a, self.t0 = arguments(after), time.time()
        self.rank, self.local, self.world = started_as()
        self.cuda = not self.a.cpu
        self.dev = torch.device("cuda", self.local) if self.cuda else torch.device("cpu")
        if self.cuda: torch.cuda.set_device(self.local)
        else: torch.set_num_threads(1)
        self.D, self.T, self.B, self.V = (1536, 1024, 8, 4096) if self.cuda else (64, 32, 2, 64)
        self.dt = torch.bfloat16 if self.cuda else torch.float32

    def init(self, **k):
        dist.init_process_group("nccl" if self.cuda else "gloo", device_id=self.dev if self.cuda else None, **k)

    def since(self): return time.time() - self.t0

    def sync(self):
        if self.cuda: torch.cuda.synchronize()

    def truth(self, event, step=0):
        told = {"at": time.time(), "case": self.a.case, "event": event, "rank": self.rank, "step": step, "pid": os.getpid()}
        with open(self.a.truth, "a") as f: f.write(json.dumps(told) + "\n")

    def started(self, n):
        """Told of each step. However long a start takes, some seconds of steps come before the fault."""
        if n == 1: self.t0 = max(self.t0, time.time() - 3)
        if n == 1 and self.rank == 0: self.truth("trains", n)

    def once(self, at=None): return Once(self, at)

    def agreed(self, each=None): return Agreed(self, each)

    def model(self, layers=10, d=None): return Model(self.V, d or self.D, layers)

    def tokens(self, b=None, t=None): return torch.randint(0, self.V, (b or self.B, t or self.T), device=self.dev)

    def ce(self, z, x): return F.cross_entropy(z.float().view(-1, self.V), x.view(-1))

    def ddp(self, m, **k): return nn.parallel.DistributedDataParallel(m.to(self.dev, self.dt), device_ids=[self.local] if self.cuda else None, **k)


class Once:
    """True once, at the first step of this rank after the time."""
    def __init__(self, job, at): self.job, self.at, self.did = job, job.a.after if at is None else at, False

    def __call__(self):
        now = not self.did and self.job.since() > self.at
        self.did |= now
        return now


class Agreed:
    """True at one step that all ranks agree on, soon after the time; again every `each` seconds."""
    def __init__(self, job, each): self.job, self.step, self.due, self.each, self.k = job, None, job.a.after, each, 0

    def __call__(self, n):
        store = dist.distributed_c10d._get_default_store()
        if self.due is not None and self.job.rank == 0 and self.job.since() > self.due:
            store.set(f"at{self.k}", str(n + 3))
            self.due = None
        if self.step is None and store.check([f"at{self.k}"]): self.step = int(store.get(f"at{self.k}"))
        if n != self.step: return False
        self.step, self.k = None, self.k + 1
        if self.each: self.due = self.job.since() + self.each
        return True


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2, self.h = nn.RMSNorm(d), nn.RMSNorm(d), max(1, d // 64)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False), nn.Linear(3 * d, d, bias=False)

    def attend(self, q, k, v): return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        x = x + self.o(self.attend(q, k, v).transpose(1, 2).reshape(b, t, d))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, v, d, layers, layer=Layer):
        super().__init__()
        self.e, self.layers, self.f = nn.Embedding(v, d), nn.ModuleList(layer(d) for _ in range(layers)), nn.Linear(d, v, bias=False)

    def forward(self, x):
        x = self.e(x)
        for l in self.layers: x = l(x)
        return self.f(x)
