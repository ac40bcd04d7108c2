#!/usr/bin/env python3
"""Runs the screen of `nccl-top fleet` in a terminal and measures it: first picture, bytes, memory, CPU; keys and the mouse are pressed meanwhile.

    tests/tools/fleet_screen.py [--size 160x45] [--seconds 30] [--keys] -- target/release/nccl-top fleet --prometheus URL

A picture counts as the first when the title of the list of jobs is drawn. Exit code 1: there was none, or the program ended before `q`, or not after it.
Nothing but Python's own library is needed.
"""
import argparse
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time

# What is pressed, one a second: into a job, its findings, a node, back, filter, help, time, sort and its direction, wheel, a row by the mouse.
KEYS = [b"j", b"\r", b"\t", b"\t", b"\r", b"\x1b", b"\x1b", b"/job-0", b"\r", b"/", b"\x15", b"\r", b"?", b"\x1b", b"\x1b[D", b"[", b"]", b"L",
        b"s", b"S", b"<", b">", b"\x1b[<65;20;8M", b"\x1b[<0;20;8M\x1b[<0;20;8m", b"\x1b[<0;20;8M\x1b[<0;20;8m", b"\x1b", b"\x1b", b"c", b"x", b"m", b"m", b"L"]


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(command, size=(160, 45), seconds=30, keys=False):
    """First picture, bytes a second after it, peak memory, CPU. With keys, one a second is pressed from the third second on."""
    began = time.monotonic()
    pid, line = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    seen, first, before, after, pressed, ended = b"", None, 0, 0, 0, False
    peak, busy = 0, 0.0
    while (now := time.monotonic() - began) < seconds:
        if select.select([line], [], [], 0.05)[0]:
            try:
                chunk = os.read(line, 65536)
            except OSError:
                ended = True
                break
            if first is None:
                seen += chunk
                before += len(chunk)
                if b"Jobs (" in seen or b"Jobs:" in seen:
                    first = now
            else:
                after += len(chunk)
        if keys and first is not None and now - first > 2 + pressed and pressed < len(KEYS):
            os.write(line, KEYS[pressed])
            pressed += 1
    if not ended:
        peak = next((int(text.split()[1]) for text in open(f"/proc/{pid}/status") if text.startswith("VmHWM")), 0)
        busy = cpu_s(pid)
        for _ in range(3):
            os.write(line, b"\x1b")
            time.sleep(0.2)
        os.write(line, b"q")
    status, until = None, time.monotonic() + 10
    while status is None and time.monotonic() < until:
        if select.select([line], [], [], 0.05)[0]:
            try:
                os.read(line, 65536)
            except OSError:
                pass
        done, code = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else None
    if status is None:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return {
        "first_picture_s": first and round(first, 2),
        "first_picture_bytes": before,
        "bytes_per_s": round(after / max(seconds - (first or 0), 1)),
        "peak_rss_mib": round(peak / 1024, 1),
        "cpu_percent": round(100 * busy / seconds, 1),
        "keys_pressed": pressed,
        "ended_with": status,
        "well": first is not None and not ended and status == 0,
    }


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--size", default="160x45")
    parse.add_argument("--seconds", type=float, default=30)
    parse.add_argument("--keys", action="store_true", help="press keys meanwhile")
    parse.add_argument("command", nargs=argparse.REMAINDER)
    args = parse.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    width, height = map(int, args.size.split("x"))
    figures = measure(command, (width, height), args.seconds, args.keys)
    print(json.dumps(figures, indent=1))
    sys.exit(0 if figures["well"] else 1)


if __name__ == "__main__":
    main()
