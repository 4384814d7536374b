"""`penstock bench run | list | compare`, which the command hands to `python -m penstock.bench`."""

from __future__ import annotations

import sys


def start() -> int:
    try:
        import rich  # noqa: F401
    except ImportError:
        print(f"penstock: error: the Python package rich is absent, which draws tables and progress: {sys.executable} -m pip "
              "install rich, or apt install python3-rich", file=sys.stderr)
        return 1
    from penstock.bench.command import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())
