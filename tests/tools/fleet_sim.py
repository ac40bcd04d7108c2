#!/usr/bin/env python3
"""Plays recordings as a fleet: many nodes of 8 GPUs, as scrape targets on one port of the loopback.

    nccl-top export --replay TAPE --openmetrics-file FILE      # once for each recording
    tests/tools/fleet_sim.py --healthy FILE --fault hang=50,3,FILE … [--nodes 1000] [--jobs 16] [--faults-at 240] --targets nodes.json

Node N answers at /n/N/metrics; nodes.json is for file_sd of Prometheus. Each node shows a recording with ranks, addresses, GPUs, ports, phase and
noise of its own. Until the fault comes, a node shows the recording's last healthy seconds over and over, its counters going on; then what the
recording shows from its fault on, second by second. What happens, and on which node of its job, stands in FAULTS; jobs between stay healthy.
"""
import argparse
import asyncio
import bisect
import json
import re
import time
import zlib

SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+) (\S+)$")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
GPUS = 8
COMMS = 16
PORTS = 16
# What counts on, though no counter by type.
GROWS = ("nccltop_job_step", "nccltop_comm_operations_min", "nccltop_comm_operations_max")

# What happens, on which node of its job. The first two are put into any fleet of three jobs, the others where there are more.
FAULTS = [("hang", 17), ("straggler", 21), ("slow", 11), ("kill", 9), ("silent", 5), ("xid", 2)]
# What only its own node can see of a rank.
SEEN_BY_ITS_NODE = ("straggler",)


class Tape:
    """Time series of one recorded node; and its times: healthy from `calm[0]` to `calm[1]`, where the fault begins."""

    def __init__(self, path, fault_after=None):
        self.series = {}
        for line in open(path):
            if line[0] == "#":
                continue
            found = SAMPLE.match(line)
            if not found:
                raise SystemExit(f"{path}: not a sample: {line[:80]}")
            name, labels, value, at = found.groups()
            key = (name, tuple(LABEL.findall(labels or "")))
            self.series.setdefault(key, ([], []))
            self.series[key][0].append(float(at))
            self.series[key][1].append(float(value))
        self.times = self.series.pop(("up", ()))[0]
        self.start, self.end = self.times[0], self.times[-1]
        training = self.series[("nccltop_job_state", (("job_id", self.job()), ("state", "training")))]
        if fault_after is None:
            self.calm = longest(training)
        else:
            self.calm = (self.start + fault_after - 14, self.start + fault_after - 2)

    def job(self):
        jobs = {dict(labels).get("job_id") for name, labels in self.series if name == "nccltop_job_state"}
        return min(jobs)

    def at(self, key, when):
        """What was seen at that moment, None if the series was not there."""
        times, values = self.series[key]
        place = bisect.bisect_right(times, when) - 1
        return values[place] if place >= 0 and when - times[place] < 1.5 else None

    def near(self, key, when):
        times, values = self.series[key]
        return values[max(bisect.bisect_right(times, when) - 1, 0)]


def longest(training):
    """The longest time in which the job trained without a break, less its beginning."""
    spans, began, last = [], None, None
    for at, value in zip(*training):
        if value == 1 and began is None:
            began = at
        if value != 1 and began is not None:
            spans.append((last - began, began, last))
            began = None
        last = at
    if began is not None:
        spans.append((last - began, began, last))
    _, began, last = max(spans)
    return began + 5, last


class Role:
    """A tape on the clock of the simulation: all values of one second are worked out once."""

    def __init__(self, tape, fault_at):
        self.tape, self.fault_at = tape, fault_at
        self.cached = {}

    def values(self, second, start_wall):
        """Values at this second since the start, by series."""
        known = self.cached.get(second)
        if known is None:
            if len(self.cached) > 40:
                self.cached.clear()
            known = {key: value for key in self.tape.series if (value := self.value(key, second, start_wall)) is not None}
            self.cached[second] = known
        return known

    def value(self, key, second, start_wall):
        tape, (calm_from, calm_to) = self.tape, self.tape.calm
        name = key[0]
        grows = name.endswith("_total") or name in GROWS
        began = self.fault_at if self.fault_at is not None else 1 << 40
        if second < began:
            loop = calm_from + second % max(int(calm_to - calm_from), 1)
            value = tape.at(key, loop)
            if value is None:
                return None
            if grows:
                rate = (tape.near(key, calm_to) - tape.near(key, calm_from)) / (calm_to - calm_from)
                # Never negative: what it has counted before stands far behind.
                return tape.near(key, calm_to) + rate * (second - min(began, 0) + 1e5 - (began if began < 1 << 40 else 0))
            if name.endswith("_timestamp_seconds"):
                # Its age is that of the recording; a state began when the simulation did.
                return start_wall if "state" in name else start_wall + second - (loop - value)
            return value
        when = calm_to + 2 + second - began
        value = tape.at(key, min(when, tape.end))
        if value is None:
            return None
        over = max(when - tape.end, 0)
        if grows:
            calm_rate = (tape.near(key, calm_to) - tape.near(key, calm_from)) / (calm_to - calm_from)
            last_rate = max(tape.near(key, tape.end) - tape.near(key, tape.end - 5), 0) / 5
            return value + calm_rate * 1e5 + last_rate * over
        if name.endswith("_timestamp_seconds"):
            return start_wall + began + value - (calm_to + 2)
        return value + over if name.endswith("_still_seconds") else value


class Node:
    def __init__(self, number, name, job, place, nodes_of_job, role, culprit, fault, first_of_job):
        self.number, self.name, self.job, self.place = number, name, job, place
        self.size, self.role, self.fault = nodes_of_job, role, fault
        # Ranks on the tape that are to blame; and the node of the job that has them here.
        self.culprit_rank, self.culprit_place = culprit
        self.first_of_job = first_of_job
        self.phase = zlib.crc32(name.encode()) % 15
        self.noise = 1 + (zlib.crc32(name.encode()[::-1]) % 1000 - 500) / 25000
        self.lines = self.template()

    def address(self, place):
        number = self.first_of_job + place
        return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def template(self):
        """Lines without values: what stands before the value, the series that it comes from, how it is changed."""
        lines, heads = [], set()
        series = sorted(self.role.tape.series)
        ranks = {int(dict(labels)["rank"]) for name, labels in series if name == "nccltop_rank_info"}
        local = max(len(ranks), 1)
        spare = next((rank for rank in sorted(ranks) if rank != self.culprit_rank), 0)
        here = self.place == self.culprit_place
        comms = sorted({dict(labels)["comm"] for name, labels in series if name == "nccltop_comm_still_seconds"})
        ports = sorted({dict(labels)["port"] for name, labels in series if name == "nccltop_port_up"})

        def put(name, labels, key, how=None):
            if name not in heads:
                heads.add(name)
                kind = "counter" if name.endswith("_total") else "gauge"
                lines.append((f"# HELP {name} {name}\n# TYPE {name} {kind}\n", None, None))
            text = ",".join(f'{label}="{value}"' for label, value in labels.items() if value)
            lines.append((f"{name}{{{text}}} " if text else f"{name} ", key, how))

        for key in series:
            name, labels = key[0], dict(key[1])
            if "job_id" in labels:
                labels["job_id"] = f"job-{self.job:02}"
            if name == "nccltop_finding_open":
                # A finding of this machine is this machine's; one of a rank is told by all nodes of its job, if they can see it.
                if labels["rule"] in SEEN_BY_ITS_NODE and not here:
                    continue
                if "rank" in labels:
                    labels["rank"] = str(int(labels["rank"]) + GPUS * self.culprit_place)
                    if not here:
                        labels.pop("gpu", None)
                        labels["node"] = self.address(self.culprit_place)
                elif not here and ("gpu" in labels or "port" in labels):
                    continue
                put(name, labels, key)
            elif name == "nccltop_job_world_size":
                put(name, labels, key, GPUS * self.size)
            elif name == "nccltop_job_local_ranks":
                put(name, labels, key, GPUS)
            elif name == "nccltop_node_address_info":
                continue
            elif name.startswith("nccltop_job_waiting_"):
                put(name, labels, key, name.split("_")[3])
            elif "rank" in labels or "gpu" in labels:
                self.eight(put, name, labels, key, local, spare, here)
            elif "comm" in labels:
                if labels["comm"] != comms[0]:
                    continue
                # Only the culprit's node has not entered what all others have.
                source = key if here or name != "nccltop_comm_operations_min" else ("nccltop_comm_operations_max", key[1])
                for n in range(COMMS):
                    put(name, labels | {"comm": f"{self.job * COMMS + n:016x}"}, source)
            elif "port" in labels:
                if labels["port"] != ports[0]:
                    continue
                for n in range(PORTS):
                    put(name, labels | {"port": f"rdmap{n}s0:1"}, key)
            else:
                put(name, labels, key)
        put("nccltop_node_address_info", {"address": self.address(self.place)}, None, 1)
        return lines

    def eight(self, put, name, labels, key, local, spare, here):
        """What each rank or GPU has, eight times; the culprit's own once, on its node."""
        which = "rank" if "rank" in labels else "gpu"
        mine = int(labels[which])
        for copy in range(GPUS // local):
            to = mine + copy * local
            source = key
            if mine == self.culprit_rank and not (here and copy == 0):
                other = tuple((k, str(int(v) - mine + spare) if k in ("rank", "gpu", "local_rank") else v) for k, v in key[1])
                source = (name, other) if (name, other) in self.role.tape.series else key
            changed = dict(labels)
            for label in ("rank", "gpu", "local_rank"):
                if label in changed:
                    changed[label] = str(to + (GPUS * self.place if label == "rank" else 0))
            if "uuid" in changed:
                changed["uuid"] = f"GPU-{self.number:04}-{to}"
            put(name, changed, source, "activity" if name == "nccltop_rank_activity_seconds_total" else None)

    def page(self, second, start_wall):
        if self.fault == "silent" and second >= self.role_fault_at:
            return None
        moment = second + (self.phase if self.role.fault_at is None else 0)
        values = self.role.values(moment, start_wall)
        out = []
        for text, key, how in self.lines:
            if key is None:
                out.append(text if how is None else f"{text}{how}\n")
                continue
            value = values.get(key)
            if value is None:
                continue
            if isinstance(how, int):
                value = how
            elif how == "activity":
                value = self.activity(text, value, second)
            elif how in ("least", "most"):
                value = self.waited(how, value, second)
            elif key[0].startswith("nccltop_gpu_") and "ratio" in key[0] or "watts" in key[0]:
                value *= self.noise
            out.append(f"{text}{value:.12g}\n")
        out.extend(f"{line}\n" for line in self.modelled(second))
        return "".join(out).encode()

    def modelled(self, second):
        """What no recording shows."""
        yield f"process_cpu_seconds_total {0.004 * second}"
        since = max(second - self.role_fault_at, 0)
        if self.fault == "xid":
            begun = int(since > 0)
            yield f'nccltop_gpu_xid_total{{gpu="3",xid="79"}} {begun * (1 + since // 20)}'
            yield f'nccltop_findings_total{{rule="gpu-xid",severity="error"}} {begun}'
            if begun:
                yield f'nccltop_finding_open{{job_id="job-{self.job:02}",rule="gpu-xid",severity="error",role="root",gpu="3"}} 1'
        elif self.fault == "straggler":
            yield f'nccltop_gpu_throttled_seconds_total{{gpu="1",reason="hw_thermal"}} {since}'
            yield f'nccltop_port_loss_total{{port="rdmap99s0:1",kind="efa"}} {since}'
            yield 'nccltop_source_up{source="rdma"} 0'

    role_fault_at = 1 << 40

    def waited(self, how, value, second):
        """Of the last three times 4 s: the first of them that lies after the fault shows it in the largest share, all three in the least."""
        after = second - self.role_fault_at
        begun = after > 0 if how == "most" else after >= 12
        return min(value + 0.4, 1) if self.fault == "waits" and begun else value

    def activity(self, text, value, second):
        """In a job with a straggler, all other nodes wait for it: time goes over from working to waiting."""
        if self.fault in ("straggler", "waits") and second > self.role_fault_at:
            moved = 0.4 * (second - self.role_fault_at) if self.fault == "waits" else 0
            if 'activity="waiting"' in text:
                return value + moved
            if 'activity="working"' in text:
                return value - moved
        return value


def faults_of(jobs):
    """Which job suffers what: every second one at most, as far as there are so many."""
    some = FAULTS[:max(jobs // 2, min(jobs - 1, 2))]
    return {1 + place * (jobs - 1) // len(some): fault for place, fault in enumerate(some)} if some else {}


def fleet(args):
    healthy = Role(Tape(args.healthy), None)
    roles, culprits = {}, {}
    for name, text in (one.split("=", 1) for one in args.fault):
        after, rank, path = text.split(",", 2)
        roles[name], culprits[name] = Role(Tape(path, float(after)), args.faults_at), int(rank)
    nodes, truth = [], []
    per_job = args.nodes / args.jobs
    faults = faults_of(args.jobs) if args.faults_at is not None else {}
    for job in range(args.jobs):
        first, last = round(job * per_job), round((job + 1) * per_job)
        fault, at = faults.get(job, (None, -1))
        at = min(at, last - first - 1)
        if fault:
            rank = GPUS * at + culprits[fault] if fault in roles else None
            truth.append({"job_id": f"job-{job:02}", "fault": fault, "node": f"node{first + at:04}", "rank": rank, "at_s": args.faults_at})
        for place in range(last - first):
            number = first + place
            role = roles.get(fault, healthy)
            culprit = (culprits[fault], at) if fault in roles else (None, -1)
            own = fault if place == at else {"straggler": "waits"}.get(fault)
            if fault == "xid" and at <= place < at + 3:
                own = "xid"
            node = Node(number, f"node{number:04}", job, place, last - first, role, culprit, own, first)
            if args.faults_at is not None:
                node.role_fault_at = args.faults_at
            nodes.append(node)
    return nodes, truth


async def serve(args, nodes, start):
    async def answer(reader, writer):
        try:
            while request := await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120):
                path = request.split(b" ", 2)[1].decode()
                number = path.split("/")[2] if path.startswith("/n/") else ""
                body = nodes[int(number)].page(int(time.time() - start), start) if number.isdigit() and int(number) < len(nodes) else None
                status = b"200 OK" if body else b"503 Service Unavailable"
                writer.write(b"HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n" % (status, len(body or b"")))
                writer.write(body or b"")
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", args.port)
    async with server:
        await server.serve_forever()


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--healthy", required=True)
    parse.add_argument("--fault", action="append", default=[], metavar="NAME=SECONDS,RANK,FILE",
                       help="a recording of a fault: when it begins, in seconds from its start, and whose it is")
    parse.add_argument("--nodes", type=int, default=1000)
    parse.add_argument("--jobs", type=int, default=16)
    parse.add_argument("--faults-at", type=int, help="seconds after the start; without it all stay healthy")
    parse.add_argument("--port", type=int, default=18100)
    parse.add_argument("--targets", help="where to write the file for file_sd")
    parse.add_argument("--truth", help="where to write what is wrong with which node, and when")
    args = parse.parse_args()
    nodes, truth = fleet(args)
    start = time.time()
    if args.targets:
        entry = lambda node: {"targets": [f"127.0.0.1:{args.port}"], "labels": {"__metrics_path__": f"/n/{node.number}/metrics", "instance": node.name}}
        json.dump([entry(node) for node in nodes], open(args.targets, "w"))
    if args.truth:
        json.dump([{**one, "at": start + one["at_s"]} for one in truth], open(args.truth, "w"), indent=1)
    page = nodes[0].page(0, start)
    print(f"{len(nodes)} nodes, {page.count(chr(10).encode()) - page.count(b'# ')} series and {len(page)} bytes each", flush=True)
    asyncio.run(serve(args, nodes, start))


if __name__ == "__main__":
    main()
