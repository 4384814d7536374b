#!/usr/bin/env python3
"""Compares the folders in which each target's compiler finds headers with those that the target may see, and what ci/layers.py
reads from the CMakeLists.txt files with what CMake made of them.

    layers_test.py build/tests/layers/targets.json
"""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "ci"))
import layers


def read(file):
    rows = json.loads(file.read_text())
    return {row["target"]: {key: [part for part in value.split("|") if part] for key, value in row.items()} for row in rows}


def may_see(name, targets):
    """Folders of the target itself, and the public ones of those that it links, and so on."""
    own = targets[name]
    seen = set(own["PENSTOCK_PUBLIC_FOLDERS"] + own["PENSTOCK_PRIVATE_FOLDERS"])
    linked, to_do = set(), list(own["LINK_LIBRARIES"])
    while to_do:
        other = to_do.pop()
        if other in targets and other not in linked:
            linked.add(other)
            seen.update(targets[other]["PENSTOCK_PUBLIC_FOLDERS"])
            to_do += targets[other]["INTERFACE_LINK_LIBRARIES"]
    return seen


def finds(name, targets, folders):
    """By `#include "FOLDER/..."`, as a compiler looks: below each of its folders in turn."""
    ours = [Path(found) for found in targets[name]["finds"] if not found.startswith("/usr/")]
    return {folder for folder in folders if any((found / folder).is_dir() for found in ours)}


def complaints(targets):
    folders = {folder for row in targets.values() for folder in row["PENSTOCK_PUBLIC_FOLDERS"] + row["PENSTOCK_PRIVATE_FOLDERS"]}
    for name in targets:
        found, allowed = finds(name, targets, folders), may_see(name, targets)
        for folder in sorted(found - allowed):
            yield f"{name} finds headers of {folder}, which no target that it links gives it"
        for folder in sorted(allowed - found):
            yield f"{name} does not find headers of {folder}, although it links what gives them"
    for module, deps in layers.all_modules(ROOT).items():
        linked = targets.get(f"penstock_{module}", {}).get("LINK_LIBRARIES", [])
        built = [name.removeprefix("penstock_") for name in linked if name in targets]
        if sorted(built) != sorted(deps):
            yield f"ci/layers.py reads DEPS {' '.join(deps)} for {module}; CMake has {' '.join(built)}"


def main():
    targets = read(Path(sys.argv[1]))
    wrong = list(complaints(targets))
    for complaint in wrong:
        print(complaint)
    print(f"layers: {len(targets)} targets, {len(wrong)} complaints")
    return 1 if wrong or not targets else 0


if __name__ == "__main__":
    sys.exit(main())
