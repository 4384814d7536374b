"""Runs one end-to-end test: one_test.py FILE.CLASS.METHOD. CTest runs this, by a Python that loads as little as it can (-I -S).

Where E2E_FORKS names a socket, the process behind it (test_forks.py) has imported all tests, and forks one that runs this: half of the
time of a short test is its imports. Else a new Python runs it. Either gets our folder, environment, input and output.
"""

import os
import sys


def main():
    path, name = os.environ.get("E2E_FORKS"), sys.argv[1]
    if not path:
        os.execv(sys.executable, [sys.executable, "-B", "-m", "unittest", name])
    import _socket  # what Python's socket stands on, and ready in a tenth of the time
    from array import array

    forks = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    forks.connect(path)
    words = [name, os.getcwd(), *(f"{key}={value}" for key, value in os.environ.items())]
    message = "\0".join(words).encode(errors="surrogateescape")
    forks.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", (0, 1, 2)))])
    status = forks.recv(8)
    if not status:
        sys.exit(f"{path}: its process has ended before {name} did")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
