"""Entry point of `python -m penstock.bench`, which `penstock bench run | list | compare` starts."""

from __future__ import annotations

import os
import signal
import sys


def start() -> int:
    from penstock.bench.command import main

    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        words, status = "interrupted", 130
    except BrokenPipeError:  # the reader has exited: end quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
        return 1
    except OSError as error:
        words, status = f"cannot write the output: {error.strerror}" if error.filename is None else str(error), 1
    print(f"penstock: error: {words}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # takes the output that Python still buffers
    return status


if __name__ == "__main__":
    sys.exit(start())
