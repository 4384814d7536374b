"""Imports torch, which takes seconds, and forks a process for each program that it is asked to run: torch_forks.py SOCKET.

SOCKET is the number of a descriptor. Each message on it is a JSON object {program, arguments, environment}, with three descriptors: the program's
output, its errors, and a pipe that gets its process id and, when it has ended, its status: each four bytes. A message with one descriptor asks for
a process that serves that socket too, so that several tests share one import. e2e/torch_ranks.py is the other side.
"""

import importlib
import json
import os
import signal
import sitecustomize
import socket
import struct
import sys

import torch
import torch.distributed  # noqa: F401


def end():
    try:
        while True:
            os.wait()
    except ChildProcessError:
        os._exit(0)


def next_program():
    """The next request, in the process that shall run it. The processes that serve requests never return."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            end()
        if os.fork() == 0:
            requests.close()
            if len(descriptors) > 1:
                return json.loads(message), descriptors
            requests = socket.socket(fileno=descriptors[0])
            continue
        for descriptor in descriptors:
            os.close(descriptor)


def become(request, output, errors, told):
    """Returns in the process of the program: a child of this one, which tells its id and status."""
    if len(os.listdir("/proc/self/task")) != 1:
        raise SystemExit("torch_forks.py: the import of torch has started threads, so a fork of it may hang")
    process = os.fork()
    if process:
        os.write(told, struct.pack("i", process))
        _, status = os.waitpid(process, 0)
        os.write(told, struct.pack("i", os.waitstatus_to_exitcode(status)))
        os._exit(0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    for descriptor in (output, errors, told):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["program"], *request["arguments"]]
    sys.path[0] = os.path.dirname(request["program"])
    importlib.reload(sitecustomize)  # notes this process: noted/sitecustomize.py


signal.signal(signal.SIGINT, signal.SIG_DFL)
_request, _descriptors = next_program()
become(_request, *_descriptors)
__file__ = _request["program"]
with open(__file__) as _source:
    _code = compile(_source.read(), __file__, "exec")
# The program's names are this module's, as without a fork: they live until Python ends.
for _name in ("end", "next_program", "become", "importlib", "json", "signal", "sitecustomize", "socket", "struct", "_request", "_descriptors", "_source", "_name"):
    del globals()[_name]
exec(_code)
