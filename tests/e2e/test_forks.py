"""Imports all end-to-end tests, and forks a process for each that it is asked to run: test_forks.py SOCKET. Ends when its input does.

SOCKET is the path of the socket it makes. one_test.py is the other side: a connection of its own for each test, whose one message is the
test's name, its folder and its environment, with its input, output and errors. The answer is its exit status. A test whose connection
ends is killed, with all that it has started.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import unittest
from pathlib import Path


def with_descendants(process):
    """A process and those it has started, as far as their parents live."""
    children = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found


def kill(process):
    for each in with_descendants(process):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


def next_test(served):
    """Returns a connection in the process that shall run its test. The one that serves never returns."""
    while True:
        for ready in select.select([served, 0], [], [])[0]:
            if ready == 0:
                os._exit(0)
            connection, _ = served.accept()
            if os.fork() == 0:
                served.close()
                return connection
            connection.close()


def become(connection):
    """Returns in the process of the test, its name: a child of this one, which answers when it has ended."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 22, 3)
    process = os.fork()
    if process:
        for descriptor in descriptors:
            os.close(descriptor)
        ended = os.pidfd_open(process)
        if ended not in select.select([ended, connection], [], [])[0]:
            kill(process)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        try:
            connection.send(str(status if status >= 0 else 128 - status).encode())
        except OSError:
            pass  # it was not waited for
        os._exit(0)
    connection.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    name, folder, *variables = message.decode(errors="surrogateescape").split("\0")
    environment = dict(each.split("=", 1) for each in variables)
    for key in os.environ.keys() | environment.keys():
        if key.startswith("E2E_") and os.environ.get(key) != environment.get(key):
            sys.exit(f"{key} is '{environment.get(key)}' for {name}, but '{os.environ.get(key)}' for the process that has imported it")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return name


def main(path):
    os.environ["E2E_FORKS"] = path
    here = Path(__file__).resolve().parent
    sys.path[0] = ""  # as of python -m
    sys.path.insert(1, str(here))
    for each in sorted(here.glob("*_test.py")):
        importlib.import_module(each.stem)
    sys.modules["torch_test"].share_forks()
    if len(os.listdir("/proc/self/task")) != 1:
        sys.exit("test_forks.py: the import of the tests has started threads, so a fork may hang")
    gc.freeze()
    # This process does not wait for its forks; a test does for its own.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as served:
        served.bind(path)
        served.listen(64)
        print("ready", flush=True)
        connection = next_test(served)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    name = become(connection)
    unittest.main(module=None, argv=["python -m unittest", name])


if __name__ == "__main__":
    main(sys.argv[1])
