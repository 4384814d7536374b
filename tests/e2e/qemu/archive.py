"""A cpio archive (newc), which Linux takes as its first file system."""

import stat
from pathlib import Path


class Archive:
    """Collects files by their path in the guest; the first one under a path stays."""

    def __init__(self):
        self.entries = {}

    def folder(self, path, mode=0o755):
        path = path.strip("/")
        if path and path not in self.entries:
            self.folder(path.rpartition("/")[0])
            self.entries[path] = (stat.S_IFDIR | mode, b"")

    def text(self, path, content, mode=0o644):
        self._add(path, stat.S_IFREG | mode, content.encode())

    def bytes(self, path, content, mode=0o644):
        self._add(path, stat.S_IFREG | mode, content)

    def file(self, path, source, mode=None):
        source = Path(source)
        self._add(path, stat.S_IFREG | (mode or source.stat().st_mode & 0o777), source)

    def link(self, path, target):
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def holds(self, path):
        return path.strip("/") in self.entries

    def _add(self, path, mode, content):
        path = path.strip("/")
        self.folder(path.rpartition("/")[0])
        self.entries.setdefault(path, (mode, content))

    def write(self, target):
        with open(target, "wb") as out:
            for number, (path, (mode, content)) in enumerate(self.entries.items(), 1):
                data = content.read_bytes() if isinstance(content, Path) else content
                self._write_entry(out, number, path, mode, data)
            self._write_entry(out, 0, "TRAILER!!!", 0, b"")

    @staticmethod
    def _write_entry(out, number, path, mode, data):
        name = path.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
        out.write(bytes(-(110 + len(name)) % 4))
        out.write(data)
        out.write(bytes(-len(data) % 4))
