"""Jobs that stand, fail or pause in other moments than a step: those of docs/ACCURACY.md that were judged once, after those of causes.py.

`live.py moments.py` runs each beside the program. They train until somebody ends them, if not said otherwise. What an expert would say of each was written
down before the first of them ran: its rule, others that are right, too, and the ranks to blame.
"""
# Name: (launcher, seconds to watch after the fault, or after the first step of a healthy job, rule, others, ranks)
CASES = {
    "prefetch-dead0": ("torchrun", 17, "hang-rank-absent", ["input-stall", "python-exception"], [0]),
    "groups-crossed": ("torchrun", 27, "hang-symmetric", ["collective-mismatch", "send-order-deadlock"], []),
    "eval-spin1": ("torchrun", 17, "hang-rank-absent", [], [1]),
    "save-fifo0": ("torchrun", 17, "hang-rank-absent", ["storage-hang"], [0]),
    "caught1": ("torchrun", 17, "python-exception", ["hang-rank-absent"], [1]),
    "oom-retry0": ("torchrun", 20, "cuda-oom", ["hang-rank-absent", "collective-mismatch", "python-exception"], [0]),
    "watchdog-sleep1": ("torchrun", 24, "hang-rank-absent", [], [1]),
    "assert1": ("torchrun", 8, "cuda-error", ["python-exception"], [1]),
    "bus1": ("bash", 8, "rank-exited", [], [1]),
    "double1": ("torchrun", 22, "straggler", ["slow-steps"], [1]),
    "fifth1": ("torchrun", 24, "straggler", ["slow-steps"], [1]),
    "crowded0": ("torchrun", 24, "host-cpu-contention", ["straggler", "slow-steps"], [0]),
    "features-all": ("torchrun", 20, "input-stall", [], []),
    "never-init1": ("torchrun", 34, "init-stuck", ["hang-rank-absent", "rendezvous-failed"], [1]),
    "serve-lock1": ("torchrun", 17, "hang-rank-absent", [], [1]),
    "filelock1": ("torchrun", 17, "hang-rank-absent", [], [1]),
    "schedule-sleep1": ("torchrun", 17, "hang-rank-absent", [], [1]),
    "pickle0": ("torchrun", 17, "hang-rank-absent", [], [0]),
    "scatter-exc0": ("torchrun", 8, "python-exception", [], [0]),
    "nan1": ("torchrun", 8, "loss-not-finite", [], []),
    "dcp-none": ("torchrun", 26, "none", [], []),
    "async-none": ("torchrun", 26, "none", [], []),
    "hfeval-none": ("torchrun", 32, "none", [], []),
    "litval-none": ("torchrun", 26, "none", [], []),
    "shapes-none": ("torchrun", 28, "none", [], []),
    "generate0-none": ("torchrun", 30, "none", [], []),
    "idle-none": ("torchrun", 26, "none", [], []),
    "accum-none": ("torchrun", 24, "none", [], []),
    "nextshard-none": ("torchrun", 28, "none", [], []),
    "ends-none": ("torchrun", 20, "none", [], []),
    "seconds-none": ("torchrun", 32, "none", [], []),
}

import ctypes, datetime, json, logging, os, queue, random, signal, socket, subprocess, sys, threading, time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from lab import Job
j = Job(after=10)
a, rank, local, world, cuda, dev, dt = j.a, j.rank, j.local, j.world, j.cuda, j.dev, j.dt
D, T, B, V = j.D, j.T, j.B, j.V
init, since, sync, truth, started, Once, Agreed, Model, tokens, ce, ddp = j.init, j.since, j.sync, j.truth, j.started, j.once, j.agreed, j.model, j.tokens, j.ce, j.ddp
zero = lambda *t: print(*t, flush=True) if rank == 0 else None
ever = lambda: range(1, 1 << 30)

def setup(layers=8, lr=1e-4, **k):
    init(**k); m = ddp(Model(layers)); return m, torch.optim.AdamW(m.parameters(), lr=lr)

def train(m, o, x):
    o.zero_grad(); l = ce(m(x), x); l.backward(); o.step(); return l

def quiet(m, seconds, b=4):
    """Without gradients and without a word."""
    e = time.time() + seconds
    with torch.no_grad():
        while time.time() < e: m(tokens(b)).argmax(-1).float().mean().item()

def prefetch():
    """A thread prepares batches; that of rank 0 dies of an exception that nobody prints, and the loop waits for its queue."""
    m, o = setup(); q = queue.Queue(4); bad = Once()
    def fill():
        try:
            while True:
                if rank == 0 and bad(): raise ValueError("record")
                q.put(torch.randint(0, V, (B, T)))
        except ValueError: truth("begins")
    threading.Thread(target=fill, daemon=True).start()
    for n in ever():
        started(n); v = train(m, o, q.get().to(dev)).item(); zero(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}][train][INFO] - epoch=0 it={n} loss={v:.4f} lr=1.0e-04")

def crossed():
    """Two groups of the same ranks; from one step on they are used in another order."""
    init(); m = Model(6).to(dev, dt); g = [dist.new_group([0, 1]) for _ in range(2)]; now = Agreed(); bad = False
    for n in ever():
        started(n)
        if now(n): bad = True; truth("begins", n)
        l = ce(m(x := tokens()), x); l.backward(); order = g[::-1] if bad and rank == 1 else g
        for i, k in enumerate(order):
            for p in list(m.parameters())[i::2]: dist.all_reduce(p.grad, group=k)
            sync()
        m.zero_grad(); zero(f"Iter {n}: loss {l.item():.4f}")

def evaluation():
    """In the third evaluation rank 1 loops over its metric in Python."""
    m, o = setup(); k = 0; now = Agreed(each=4)
    for n in ever():
        started(n); v = train(m, o, tokens()).item(); zero(f"step {n:6d} | loss {v:.4f}")
        if now(n):
            k += 1; quiet(m.module, .5)
            if rank == 1 and k == 2:
                truth("begins", n); s = 0
                while True: s = (s * 31 + 7) % 1000003
            out = [None] * world; dist.all_gather_object(out, {"acc": random.random()}); zero(f"eval {k}: acc {sum(x['acc'] for x in out) / world:.3f}")

def save():
    """Rank 0 writes its checkpoint to a path that never takes it; the others wait at the barrier behind it."""
    m, o = setup(); now = Agreed(); path = f"{a.dir}/last.pt"
    if rank == 0: os.mkfifo(path)
    for n in ever():
        started(n); v = train(m, o, tokens()).item(); zero(json.dumps({"step": n, "train/loss": round(v, 4)}))
        if now(n):
            if rank == 0: truth("begins", n); torch.save(m.state_dict(), path)
            dist.barrier()

def caught():
    """Rank 1 prints its exception and does not end."""
    import traceback
    m, o = setup(); bad = Once()
    for n in ever():
        started(n)
        try:
            if rank == 1 and bad(): truth("begins", n); {}["attention_mask"]
        except KeyError: traceback.print_exc(); time.sleep(36000)
        v = train(m, o, tokens()).item(); zero(f"train: {n} loss: {v:.3f}")

def retry():
    """Rank 0 runs out of memory, says so, and takes the next batch: from then on its calls are others."""
    m, o = setup(); bad = Once()
    for n in ever():
        started(n)
        try:
            if rank == 0 and bad():
                truth("begins", n)
                if cuda: keep = [torch.empty(1 << 34, device=dev) for _ in range(64)]
                else: raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 GiB.")
            v = train(m, o, tokens()).item()
        except torch.OutOfMemoryError as e: print(f"WARNING: ran out of memory, skipping batch: {e}", flush=True); dist.barrier(); continue
        zero(f"| step {n} | loss {v:.3f} |")

def watched():
    """A watchdog of fifteen seconds ends the job that rank 1 holds."""
    m, o = setup(timeout=datetime.timedelta(seconds=15)); bad = Once()
    for n in ever():
        started(n)
        if rank == 1 and bad(): truth("begins", n); threading.Event().wait()
        v = train(m, o, tokens()).item(); zero(f"step={n} loss={v:.4f}")

def plain(how=None):
    """Data parallel, a line each step."""
    m, o = setup(); bad = Once(); t = time.time(); at = 0
    for n in ever():
        started(n)
        if rank == 1 and how and bad():
            truth("begins", n); at = n
            if how == "assert":
                if cuda: torch.zeros(4, device=dev)[torch.full((8,), 9, device=dev)] += 1; sync()
                else: raise RuntimeError("CUDA error: device-side assert triggered")
            if how == "bus": os.kill(os.getpid(), signal.SIGBUS)
        if at and how == "double": [ce(m.module(x := tokens()), x).backward() for _ in range(2)]
        if at and how == "fifth" and n % 5 == 0: time.sleep(.5 if cuda else 1)
        x = tokens(); v = train(m, o, x); v = v * float("nan") if at and how == "nan" else v
        if how == "nan": dist.all_reduce(v := v.detach().clone())
        v = v.item(); d = time.time() - t; t = time.time(); zero(f"{time.strftime('%H:%M:%S')} | step {n} | loss {v:.4f} | {d * 1000:.0f} ms/it")

def crowded():
    """Whatever runs on the CPUs of rank 0: sixteen others want the same two."""
    m, o = setup(4); bad = Once(); t = time.time()
    for n in ever():
        started(n)
        if rank == 0 and bad():
            truth("begins", n); two = sorted(os.sched_getaffinity(0))[:2]
            for k in map(int, os.listdir("/proc/self/task")): os.sched_setaffinity(k, two)
            for _ in range(16): subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(3): torch.randn(400000).sort()
        v = train(m, o, tokens()).item(); d = time.time() - t; t = time.time(); zero(f"epoch 0 step {n} loss {v:.4f} time {d:.3f}")

def features():
    """Each batch comes from a server of features that stops to answer everybody."""
    m, o = setup(4); ends = []
    if rank == 0:
        s = socket.create_server(("127.0.0.1", 29777)); told = []
        def serve(c):
            while c.recv(1):
                if since() > a.after:
                    if not told: told.append(1); truth("begins")
                    time.sleep(36000)
                c.sendall(bytes(4))
        def listen():
            while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
        threading.Thread(target=listen, daemon=True).start()
    dist.barrier(); c = socket.create_connection(("127.0.0.1", 29777))
    for n in ever():
        started(n); c.sendall(b"x"); c.recv(4); v = train(m, o, tokens()).item(); dist.barrier(); zero(f"batch {n} loss {v:.4f}")

def never():
    """Rank 1 reads its settings from a place that does not answer, before the process group is made."""
    if rank == 1:
        os.mkfifo(f"{a.dir}/conf.yaml"); truth("begins"); open(f"{a.dir}/conf.yaml").read()
    print(f"rank {rank} starts", flush=True); plain()

def serve(how=None):
    """Two halves of a model that answer requests; rank 0 takes them and tells the other."""
    init(); w = [torch.randn(4096 if cuda else 64, 4096 if cuda else 64, device=dev, dtype=dt) / 64 for _ in range(16)]; n = 0; end = time.time() + 9; bad = Once()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s:     %(message)s")
    while True:
        word = [0]
        if rank == 0:
            while not how and n > 40: time.sleep(.5)
            time.sleep(.1); word = [1]
        dist.broadcast_object_list(word, 0); n += 1; started(n)
        if rank == 1 and how and bad(): truth("begins", n); k = threading.Lock(); k.acquire(); k.acquire()
        x = torch.randn(64, w[0].shape[0], device=dev, dtype=dt)
        for y in w: x = F.layer_norm(x @ y, x.shape[1:]); dist.all_reduce(x)
        sync()
        if rank == 0: logging.info(f'127.0.0.1:5{n % 9000:04d} - "POST /generate HTTP/1.1" 200 OK')

def filelock():
    """Rank 1 polls for a lock file of a cache of compiled kernels."""
    m, o = setup(); bad = Once(); lock = f"{a.dir}/kernel-cache.lock"; open(lock, "w").close()
    for n in ever():
        started(n)
        if rank == 1 and bad():
            truth("begins", n)
            while True:
                try: os.close(os.open(lock, os.O_CREAT | os.O_EXCL)); break
                except FileExistsError: time.sleep(.05)
        v = train(m, o, tokens()).item(); zero(f"iter {n}/900000, loss {v:.5f}")

def schedule():
    """PyTorch's own 1F1B over two stages; the last one sleeps."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    init(); k = D if cuda else 64; net = nn.Sequential(*[nn.Sequential(nn.Linear(k, 4 * k), nn.GELU(), nn.Linear(4 * k, k)) for _ in range(6)]).to(dev); bad = Once()
    stage = PipelineStage(net, rank, world, dev); run = Schedule1F1B(stage, n_microbatches=8, loss_fn=lambda y, t: F.mse_loss(y, t)); o = torch.optim.SGD(net.parameters(), lr=1e-3); b = 16384 if cuda else 64
    for n in ever():
        started(n)
        if rank == 1 and bad(): truth("begins", n); time.sleep(36000)
        x = torch.randn(b, k, device=dev); losses = []
        run.step(x) if rank == 0 else run.step(target=x, losses=losses)
        o.step(); o.zero_grad(); sync()
        if rank == 1: print(f"[stage1] step {n} loss {torch.stack(losses).mean().item():.4f}", flush=True)

class Slow:
    def __reduce__(s): truth("begins"); time.sleep(36000); return (int, ())
def pickled():
    """Rank 0 sends its settings to all each hundred steps; once they do not come to an end of being packed."""
    m, o = setup(6); now = Agreed(each=3); k = 0
    for n in ever():
        started(n)
        if now(n): k += 1; dist.broadcast_object_list([Slow() if rank == 0 and k == 2 else {"lr": 1e-4}], 0)
        v = train(m, o, tokens()).item(); zero(f"global_step: {n}, loss: {v:.4f}")

def scatter():
    """Rank 0 hands out the wrong number of parts."""
    init(); m = Model(6).to(dev, dt); bad = Once()
    for n in ever():
        started(n); parts = None
        if rank == 0:
            parts = list(torch.randint(0, V, (B * world, T), device=dev).chunk(world))
            if bad(): truth("begins", n); parts = parts[:1]
        x = torch.empty(B, T, dtype=torch.long, device=dev); dist.scatter(x, parts, 0); l = ce(m(x), x); l.backward()
        for p in m.parameters(): dist.all_reduce(p.grad)
        m.zero_grad(); zero(f"{n}: {l.item():.4f} loss")

class Slowly:
    """A file that takes its time, as of a busy file system."""
    def __init__(s, path): s.f = open(path, "wb")
    def write(s, b): n = s.f.write(b); s.f.flush(); os.fsync(s.f.fileno()); time.sleep(len(b) / 60e6); return n
    def flush(s): s.f.flush()

def dcp():
    """All ranks save their part for some twelve seconds."""
    m, o = setup(); now = Agreed(); k = 0
    for n in ever():
        started(n); v = train(m, o, tokens()).item(); zero(f"step: {n} loss: {v:.4f} mem: 21GiB")
        if now(n):
            truth("begins", n); f = Slowly(f"{a.dir}/part-{rank}.distcp"); e = time.time() + 12
            while time.time() < e: f.write(os.urandom(4 << 20))
            dist.barrier(); truth("ends", n)

def background():
    """Checkpoints are written by a process of their own while it trains."""
    import torch.distributed.checkpoint as dcp_
    m, o = setup(); now = Agreed(each=6); k = 0; last = None
    g = dist.new_group(backend="gloo")
    for n in ever():
        started(n); v = train(m, o, tokens()).item(); zero(f"step {n} loss {v:.3f}")
        if now(n):
            if last: last.result()
            k += 1; last = dcp_.async_save({"m": m.module.state_dict()}, checkpoint_id=f"{a.dir}/ck{k}", process_group=g); zero(f"saving checkpoint {k} in the background")

class Data(torch.utils.data.Dataset):
    def __init__(s, n): s.n = n
    def __len__(s): return s.n
    def __getitem__(s, i): x = torch.randint(0, V, (T,)); return {"input_ids": x, "labels": x}

def hf():
    """Hugging Face's Trainer evaluates for long, and without a bar."""
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
    k = D if cuda else 64; m = LlamaForCausalLM(LlamaConfig(hidden_size=k, intermediate_size=3 * k, num_hidden_layers=8 if cuda else 2, num_attention_heads=8, num_key_value_heads=8, vocab_size=V))
    class Tell(TrainerCallback):
        def on_step_end(s, args, state, control, **k): started(state.global_step)
        def on_evaluate(s, args, state, control, **k): rank == 0 and truth("ends", state.global_step)
    t = TrainingArguments(f"{a.dir}/out", per_device_train_batch_size=B, per_device_eval_batch_size=B, max_steps=100000, eval_strategy="steps", eval_steps=60 if cuda else 5, logging_steps=20, save_strategy="no", disable_tqdm=True, report_to=[], bf16=cuda, use_cpu=not cuda)
    Trainer(m, t, train_dataset=Data(1 << 20), eval_dataset=Data(12000 if cuda else 60), callbacks=[Tell()]).train()

def lit():
    """Lightning trains and validates, with its bar."""
    import lightning as L
    class Net(L.LightningModule):
        def __init__(s): super().__init__(); s.m = Model(6 if cuda else 2)
        def training_step(s, x, i): started(s.global_step); l = ce(s.m(x["input_ids"]), x["input_ids"]); s.log("train_loss", l, prog_bar=True); return l
        def validation_step(s, x, i): s.log("val_loss", ce(s.m(x["input_ids"]), x["input_ids"]), sync_dist=True)
        def configure_optimizers(s): return torch.optim.AdamW(s.parameters(), lr=1e-4)
    load = lambda n: torch.utils.data.DataLoader(Data(n), batch_size=B, num_workers=2)
    L.Trainer(accelerator="gpu" if cuda else "cpu", devices=world, strategy="ddp", max_epochs=100, precision="bf16-mixed" if cuda else "32-true", val_check_interval=50 if cuda else 5, logger=False, enable_checkpointing=False).fit(Net(), load(1 << 16), load(1200 if cuda else 40))

def shapes():
    """Each new length is compiled anew, on all ranks."""
    init(); m = Model(4).to(dev, dt); c = torch.compile(m, dynamic=False) if cuda else m; now = Agreed(each=7); length = 512 if cuda else 16
    for n in ever():
        started(n)
        if now(n): length += 64 if cuda else 4
        l = ce(c(x := tokens(B, length)), x); l.backward()
        for p in m.parameters(): dist.all_reduce(p.grad)
        m.zero_grad(); zero(f"step {n}, len {length}, loss {l.item():.4f}")

def generate():
    """Rank 0 generates for seven seconds, then all learn from it for two: again and again."""
    m, o = setup(6); n = 0
    for outer in ever():
        x = tokens()
        if rank == 0: quiet(m.module, 7 if cuda else 4)
        dist.broadcast(x, 0)
        for _ in range(10): n += 1; started(n); v = train(m, o, x).item()
        zero(f"outer {outer} | reward {random.random():.3f} | policy_loss {v:.4f} | kl 0.01")

def accumulate():
    """Thirty-two micro batches a step, reduced once."""
    m, o = setup(8)
    for n in ever():
        started(n); o.zero_grad()
        for k in range(32 if cuda else 4):
            m.require_backward_grad_sync = k == (31 if cuda else 3); l = ce(m(x := tokens()), x) / 32; l.backward()
        o.step(); zero(f"optimizer step {n}: loss {l.item() * 32:.4f}")

def shard():
    """Every ten seconds all ranks read and unpack the next shard for seven."""
    m, o = setup(8); now = Agreed(each=10); path = f"{a.dir}/shard-{rank}.bin"; k = 0
    with open(path, "wb") as f: f.write(os.urandom(64 << 20))
    for n in ever():
        started(n)
        if now(n):
            k += 1; e = time.time() + 7; rank == 0 and truth("begins", n)
            while time.time() < e:
                with open(path, "rb") as f: torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).sort()
            zero(f"opened shard {k}"); rank == 0 and truth("ends", n)
        v = train(m, o, tokens()).item(); zero(f"loss: {v:.4f}  step: {n}")

def ends():
    """Comes to its end after some seconds, saves, and says goodbye."""
    m, o = setup(6); now = Agreed()
    for n in ever():
        started(n); v = train(m, o, tokens()).item(); zero(f"step {n} loss {v:.4f}")
        if now(n): break
    if rank == 0: torch.save(m.state_dict(), f"{a.dir}/final.pt")
    dist.barrier(); dist.destroy_process_group(); zero("Training completed.")

def seconds():
    """Steps of two to seven seconds."""
    m, o = setup(8); r = random.Random(7)
    for n in ever():
        started(n); o.zero_grad(); k = r.randint(30, 110) if cuda else r.randint(4, 12)
        for i in range(k):
            m.require_backward_grad_sync = i == k - 1; l = ce(m(x := tokens()), x) / k; l.backward()
        o.step(); zero(f"Step {n} of 2000 done, loss {l.item() * k:.3f}, {k * B} sequences")

if a.case in ("save-fifo0", "schedule-sleep1", "dcp-none", "groups-crossed", "accum-none", "assert1"): os.environ.setdefault("NCCL_DEBUG", "INFO")
cases = {
 "prefetch-dead0": prefetch, "groups-crossed": crossed, "eval-spin1": evaluation, "save-fifo0": save, "caught1": caught, "oom-retry0": retry, "watchdog-sleep1": watched, "assert1": lambda: plain("assert"),
 "bus1": lambda: plain("bus"), "double1": lambda: plain("double"), "fifth1": lambda: plain("fifth"), "crowded0": crowded, "features-all": features, "never-init1": never, "serve-lock1": lambda: serve("lock"),
 "filelock1": filelock, "schedule-sleep1": schedule, "pickle0": pickled, "scatter-exc0": scatter, "nan1": lambda: plain("nan"), "dcp-none": dcp, "async-none": background, "hfeval-none": hf, "litval-none": lit,
 "shapes-none": shapes, "generate0-none": generate, "idle-none": serve, "accum-none": accumulate, "nextshard-none": shard, "ends-none": ends, "seconds-none": seconds,
}
cases[a.case]()
