#!/usr/bin/env python3
"""A fleet in front of a real Prometheus and Alertmanager: what it costs, and how soon a fault is a message, with the right rank in it.

    tests/tools/fleet_try.py --bin target/release/nccl-top [--nodes 1000] [--minutes 8] [--json FILE]

Plays tests/tapes/{none,hang,kill,slow} as --nodes nodes (fleet_sim.py), has Prometheus scrape them every 15 s with the rules and alerts of assets/deploy,
and takes what Alertmanager sends. Everything listens on the loopback and stands in one temporary directory. Prints figures, and exits with 1 if a
fault was not reported, something was that is none, or a panel of a dashboard stays empty. Needs Debian's prometheus and prometheus-alertmanager, and Python only.
"""
import argparse
import datetime
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import fleet_screen

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
DEPLOY = os.path.join(REPOSITORY, "assets/deploy")
SIM, PROMETHEUS, MANAGER, HOOK = 18100, 18101, 18102, 18103
# What must come of each fault: alert, and which of its labels name the culprit.
EXPECTED = {
    "hang": ("NcclTopFinding", ("job_id", "node", "rank")),
    "kill": ("NcclTopFinding", ("job_id", "node", "rank")),
    "silent": ("NcclTopNodeSilent", ("job_id", "instance")),
    "straggler": ("NcclTopStragglerNode", ("job_id", "instance")),
    "slow": ("NcclTopSlow", ("job_id", "node", "rank")),
    "xid": ("NcclTopFinding", ("job_id", "node")),
}
# What may come besides, of a job that has a fault.
ALSO = {"NcclTopRanksMissing", "NcclTopCommonCause", "NcclTopJobStopped", "NcclTopNodeBehind", "NcclTopRankIdle"}

got = []


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        got.extend((time.time(), alert["status"], alert["labels"], alert["annotations"], seconds(alert["startsAt"])) for alert in body["alerts"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def seconds(stamp):
    """Of a time as Alertmanager writes it; fractions are not needed."""
    return datetime.datetime.fromisoformat(stamp[:19] + "+00:00").timestamp()


def ask(expr, **more):
    data = urllib.parse.urlencode({"query": expr, **more}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{PROMETHEUS}/api/v1/query", data, timeout=60) as answer:
        return json.load(answer)["data"]["result"]


def number(expr):
    found = ask(expr)
    return float(found[0]["value"][1]) if found else None


def status(pid, what):
    return next((int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith(what)), 0)


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def configure(work, args):
    for name in ("rules.yml", "alerts.yml"):
        shutil.copy(f"{DEPLOY}/prometheus/{name}", work)
    scrape = open(f"{DEPLOY}/prometheus/prometheus.example.yml").read()
    # All nodes share a port here, so that the name of each comes from the file of targets.
    scrape = scrape.replace("nodes/*.json", "nodes.json").replace("localhost:9093", f"127.0.0.1:{MANAGER}")
    scrape = re.sub(r"    relabel_configs:.*", "", scrape, flags=re.S)
    open(f"{work}/prometheus.yml", "w").write(scrape)
    manager = open(f"{DEPLOY}/alertmanager.example.yml").read().replace("http://localhost:8080/alert", f"http://127.0.0.1:{HOOK}/")
    open(f"{work}/alertmanager.yml", "w").write(manager)


def dashboards(truth):
    """Expressions of the dashboards that Prometheus answers with nothing, or not at all; with how long the slowest took."""
    empty, slowest = [], (0, "")
    job_with = {fault["fault"]: fault["job_id"] for fault in truth}
    for name in ("fleet", "job"):
        for panel in json.load(open(f"{DEPLOY}/grafana/{name}.json"))["panels"]:
            for target in panel.get("targets", []):
                expr = target["expr"].replace("$__rate_interval", "1m").replace("$severity", ".*").replace("$instance", ".*")
                # The job with a straggler: it trains, and has something in every panel but one.
                expr = expr.replace('=~"$job_id"', '=~".*"').replace("$job_id", job_with.get("hang" if panel["title"] == "Open findings" else "straggler", "job-00"))
                began = time.time()
                try:
                    if not ask(expr):
                        empty.append(f"{name}: {panel['title']}")
                except OSError as why:
                    empty.append(f"{name}: {panel['title']}: {why}")
                slowest = max(slowest, (time.time() - began, f"{name}: {panel['title']}"))
    return empty, slowest


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--bin", required=True)
    parse.add_argument("--nodes", type=int, default=1000)
    parse.add_argument("--jobs", type=int, default=16)
    parse.add_argument("--minutes", type=float, default=8)
    parse.add_argument("--faults-at", type=int, default=240, help="seconds after the start; -1: none, a healthy fleet")
    parse.add_argument("--json", help="where to write the figures")
    args = parse.parse_args()
    work = tempfile.mkdtemp(prefix="nccl-top-fleet-")
    running = []
    hook = http.server.ThreadingHTTPServer(("127.0.0.1", HOOK), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    try:
        return judge(args, work, running)
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait()
        shutil.rmtree(work)


def judge(args, work, running):
    def start(*command, log):
        running.append(subprocess.Popen(command, cwd=work, stdout=open(f"{work}/{log}.log", "w"), stderr=subprocess.STDOUT))
        return running[-1]

    sim = [f"{HERE}/fleet_sim.py", "--nodes", str(args.nodes), "--jobs", str(args.jobs), "--port", str(SIM), "--targets", f"{work}/nodes.json"]
    sim += ["--truth", f"{work}/truth.json"] + (["--faults-at", str(args.faults_at)] if args.faults_at >= 0 else [])
    for tape in ("none", "hang", "kill", "slow"):
        subprocess.run([args.bin, "export", "--replay", f"{REPOSITORY}/tests/tapes/{tape}.jsonl.gz", "--every", "1s",
                        "--openmetrics-file", f"{work}/{tape}.om"], check=True)
        label = json.load(open(f"{REPOSITORY}/tests/tapes/{tape}.label.json"))
        role = ["--healthy", f"{work}/{tape}.om"] if tape == "none" else ["--fault", f"{tape}={label['since_s']},{label['ranks'][0]},{work}/{tape}.om"]
        sim += role
    configure(work, args)
    simulator = start(*sim, log="sim")
    while not os.path.exists(f"{work}/truth.json"):
        if simulator.poll() is not None:
            raise SystemExit(open(f"{work}/sim.log").read())
        time.sleep(0.2)
    began = time.time()
    start("prometheus-alertmanager", f"--config.file={work}/alertmanager.yml", f"--storage.path={work}/am", f"--web.listen-address=127.0.0.1:{MANAGER}",
          "--cluster.listen-address=", log="manager")
    prometheus = start("prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/data",
                       f"--web.listen-address=127.0.0.1:{PROMETHEUS}", log="prometheus")
    time.sleep(args.minutes * 60)

    took = time.time() - began
    watch = [args.bin, "fleet", "--prometheus", f"http://127.0.0.1:{PROMETHEUS}"]
    truth = json.load(open(f"{work}/truth.json"))
    empty, slowest = dashboards(truth)
    figures = {
        "nodes": args.nodes,
        "up": number('sum(up{job="nccl-top"})'),
        "series_per_node": number('avg(scrape_samples_scraped{job="nccl-top"})'),
        "head_series": number("prometheus_tsdb_head_series") or head_series(),
        "samples_per_s": number('sum(scrape_samples_scraped{job="nccl-top"}) / 15'),
        "scrape_p99_ms": 1e3 * (number('quantile(0.99, max_over_time(scrape_duration_seconds{job="nccl-top"}[3m]))') or 0),
        "scrape_median_ms": 1e3 * (number('quantile(0.5, avg_over_time(scrape_duration_seconds{job="nccl-top"}[3m]))') or 0),
        "prometheus_rss_mib": status(prometheus.pid, "VmHWM") / 1024,
        "prometheus_cpu_percent": 100 * cpu_seconds(prometheus.pid) / took,
        "rules_s": rules_seconds(),
        "simulator_rss_mib": status(simulator.pid, "VmHWM") / 1024,
        "slowest_panel": slowest,
        "panels_empty": empty,
        "load": os.getloadavg()[1],
        "fleet": {"overview": fleet_screen.measure(watch, seconds=45), "keys": fleet_screen.measure(watch, seconds=45, keys=True)},
    }
    document = subprocess.run([*watch, "--json"], capture_output=True, text=True)
    document = json.loads(document.stdout) if document.returncode in (0, 1) else {"findings": [], "failed": document.stderr}
    figures["fleet"]["asked_in_s"] = document.get("took_ms", 0) / 1e3
    blamed = [f for f in document["findings"] if f["role"] == "root" and f["severity"] in ("warning", "error", "critical")]
    figures["fleet"]["findings"] = [f"{f['rule']}: {f['summary']}" for f in blamed]
    wrong = 0
    for fault in truth:
        alert, keys = EXPECTED[fault["fault"]]
        is_it = {"job_id": fault["job_id"], "node": fault["node"], "instance": fault["node"], "rank": str(fault["rank"])}
        times = [(at - fault["at"], fired - fault["at"]) for at, state, labels, _, fired in got if state == "firing"
                 and labels["alertname"] == alert and all(labels.get(key) == is_it[key] for key in keys)]
        fault["reported_after_s"], fault["firing_after_s"] = (round(one, 1) for one in min(times)) if times else (None, None)
        wrong += not times
    known = {fault["job_id"]: fault for fault in truth}
    others = set()
    for at, state, labels, annotations, _ in got:
        fault = known.get(labels.get("job_id"))
        right = labels["alertname"] in ALSO or fault and (labels.get("node", labels.get("instance")) == fault["node"] or fault["fault"] == "xid")
        if not (right and (fault or not labels.get("job_id")) and truth):
            others.add(f"{labels['alertname']}: {annotations.get('summary')}")
    figures |= {"faults": truth, "messages": len(got), "alerts_that_are_wrong": sorted(others)}
    print(json.dumps(figures, indent=1))
    for at, state, labels, annotations, _ in sorted(got, key=lambda one: one[0]):
        print(f"+{at - began:5.0f} s {state:8} {labels['alertname']}: {annotations.get('summary')}", file=sys.stderr)
    if args.json:
        json.dump(figures, open(args.json, "w"), indent=1)
    return 1 if wrong or others or (truth and empty) or figures["up"] != args.nodes - sum(fault["fault"] == "silent" for fault in truth) else 0


def head_series():
    with urllib.request.urlopen(f"http://127.0.0.1:{PROMETHEUS}/api/v1/status/tsdb", timeout=30) as answer:
        return json.load(answer)["data"]["headStats"]["numSeries"]


def rules_seconds():
    """The last evaluation of each group."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PROMETHEUS}/api/v1/rules", timeout=30) as answer:
        return {group["name"]: round(group["evaluationTime"], 3) for group in json.load(answer)["data"]["groups"]}


if __name__ == "__main__":
    sys.exit(main())
