#!/usr/bin/env python3
"""Runs a program in a terminal at the end of a slow line, and says whether it stays usable.

    tests/tools/slow_line.py [--rate 2400] [--size 200x60] [--seconds 40] COMMAND...

What the program draws is passed on at so many bytes a second. Every eight seconds `?` is pressed, and four seconds later once more. For each
it is said how long it took until the first and until the last byte of the help came through. Nothing but Python's own library is needed.
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rate", type=float, default=2400, help="bytes a second")
    args.add_argument("--size", default="200x60")
    args.add_argument("--seconds", type=float, default=40)
    args.add_argument("command", nargs=argparse.REMAINDER)
    args = args.parse_args()
    columns, rows = map(int, args.size.split("x"))
    pid, line = pty.fork()
    if pid == 0:
        os.environ.setdefault("TERM", "xterm-256color")
        os.execvp(args.command[0], args.command)
    fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    # The most that lies in buffers between, as it does in those of a network.
    begin = last = time.monotonic()
    credit, passed, asked, answers, window = 0.0, 0, None, [], b""
    next_key, opened = begin + 8, False
    while (now := time.monotonic()) - begin < args.seconds:
        credit = min(credit + (now - last) * args.rate, args.rate * 0.1)
        last = now
        if credit >= 1 and select.select([line], [], [], 0)[0]:
            try:
                chunk = os.read(line, int(credit))
            except OSError:
                sys.exit("the program has ended")
            credit -= len(chunk)
            passed += len(chunk)
            window = (window + chunk)[-64:]
            if asked and b"Help" in window:
                answers.append(now - asked)
                asked, window = None, b""
        if now >= next_key:
            os.write(line, b"\x1b" if opened else b"?")
            if not opened:
                asked, window = now, b""
            opened, next_key = not opened, now + 4
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if asked:
        answers.append(float("inf"))
    words = ", ".join(f"{a:.1f}" for a in answers)
    print(f"{passed / args.seconds:.0f} of {args.rate:.0f} bytes a second; the help came after {words} s")
    sys.exit(0 if answers and max(answers) <= 2 else 1)


if __name__ == "__main__":
    main()
