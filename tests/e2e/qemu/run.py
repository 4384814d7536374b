#!/usr/bin/env python3
"""Two virtual machines share two emulated CXL memory devices: pools, programs and MPI jobs across
two kernels, and the death of one of them. See docs/qemu.md.

Prints what each host says, line by line. Ends with 0 when all is as it should be, and when the
packages that it needs cannot be had ("skipped: ...", unless --require)."""

import argparse
import os
import platform
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import image
import machines
import packages
import scenario
import stream_scenario

UNIT = 256 << 20  # windows of CXL memory come in multiples of it
GUEST_BYTES = 768 << 20


def size(text):
    found = re.fullmatch(r"(\d+)([MG])", text)
    count = int(found.group(1)) << {"M": 20, "G": 30}[found.group(2)] if found else 0
    if count == 0 or count % UNIT:
        raise argparse.ArgumentTypeError(f"'{text}' is no multiple of 256M, such as 256M or 1G")
    return count


def options():
    cache = os.environ.get("PENSTOCK_QEMU_CACHE") or packages.DEFAULT_CACHE
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, default=image.SOURCE / "build",
                        help="folder with the built product (default: build)")
    parser.add_argument("--venv", type=Path, default=image.SOURCE / ".venv",
                        help="Python environment with MPICH (default: .venv)")
    parser.add_argument("--cache", type=Path, default=cache,
                        help="where the packages lie (default: $PENSTOCK_QEMU_CACHE, else %(default)s)")
    parser.add_argument("--device-size", type=size, default="256M", metavar="SIZE",
                        help="bytes of each CXL device, a multiple of 256M (default: 256M)")
    parser.add_argument("--accel", choices=["tcg", "kvm"], default="tcg",
                        help="tcg (default) emulates every instruction; kvm does not know all "
                        "instructions that touch the devices, and stops at those")
    parser.add_argument("--logs", type=Path, help="keep the consoles of the machines here")
    parser.add_argument("--seconds", type=int, default=600,
                        help="give up after so many, fetching apart (default: 600)")
    parser.add_argument("--stream", action="store_true",
                        help="instead: penstock bench stream in one machine with two NUMA nodes, "
                        "volatile and persistent CXL memory")
    parser.add_argument("--require", action="store_true", help="fail where it would be skipped")
    return parser.parse_args()


def check_room():
    needed = 2 * (GUEST_BYTES + UNIT)  # of larger devices no more than that is written to
    available = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    if int(available.group(1)) << 10 < needed:
        raise packages.Unavailable(f"the machines and devices need {needed >> 20} MiB of memory, "
                                   f"{int(available.group(1)) >> 10} MiB are available")


def end_by_signal(number, _frame):
    signal.signal(number, signal.SIG_IGN)  # once is enough: what is left is cleaning up
    if number == signal.SIGALRM:
        raise OutOfTime("not done within --seconds")
    raise SystemExit(128 + number)


class OutOfTime(Exception):
    pass


class Transcript:
    def __init__(self):
        self.start = time.monotonic()

    def say(self, host, text):
        print(f"[{time.monotonic() - self.start:6.1f}] {host + '| ' if host else ''}{text}", flush=True)


def play_hosts(chosen, store, initrd, logs, say):
    image.Image(store, chosen.build.resolve(), chosen.venv.resolve(), initrd.parent).make(initrd)
    qemu = machines.TwoHosts(store, initrd, logs, chosen.accel, chosen.device_size)
    alpha, beta = (machines.Machine(name, number, qemu, say)
                   for number, name in enumerate(["alpha", "beta"], 1))
    try:
        return scenario.Scenario(alpha, beta, chosen.device_size, say).play()
    finally:
        alpha.kill()
        beta.kill()
        qemu.close()


def play_stream(chosen, store, initrd, logs, say):
    image.StreamImage(store, chosen.build.resolve(), chosen.venv.resolve(), initrd.parent).make(initrd)
    host = machines.Machine("numa", 1, machines.NumaHost(store, initrd, logs, chosen.accel, chosen.device_size), say)
    try:
        return stream_scenario.StreamScenario(host, say).play()
    finally:
        host.kill()


def play(chosen, store, work, say):
    logs = chosen.logs or work
    logs.mkdir(parents=True, exist_ok=True)
    return (play_stream if chosen.stream else play_hosts)(chosen, store, work / "initrd", logs, say)


def main():
    chosen = options()
    what = "STREAM on a machine in QEMU" if chosen.stream else "two machines in QEMU"
    transcript = Transcript()
    for number in [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM]:
        signal.signal(number, end_by_signal)
    try:
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise packages.Unavailable("it needs Linux on x86_64")
        check_room()
        store = packages.Store(chosen.cache, lambda text: transcript.say("", text))
        store.fill()
        signal.alarm(chosen.seconds)
        with tempfile.TemporaryDirectory(prefix="penstock-qemu-") as work:
            steps = play(chosen, store, Path(work), transcript.say)
    except packages.Unavailable as reason:
        print(f"{'error' if chosen.require else 'skipped'}: {what}: {reason}")
        return 1 if chosen.require else 0
    except (image.Missing, machines.Failure, OutOfTime) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    transcript.say("", f"{what}: ok, {steps} steps. Shown: " + (
        "which memory it finds, and that the arrays are right there; its times are those of an emulator"
        if chosen.stream else "mapping, layout, launch and liveness across two kernels; not coherence, since "
        "flushes are no-ops here"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
