"""Sends and receives drawn at random, and the message that each receive must get: src/messages/matching_plan.hpp."""

import os
import subprocess

from support import PENSTOCK


def matching_plan(case, ranks, rounds, tags, any_source):
    """The file for the programs that play it. `any_source`: some receives name no sender."""
    path = case.folder / f"plan-{ranks}-{rounds}-{tags}-{any_source}"
    program = os.path.join(os.path.dirname(PENSTOCK), "print_matching_plan")
    drawn = subprocess.run([program, os.environ.get("TEST_SEED", "1"), *map(str, (ranks, rounds, tags, int(any_source)))],
                           check=True, capture_output=True)
    path.write_bytes(drawn.stdout)
    return path
