"""`penstock bench run | list | compare`, which the command hands to `python -m penstock.bench`."""

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
    except BrokenPipeError:  # the reader has gone, which is no news to anybody
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
        return 1
    except OSError as error:
        words, status = f"cannot write the output: {error.strerror}" if error.filename is None else str(error), 1
    print(f"penstock: error: {words}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still holds for it
    return status


if __name__ == "__main__":
    sys.exit(start())
