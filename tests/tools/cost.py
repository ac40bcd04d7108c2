#!/usr/bin/env python3
"""What it costs to keep nccl-top open, side by side with other programs, as a table in Markdown.

    tests/tools/cost.py [--bin DIR] [--seconds 30] [--only NAME,...] [--threads] [NAME=COMMAND ...]

Runs each program in a terminal of 200x60, one after the other, lets it settle for ten seconds, and then measures it and its children:

- CPU: per cent of one core, from /proc/PID/stat
- RSS: resident memory at the end, all processes, in MiB; shared pages count once for each
- calls: system calls a second, in a run of its own below strace, which slows a program down
- terminal: bytes a second that it sends to the terminal

With --threads the CPU of each thread stands below the table, by its name (/proc/PID/task/TID/stat), and what of the memory is the program's own.

Programs are taken from DIR first and then from PATH; what is not there is left out and named below the table. Nothing but Python's own
library is needed, and no network. Where strace is missing, perf counts the calls instead (needs root); without both the column is empty.
"""

import argparse
import fcntl
import os
import platform
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

COMMANDS = [
    ("nccl-top", "nccl-top"),
    ("nccl-top watch", "nccl-top watch"),
    ("nvtop", "nvtop"),
    ("nvitop", "nvitop -m full"),
    ("all-smi", "all-smi local"),
    ("gpustat", "gpustat --interval 1"),
    ("nvidia-smi", "nvidia-smi dmon -d 1"),
    ("top", "top -d 1"),
]
SETTLES_S = 10
ROWS, COLUMNS = 60, 200
TICKS = os.sysconf("SC_CLK_TCK")


class Gone(Exception):
    """The program has ended by itself."""


class Terminal:
    """A program in a terminal of its own, whose other end reads everything and answers what programs ask of terminals."""

    def __init__(self, command):
        self.bytes = 0
        self.last = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", LANG="C.UTF-8")
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            try:
                os.execv(command[0], command)
            except OSError as err:
                os.write(2, str(err).encode())
                os._exit(127)

    def read_for(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                continue
            try:
                read = os.read(self.fd, 65536)
            except OSError:
                read = b""
            if not read:
                raise Gone(words_of(self.last)[-120:])
            self.bytes += len(read)
            self.last = (self.last + read)[-400:]
            if b"\x1b[6n" in read:
                os.write(self.fd, b"\x1b[1;1R")
            if b"\x1b[c" in read:
                os.write(self.fd, b"\x1b[?6c")

    def end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.processes():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            try:
                self.read_for(0.5)
            except Gone:
                pass
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def processes(self):
        """The program and its children: all of its session."""
        for name in os.listdir("/proc"):
            stat = stat_of(name) if name.isdigit() else None
            if stat and int(stat[3]) == self.pid:
                yield int(name)

    def cpu_s(self):
        stats = [stat_of(pid) for pid in self.processes()]
        # Own time, and that of children that have ended.
        return sum(sum(map(int, stat[11:15])) for stat in stats if stat) / TICKS

    def threads_s(self):
        """CPU time by the names of threads."""
        by_name = {}
        for pid in self.processes():
            try:
                tasks = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for tid in tasks:
                stat = stat_of(f"{pid}/task/{tid}")
                if stat:
                    with open(f"/proc/{pid}/task/{tid}/comm") as file:
                        name = file.read().strip()
                    user, kernel = by_name.get(name, (0, 0))
                    by_name[name] = (user + int(stat[11]) / TICKS, kernel + int(stat[12]) / TICKS)
        return by_name

    def own_mib(self):
        """Memory that is no file's, of the program itself."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon"))

    def rss_mib(self):
        stats = [stat_of(pid) for pid in self.processes()]
        return sum(int(stat[21]) for stat in stats if stat) * os.sysconf("SC_PAGE_SIZE") / 2**20


def words_of(sent):
    """What a program printed, without what moves the cursor or asks the terminal."""
    text = re.sub(r"\x1b(\[[0-9;?<=>]*[a-zA-Z]|[P\]_^].*?(\x1b\\|\x07)|.)", " ", sent.decode("utf-8", "replace"))
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def stat_of(pid):
    """The fields of /proc/PID/stat from the state on."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None


def measured(command, seconds):
    """CPU in per cent, RSS in MiB, bytes a second; and lines on its threads and memory."""
    terminal = Terminal(command)
    try:
        terminal.read_for(SETTLES_S)
        began, cpu_s, sent, threads = time.monotonic(), terminal.cpu_s(), terminal.bytes, terminal.threads_s()
        terminal.read_for(seconds)
        took = time.monotonic() - began
        cpu, rss, sent_per_s = 100 * (terminal.cpu_s() - cpu_s) / took, terminal.rss_mib(), (terminal.bytes - sent) / took
        of_threads = []
        for name, now in terminal.threads_s().items():
            user, kernel = (100 * (a - b) / took for a, b in zip(now, threads.get(name, (0, 0))))
            of_threads.append((user + kernel, f"{name}: {user + kernel:.2f} % (user {user:.2f}, kernel {kernel:.2f})"))
        lines = [words for spent, words in sorted(of_threads, reverse=True) if spent > 0] + [f"its own memory: {terminal.own_mib():.1f} MiB"]
        return cpu, rss, sent_per_s, lines
    finally:
        terminal.end()


def calls_per_s(command, seconds, tools):
    if tools.get("strace"):
        return calls_by_strace(command, seconds, tools["strace"])
    if tools.get("perf"):
        return calls_by_perf(command, seconds, tools["perf"])
    return None


def calls_by_strace(command, seconds, strace):
    with tempfile.NamedTemporaryFile() as log:
        terminal = Terminal([strace, "-f", "-qq", "-o", log.name, *command])
        try:
            terminal.read_for(SETTLES_S)
            before = calls_in(log.name)
            terminal.read_for(seconds)
            return (calls_in(log.name) - before) / seconds
        finally:
            terminal.end()


def calls_in(log):
    """A call that another thread interrupted has two lines."""
    with open(log, "rb") as file:
        return sum(1 for line in file if b" resumed>" not in line and b" +++ " not in line and b" --- " not in line)


def calls_by_perf(command, seconds, perf):
    terminal = Terminal(command)
    try:
        terminal.read_for(SETTLES_S)
        pids = ",".join(map(str, terminal.processes()))
        count = [perf, "stat", "-x;", "-e", "raw_syscalls:sys_enter", "-p", pids, "--", "sleep", str(seconds)]
        counting = subprocess.Popen(count, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        terminal.read_for(seconds + 1)
        counted = counting.communicate()[1].split(";")[0].strip()
        return int(counted) / seconds if counted.isdigit() else None
    finally:
        terminal.end()


def machine():
    """One line about where this was measured."""
    gpus = [name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()]
    interfaces = os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else []
    ports = os.listdir("/sys/class/infiniband") if os.path.isdir("/sys/class/infiniband") else []
    processes = sum(name.isdigit() for name in os.listdir("/proc"))
    return (
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {processes} processes, {len(gpus)} NVIDIA GPUs, {len(interfaces)} network "
        f"interfaces, {len(ports)} RDMA devices, Linux {platform.release()}"
    )


def main():
    about, rest = __doc__.split("\n\n", 1)
    parser = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", metavar="DIR", help="where programs are looked for before PATH")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--only", metavar="NAME,...", help="only these")
    parser.add_argument("--threads", action="store_true", help="what each thread takes")
    parser.add_argument("commands", nargs="*", metavar="NAME=COMMAND", help="others besides")
    args = parser.parse_args()
    path = os.pathsep.join(filter(None, [args.bin and os.path.abspath(args.bin), os.environ.get("PATH")]))
    tools = {name: shutil.which(name, path=path) for name in ("strace", "perf")}
    given = [tuple(command.split("=", 1)) for command in args.commands]
    if any(len(command) < 2 for command in given):
        parser.error("a command is given as NAME=COMMAND")
    only = args.only and args.only.split(",")
    print(f"{machine()}; terminal {COLUMNS}x{ROWS}, {args.seconds:g} s each\n")
    print("| program | CPU % of a core | RSS MiB | system calls/s | terminal bytes/s |")
    print("| --- | --- | --- | --- | --- |")
    left_out, by_thread = [], []
    for name, text in COMMANDS + given:
        if only and name not in only:
            continue
        command = shlex.split(text)
        program = shutil.which(command[0], path=path)
        if not program:
            left_out.append(f"{name}: not found")
            continue
        command[0] = program
        try:
            cpu, rss, sent, lines = measured(command, args.seconds)
            calls = calls_per_s(command, args.seconds, tools)
        except Gone as why:
            left_out.append(f"{name}: it ended: {why}")
            continue
        counted = "–" if calls is None else f"{calls:.0f}"
        print(f"| {name} | {cpu:.2f} | {rss:.1f} | {counted} | {sent:.0f} |", flush=True)
        by_thread += [f"{name}: {line}" for line in lines]
    if args.threads:
        print("\nThreads:\n\n" + "\n".join(f"- {line}" for line in by_thread))
    if left_out:
        print("\nLeft out:\n\n" + "\n".join(f"- {line}" for line in left_out))


if __name__ == "__main__":
    sys.exit(main())
