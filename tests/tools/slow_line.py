#!/usr/bin/env python3
"""Runs a program in a terminal at the end of a slow line, and says whether it stays usable.

    tests/tools/slow_line.py [--rate 2400] [--size 200x60] [--seconds 40] COMMAND...

What the program draws is passed on at so many bytes a second. From the twelfth second on, every five seconds the recording that it plays is
paused or goes on (`p`), and for each it is measured how long it took until the sign of that came through. Exit code 0: never more than 1.5 s.
Nothing but Python's own library is needed.
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
    begin = last = time.monotonic()
    credit, passed, asked, answers, window = 0.0, 0, None, [], b""
    next_key, paused = begin + 12, False
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
            window = window[-8:] + chunk
            if asked and sign in window:
                answers.append(now - asked)
                asked, window = None, b""
        if now >= next_key:
            if asked:
                answers.append(float("inf"))
            os.write(line, b"p")
            paused, next_key = not paused, now + 5
            asked, window, sign = now, b"", ("‖" if paused else "▶").encode()
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if asked:
        answers.append(float("inf"))
    words = ", ".join(f"{a:.1f}" for a in answers)
    print(f"{passed / args.seconds:.0f} of {args.rate:.0f} bytes a second; answers after {words} s")
    sys.exit(0 if answers and max(answers) <= 1.5 else 1)


if __name__ == "__main__":
    main()
