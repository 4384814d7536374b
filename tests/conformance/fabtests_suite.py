#!/usr/bin/env python3
"""libfabric's fabtests over the provider: server and client as two processes on two emulated hosts.

The lists of tests come from the runfabtests.sh of the given fabtests, so each version runs its own lists.
NOT_APPLICABLE names the tests that do not apply. Exit status: 0 if all applicable tests passed, 1
otherwise, 77 if there are no fabtests.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import job
import launchers

HOST = "127.0.0.1"
SETS = ["unit", "functional", "short", "standard"]
MODES = ["software", "hardware", "simulated"]
UNAVAILABLE = 77
LISTENS_WITHIN_S = 10
OTHER_SIDE_S = 20  # seconds that one side may run after the other has failed

# Features that this RDM provider lacks, each with its reason: docs/fabtests.md.
NOT_APPLICABLE = [
    (r"^fi_msg|-e msg", "connected endpoints (FI_EP_MSG) are not offered"),
    (r"^fi_cm_data", "connection management belongs to FI_EP_MSG"),
    (r"^fi_dgram|-e dgram", "unreliable datagrams (FI_EP_DGRAM) are not offered"),
    (r"^fi_shared_ctx", "shared contexts are not offered (max_ep_stx_ctx and max_ep_srx_ctx are 0)"),
    (r"^fi_scalable_ep", "scalable endpoints are not offered (max_ep_tx_ctx is 1)"),
    (r"^fi_rdm_shared_av", "address vectors are not shared between processes"),
    (r"^fi_multi_mr", "expects its own keys and offsets although it admits to others"),
    (r"^fi_poll|^fi_dgram_waitset", "of fabtests 1: does not exchange addresses out of band (no -E)"),
    (r"^fi_av_test", "inserts IPv4 addresses that it makes up; addresses here are slots of a pool"),
    (r"pingpong.* -k\b", "message prefixes (FI_MSG_PREFIX) are neither needed nor offered"),
]


def why_not(test):
    return next((reason for pattern, reason in NOT_APPLICABLE if re.search(pattern, test)), None)


def read_lists(script):
    """Maps set names to tests, from the arrays NAME_tests=( ... ) in runfabtests.sh."""
    with open(script) as file:
        text = file.read()
    return {name: re.findall(r'^\s*"([^"]+)"', body, re.M)
            for name, body in re.findall(r"^(\w+)_tests=\((.*?)^\)", text, re.M | re.S)}


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def listens(port):
    """True if a process of this host listens at the port. Does not connect, since that would use up the connection."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        if any(row[1].endswith(wanted) and row[3] == "0A" for row in rows):
            return True
    return False


class Side:
    """One process of a test, with its output in a file."""

    def __init__(self, command, environment, log_path):
        self.command, self.log_path = command, log_path
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT)

    def ended(self):
        return self.process.poll() is not None

    def end(self):
        if not self.ended():
            self.process.send_signal(signal.SIGKILL)
        return self.process.wait()

    def last_line(self):
        with open(self.log_path, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1] if lines else "no output"


class Suite:
    def __init__(self, options, mode, logs):
        self.options, self.mode, self.logs = options, mode, logs
        self.spec = f"shm:penstock-fabtests-{os.getpid()}-{mode}"
        self.number = 0

    def __enter__(self):
        self.penstock("pool", "create", self.spec, "--size", self.options.size, "--mode", self.mode)
        return self

    def __exit__(self, *_):
        self.penstock("pool", "rm", "--force", self.spec)

    def penstock(self, *arguments):
        done = subprocess.run([self.options.penstock, *arguments], capture_output=True, text=True,
                              env=job.clean_environment({}))
        if done.returncode != 0:
            sys.exit(done.stderr.strip())

    def environment(self, node):
        extra = {"FI_PROVIDER_PATH": self.options.provider, "FI_PROVIDER": "penstock",
                 "PENSTOCK_POOL": self.spec, "PENSTOCK_JOB": f"{self.spec}-{self.number}",
                 "PENSTOCK_NODE": str(node)}
        if self.options.libfabric:
            extra["LD_LIBRARY_PATH"] = self.options.libfabric
        extra.update(item.split("=", 1) for item in self.options.env)
        return job.clean_environment(extra)

    def program(self, test):
        words = shlex.split(test.replace("SERVER_ADDR", HOST).replace("GOOD_ADDR", HOST))
        path = os.path.join(self.options.fabtests, "bin", words[0])
        return [path, *words[1:], "-p", "penstock"] if os.access(path, os.X_OK) else None

    def log(self, side):
        return os.path.join(self.logs, f"{self.mode}-{self.number:03d}-{side}.log")

    def run(self, kind, test):
        """Runs a test; returns "" if it passed, else what went wrong."""
        self.number += 1
        command = self.program(test)
        if command is None:
            return f"{test.split()[0]} was not built"
        if kind == "unit":
            return self.finish([Side(command, self.environment(0), self.log("alone"))])
        port = free_port()
        server = Side([*command, f"-E={port}"], self.environment(0), self.log("server"))
        end = time.monotonic() + LISTENS_WITHIN_S
        while not server.ended() and not listens(port) and time.monotonic() < end:
            time.sleep(0.02)
        client = Side([*command, f"-E={port}", HOST], self.environment(1), self.log("client"))
        return self.finish([server, client])

    def finish(self, sides):
        end = time.monotonic() + self.options.deadline
        failed = False
        try:
            while not all(side.ended() for side in sides):
                if not failed and any(side.process.poll() not in (None, 0) for side in sides):
                    failed = True
                    end = min(end, time.monotonic() + OTHER_SIDE_S)
                if time.monotonic() > end:
                    break
                time.sleep(0.02)
            hung = [] if failed else [side for side in sides if not side.ended()]
        finally:
            statuses = [side.end() for side in sides]
        if hung:
            return f"did not end within {self.options.deadline:.0f} s"
        wrong = [f"status {status}: {side.last_line()}"
                 for status, side in zip(statuses, sides) if status not in (0, -signal.SIGKILL)]
        return " | ".join(wrong) or ("" if not any(statuses) else "killed")


def run_mode(mode, lists, options, logs):
    """Runs all tests in a mode; returns the numbers of passed, failed and inapplicable ones."""
    counts = {"pass": 0, "FAIL": 0, "n/a": 0}
    with Suite(options, mode, logs) as suite:
        for kind in options.sets:
            print(f"{mode}, {kind} tests:", flush=True)
            for test in lists[kind]:
                if not re.search(options.only, test):
                    continue
                start, reason = time.monotonic(), why_not(test)
                said = reason or suite.run(kind, test)
                verdict = "n/a" if reason else "FAIL" if said else "pass"
                counts[verdict] += 1
                took = "        " if reason else f"{time.monotonic() - start:6.1f} s"
                print(f"  {verdict:4} {test:<52} {took}  {said}", flush=True)
    return counts


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fabtests", metavar="DIR", help="prefix that they were installed under")
    build = os.path.join(launchers.ROOT, "build")
    parser.add_argument("--penstock", default=os.path.join(build, "bin", "penstock"),
                        help="the penstock command (default: %(default)s)")
    parser.add_argument("--provider", metavar="DIR", default=None,
                        help="folder of libpenstock-fi.so (default: lib beside the command's)")
    parser.add_argument("--libfabric", metavar="DIR", help="folder of the libfabric to use")
    parser.add_argument("--mode", nargs="+", default=["software"], choices=MODES)
    parser.add_argument("--sets", nargs="+", default=SETS, help="of runfabtests.sh (default: "
                        + " ".join(SETS) + ")")
    parser.add_argument("--only", metavar="REGEX", default="", help="tests to run (default: all)")
    parser.add_argument("--size", default="1G", help="of the pool (%(default)s)")
    parser.add_argument("--deadline", type=float, default=300, metavar="S", help="of one test")
    parser.add_argument("--env", nargs="*", default=[], metavar="NAME=VALUE", help="for both sides")
    parser.add_argument("--logs", help="directory for logs (default: a temporary one, kept when "
                        "something fails)")
    options = parser.parse_args(arguments)
    if not os.access(options.penstock, os.X_OK):
        parser.error(f"{options.penstock} is absent: make build, or give --penstock")
    above = os.path.dirname(os.path.dirname(os.path.abspath(options.penstock)))
    options.provider = options.provider or os.path.join(above, "lib")
    return options


def main(arguments=None):
    options = options_of(arguments)
    script = os.path.join(options.fabtests or "", "bin", "runfabtests.sh")
    if not os.path.exists(script):
        print(f"{script} is absent: build fabtests (docs/fabtests.md) and give --fabtests PREFIX")
        return UNAVAILABLE
    lists = read_lists(script)
    unknown = set(options.sets) - set(lists)
    if unknown:
        sys.exit(f"{script} has no set {', '.join(sorted(unknown))}: {', '.join(sorted(lists))}")
    job.end_on_signals()
    logs = options.logs or tempfile.mkdtemp(prefix="penstock-fabtests-")
    os.makedirs(logs, exist_ok=True)
    good = True
    closing = []
    for mode in options.mode:
        counts = run_mode(mode, lists, options, logs)
        good = good and counts["FAIL"] == 0
        closing.append(f"{mode}: {counts['pass']} passed, {counts['FAIL']} failed, "
                       f"{counts['n/a']} do not apply")
    print("\n".join(closing))
    if good and not options.logs:
        shutil.rmtree(logs)
    elif not good:
        print(f"logs: {logs}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
