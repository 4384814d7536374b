"""The Debian package installs, works from /usr, and leaves nothing behind. Runs on a temporary copy of this host: an
overlay over /, which needs root."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import MPIEXEC, PROGRAMS, PYTHON, RELEASE, SOURCE, Case, clean_environment

def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **more)


class Package(Case):
    """`host` runs commands on the copy."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("an overlay over / needs root")
        if not RELEASE.is_dir():
            self.skipTest("there is nothing to install: make release")
        made = run("cpack", "--config", RELEASE / "CPackConfig.cmake", "-B", self.folder / "package")
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        (self.package,) = (self.folder / "package").glob("penstock_*.deb")
        self.root = self.mount_copy()

    def mount_copy(self):
        # The upper folder may not lie on an overlay itself, as / does in containers.
        layers = Path(tempfile.mkdtemp(prefix="penstock-package-", dir="/dev/shm"))
        self.addCleanup(self.remove, layers)
        for name in ("changed", "work", "root"):
            (layers / name).mkdir()
        options = f"lowerdir=/,upperdir={layers}/changed,workdir={layers}/work"
        mounted = run("mount", "-t", "overlay", "overlay", "-o", options, layers / "root")
        if mounted.returncode != 0:
            self.skipTest(f"no overlay can be mounted here: {mounted.stderr.strip()}")
        self.addCleanup(lambda: run("umount", "-l", layers / "root"))
        # The test's other folders may lie on file systems of their own.
        for path in ("/proc", "/sys", "/dev", "/dev/shm", SOURCE, Path(PYTHON).parents[1]):
            self.bind(Path(path).absolute(), layers / "root")
        if run("chroot", layers / "root", PYTHON, "-c", "").returncode != 0:
            self.skipTest(f"{PYTHON} does not run on the copy")
        self.changed = layers / "changed"
        return layers / "root"

    def remove(self, layers):
        """Removes the layers, but never through a remaining mount, since that leads to the host itself."""
        self.assertNotIn(str(layers), Path("/proc/mounts").read_text())
        run("rm", "-rf", "--one-file-system", layers)

    def bind(self, path, root):
        target = root / path.relative_to("/")
        target.mkdir(parents=True, exist_ok=True)
        bound = run("mount", "--bind", path, target)
        if bound.returncode != 0:
            self.skipTest(f"{path} cannot be mounted on the copy: {bound.stderr.strip()}")
        self.addCleanup(lambda: run("umount", "-l", target))

    def host(self, *command, status=0):
        done = run("chroot", self.root, *command, env=clean_environment(), cwd="/")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def files(self):
        return {str(path.relative_to(self.changed)) for path in self.changed.rglob("*")
                if path.is_file() and "penstock" in str(path.relative_to(self.changed))}

    def test_installs_works_and_goes(self):
        (self.root / "tmp/penstock.deb").write_bytes(self.package.read_bytes())
        self.host("dpkg", "-i", "/tmp/penstock.deb")
        (self.root / "tmp/penstock.deb").unlink()
        self.assertIn("penstock:x:", self.host("getent", "group", "penstock"))
        installed = self.host("dpkg", "-L", "penstock").split()
        for wanted in ("/usr/bin/penstock", "/usr/lib/penstock/libpenstock-fi.so", "/usr/lib/penstock/libpenstock-mpi.so",
                       "/usr/lib/udev/rules.d/60-penstock.rules", "/usr/lib/systemd/system/penstock-devdax@.service",
                       "/usr/share/man/man1/penstock-run.1", "/usr/share/bash-completion/completions/penstock",
                       "/usr/share/zsh/vendor-completions/_penstock"):
            self.assertIn(wanted, installed)
        doctor = self.host("/usr/bin/penstock", "doctor", "--mpiexec", MPIEXEC)
        self.assertIn("/usr/lib/penstock/libpenstock-fi.so", doctor)
        done = self.host("/usr/bin/penstock", "run", "-n", "2", "--mpiexec", MPIEXEC, "-v", "--", PYTHON,
                         PROGRAMS / "all_to_all.py")
        self.assertIn("all to all: ok", done)
        listed = self.host("env", f"PENSTOCK_PYTHON={PYTHON}", "/usr/bin/penstock", "bench", "list")
        self.assertIn("coherence", listed)
        self.assertIn("is absent", run("chroot", self.root, "/usr/lib/penstock/devdax", "up", "mem99").stderr)
        self.host("env", "-u", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH=/usr/lib/penstock/python", PYTHON, "-c", "import penstock.bench.command")
        self.assertTrue((self.root / "usr/lib/penstock/python/penstock/bench/__pycache__").is_dir())
        self.host("dpkg", "--purge", "penstock")
        self.assertFalse((self.root / "usr/lib/penstock").exists())
        self.assertEqual({name for name in self.files() if not name.startswith(("var/lib/dpkg", "var/log", "etc/"))}, set())
        self.assertNotIn("libpenstock", self.host("ldconfig", "-p"))


if __name__ == "__main__":
    unittest.main()
