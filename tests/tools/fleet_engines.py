#!/usr/bin/env python3
"""Asks two servers that scrape the same nodes all questions of `nccl-top fleet`, of the rules and of the dashboards, and prints where they differ.

    tests/tools/fleet_engines.py http://127.0.0.1:9090 http://127.0.0.1:8428

The second may be VictoriaMetrics, Thanos or Mimir. What counts is which series come back with which labels, and for shares the value within 0.15:
they scrape at different instants. Exit code 1: one of them refuses a question, or the series differ. Python only.
"""
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def questions(job, node):
    text = open(f"{REPOSITORY}/src/fleet/queries.rs").read()
    for name, expr in re.findall(r'query\(\s*"([a-z-]+)",\s*r#"(.*?)"#', text, re.S):
        values = {"$M": "", "$W": "60s", "$S": "45", "$J": f'"{job}"', "$N": f'"{node}"', "$A": f'"{node}"'}
        yield f"fleet {name}", re.sub(r"\$[MWSJNA]", lambda found: values[found[0]], " ".join(expr.split()))
    for file in ("rules", "alerts"):
        text = open(f"{REPOSITORY}/assets/deploy/prometheus/{file}.yml").read()
        for name, folded, line in re.findall(r"- (?:alert|record): (\S+)\n        expr: (?:>-\n((?:          .*\n)+)|(.*)\n)", text):
            yield f"{file} {name}", " ".join((folded or line).split())
    for name in ("fleet", "job"):
        for panel in json.load(open(f"{REPOSITORY}/assets/deploy/grafana/{name}.json"))["panels"]:
            for target in panel.get("targets", []):
                expr = target["expr"].replace("$__rate_interval", "1m").replace("$severity", ".*").replace("$instance", ".*")
                yield f"{name}: {panel['title']}", expr.replace('=~"$job_id"', '=~".*"').replace("$job_id", job)


def ask(url, expr, at):
    data = urllib.parse.urlencode({"query": expr, "time": at}).encode()
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query", data, timeout=60) as answer:
            found = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as why:
        return None, why.read().decode(errors="replace")[:200]
    except OSError as why:
        return None, str(why)
    return {json.dumps(one["metric"], sort_keys=True): one.get("value", [0, "0"])[1] for one in found}, None


def compare(name, expr, first, second, at):
    (a, refused_a), (b, refused_b) = ask(first, expr, at), ask(second, expr, at)
    if a is None or b is None:
        return f"{name}: refused by the {'first' if a is None else 'second'}: {refused_a or refused_b}\n    {expr}"
    only_a, only_b = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    # Among equals each chooses others.
    if len(a) == len(b) and re.search(r"\b(top|bottom)k\(", expr):
        return None
    if only_a or only_b:
        return f"{name}: {len(a)} and {len(b)} series; only the first: {only_a[:2]}, only the second: {only_b[:2]}\n    {expr}"
    far = [key for key in a if max(float(a[key]), float(b[key])) <= 1 and abs(float(a[key]) - float(b[key])) > 0.15]
    return f"{name}: {len(far)} of {len(a)} values differ, such as {far[0]}: {a[far[0]]} and {b[far[0]]}\n    {expr}" if far else None


def main():
    first, second = sys.argv[1:3]
    stuck, _ = ask(first, 'max by (job_id) (nccltop_job_state{state="stuck"} == 1)', time.time())
    job = json.loads(next(iter(stuck), "{}")).get("job_id", "job-00")
    nodes, _ = ask(first, f'nccltop_job_info{{job_id="{job}"}}', time.time())
    node = json.loads(next(iter(nodes), "{}")).get("instance", "node0000")
    all_of_them = list(questions(job, node))
    # What differs only because one of them has scraped a node and the other has not, does not differ each time.
    left = all_of_them
    for _ in range(4):
        said = {name: compare(name, expr, first, second, time.time() - 5) for name, expr in left}
        left = [(name, expr) for name, expr in left if said[name]]
        if not left:
            break
        time.sleep(7)
    for name, _ in left:
        print(said[name])
    print(f"{len(all_of_them)} questions about {job} and {node}, {len(left)} answered differently")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
