"""Prints FILE.CLASS.METHOD of each test in the files named, without running them."""
import ast
import sys
from pathlib import Path

for path in map(Path, sys.argv[1:]):
    for item in ast.parse(path.read_text()).body:
        if isinstance(item, ast.ClassDef):
            for method in item.body:
                if isinstance(method, ast.FunctionDef) and method.name.startswith("test_"):
                    print(f"{path.stem}.{item.name}.{method.name}")
