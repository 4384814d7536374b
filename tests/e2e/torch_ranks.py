"""Ranks of PyTorch's tests: processes that a process has forked which has imported torch already (programs/torch_forks.py)."""

import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import time


class Forks:
    """The process that forks ranks."""

    shared = None  # what forks such processes, where tests have one in common

    def __init__(self, python, program, environment):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = None
        with theirs:
            if self.shared:
                socket.send_fds(self.shared._requests, [b"another"], [theirs.fileno()])
            else:
                self._process = subprocess.Popen([python, program, str(theirs.fileno())], stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.DEVNULL, env=environment, pass_fds=[theirs.fileno()])
        self._requests = ours

    def begin(self, program, arguments, environment):
        """A process that runs `program` with `arguments`: a Rank."""
        output, errors, told = (os.pipe() for _ in range(3))
        request = {"program": str(program), "arguments": list(map(str, arguments)), "environment": environment}
        socket.send_fds(self._requests, [json.dumps(request).encode()], [output[1], errors[1], told[1]])
        for _, write in (output, errors, told):
            os.close(write)
        return Rank(output[0], errors[0], told[0])

    def end(self):
        """Returns when its ranks have ended, and it has."""
        self._requests.shutdown(socket.SHUT_WR)
        self._requests.recv(1)
        self._requests.close()
        if self._process:
            self._process.wait()


class Rank:
    """What subprocess.Popen gives, as far as tests use it."""

    def __init__(self, output, errors, told):
        self.stdout, self.stderr, self._told = open(output), open(errors), told
        self.returncode = None
        self.pid = self._next_number()

    def _next_number(self):
        said = os.read(self._told, 4)
        if len(said) != 4:
            raise RuntimeError("torch_forks.py has ended: what it printed says why")
        return struct.unpack("i", said)[0]

    def poll(self):
        return self.wait(0)

    def wait(self, timeout=None):
        """The status, as of subprocess.Popen; None if the process has not ended after `timeout` seconds."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told, selectors.EVENT_READ)
                if selector.select(timeout):
                    self.returncode = self._next_number()
                    os.close(self._told)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """All that the process still prints, when it has ended: output and errors."""
        deadline = None if timeout is None else time.monotonic() + timeout
        said = {self.stdout: [], self.stderr: []}
        with selectors.DefaultSelector() as selector:
            for stream in said:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                ready = selector.select(left) if left is None or left > 0 else []
                if not ready:
                    raise subprocess.TimeoutExpired(f"rank {self.pid}", timeout)
                for key, _ in ready:
                    if piece := os.read(key.fd, 1 << 16):
                        said[key.fileobj].append(piece)
                    else:
                        selector.unregister(key.fileobj)
        if self.wait(None if deadline is None else max(0, deadline - time.monotonic())) is None:
            raise subprocess.TimeoutExpired(f"rank {self.pid}", timeout)
        for stream in said:
            stream.close()
        return tuple(b"".join(pieces).decode() for pieces in said.values())
