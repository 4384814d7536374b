"""Pools in files: links, copies, full file systems; and Penstock's own objects in pools."""

import json
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from support import PENSTOCK, SHM, Case, clean_environment, unique
from python_test import PACKAGE, PYTHON

HOLD = """
import penstock.errors, penstock.pool, sys
pool = penstock.pool.attach(sys.argv[1])
lock = pool.create("turn", 4096).lock(4, 0)
mine = pool.create("mine", 4096, lifetime="process")
kept = pool.create("kept", 4096)
lock.acquire()
tx = pool.transaction().__enter__()
tx.add(kept, 0, 8)
print(pool.info().token, flush=True)
sys.stdin.readline()
lock.release()
tx.__exit__(None, None, None)
print([found.name for found in pool.objects()])
"""


class PoolFiles(Case):
    def python_or_skip(self):
        if not os.access(PYTHON, os.X_OK) or not os.path.isdir(PACKAGE):
            self.skipTest(f"{PYTHON} or {PACKAGE} is absent: ci/install.sh torch")

    def run_python(self, program, *arguments, **more):
        done = subprocess.run([PYTHON, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=100,
                              env=clean_environment(PYTHONPATH=PACKAGE, **more))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def holder(self, spec, *before):
        """Starts a process that holds a lock, an object and an open transaction until it reads a line."""
        process = subprocess.Popen([*before, PYTHON, "-c", HOLD, str(spec)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=clean_environment(PYTHONPATH=PACKAGE))
        self.addCleanup(self.end, process)
        self.assertRegex(process.stdout.readline(), r"^\d+$")
        return process

    def states(self, spec):
        return [entry["state"] for entry in json.loads(self.penstock("ps", spec, "--json").stdout)]

    # ---- links ---------------------------------------------------------------------------------

    def test_rm_follows_links_and_says_what_went(self):
        real, link = self.folder / "real", self.folder / "link"
        self.penstock("pool", "create", real, "--size", "32M", "--mode", "software")
        link.symlink_to(real)
        self.assertIn(f"file       {real} ({link} is a link)", self.penstock("pool", "info", link).stdout)
        said = self.penstock("pool", "rm", link).stdout
        self.assertEqual(said, f"removed {real}; the link {link} that led there stays\n")
        self.assertFalse(real.exists())
        self.refused("pool", "rm", link, says=["absent", str(real)], fix=f"rm {link}")
        self.penstock("pool", "create", link, "--size", "32M", "--mode", "software")
        self.assertTrue(link.is_symlink() and real.is_file())
        self.assertEqual(json.loads(self.penstock("pool", "rm", "--json", link).stdout)["files"], [str(real)])

    def test_overwriting_a_link_replaces_the_pool(self):
        real, link = self.folder / "real", self.folder / "link"
        self.penstock("pool", "create", real, "--size", "32M", "--mode", "software")
        before = self.info(real)["id"]
        link.symlink_to(real)
        self.penstock("pool", "create", link, "--size", "32M", "--overwrite")
        self.assertTrue(link.is_symlink())
        self.assertNotEqual(self.info(real)["id"], before)
        self.assertEqual(self.info(real)["id"], self.info(link)["id"])

    def test_a_link_in_dev_shm_is_followed(self):
        spec, name = self.pool("32M"), unique("link")
        link = SHM / f"penstock.{name}"
        link.symlink_to(SHM / f"penstock.{spec.removeprefix('shm:')}")
        self.addCleanup(link.unlink, missing_ok=True)
        self.penstock("pool", "rm", f"shm:{name}")
        self.refused("pool", "info", spec, says="absent")

    # ---- copies --------------------------------------------------------------------------------

    def test_a_copy_belongs_to_nobody(self):
        self.python_or_skip()
        spec = self.folder / "pool"
        self.penstock("pool", "create", spec, "--size", "32M", "--mode", "software")
        holder = self.holder(spec)
        copy = self.folder / "copy"
        shutil.copy(spec, copy)
        self.assertEqual(self.states(spec), ["alive"])
        self.assertEqual(self.states(copy), ["dead"])
        self.assertEqual((self.info(copy)["alive"], self.info(spec)["alive"]), (0, 1))
        said = self.run_python("""
import penstock.errors, penstock.pool, sys
with penstock.pool.attach(sys.argv[1]) as pool:
    print([found.name for found in pool.objects()])
    with pool.open("turn").lock(4, 1):
        kept = pool.open("kept")
        with pool.transaction() as tx:
            tx.add(kept, 0, 8)
    kept.destroy()
""", copy)
        self.assertEqual(said, "['kept', 'turn']\n", "what was the process's own goes")
        self.refused("pool", "rm", spec, says="is attached")
        self.penstock("pool", "rm", copy)
        out, _ = holder.communicate("\n", timeout=60)
        self.assertEqual((holder.returncode, out), (0, "['kept', 'mine', 'turn']\n"))

    # ---- namespaces ----------------------------------------------------------------------------

    def lives_in(self, *namespace):
        """Checks that a process in the namespace keeps its lock and objects while other processes inspect the pool."""
        self.python_or_skip()
        if subprocess.run([*namespace, "true"], capture_output=True).returncode != 0:
            self.skipTest(f"{namespace[0]} {namespace[1]} is not possible here")
        spec = self.pool("32M")
        holder = self.holder(spec, *namespace)
        self.assertEqual(self.states(spec), ["alive"])
        said = self.run_python("""
import penstock.errors, penstock.pool, sys
with penstock.pool.attach(sys.argv[1]) as pool:
    print([found.name for found in pool.objects()])
    try:
        pool.open("turn").lock(4, 1).acquire(0.3)
        print("took the lock")
    except penstock.errors.DeadlineError:
        print("refused")
""", spec)
        self.assertEqual(said, "['kept', 'mine', 'turn']\nrefused\n")
        self.penstock("pool", "gc", "--yes", spec)
        out, _ = holder.communicate("\n", timeout=60)
        self.assertEqual((holder.returncode, out), (0, "['kept', 'mine', 'turn']\n"))

    def test_a_process_with_other_clocks_is_alive(self):
        self.lives_in("unshare", "-T", "--boottime", "100000", "--monotonic", "100000", "--fork")

    def test_a_process_with_anothers_proc_is_alive(self):
        """In a pid namespace without a /proc of its own: /proc/PID is another process."""
        self.lives_in("unshare", "--pid", "--fork")

    # ---- space ---------------------------------------------------------------------------------

    def in_full_file_system(self, mount, script):
        """Runs a script with a small file system at /mnt; returns its output."""
        self.python_or_skip()
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system needs root")
        program = self.folder / "program.py"
        program.write_text("""
import penstock.errors, penstock.pool, sys
pool = penstock.pool.attach(sys.argv[1])
try:
    pool.create("big", int(sys.argv[2]) << 20, zero=False)
    print("made")
except penstock.errors.NoSpaceError as error:
    print("no space:", error)
small = pool.create("small", 4 << 20)
small.array()[:] = 1
print("small")
small.destroy()
""")
        words = f"set -e\n{mount}\n{script}"
        done = subprocess.run(["unshare", "--mount", "bash", "-c", words], capture_output=True, text=True, timeout=200,
                              env=clean_environment(PYTHONPATH=PACKAGE, P=PENSTOCK, RUN=f"{PYTHON} {program}"))
        if "unshare" in done.stderr or "mount:" in done.stderr or "mkfs" in done.stderr:
            self.skipTest(f"no such file system here: {done.stderr}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_failed_create_takes_no_space(self):
        image = self.folder / "image"
        kinds = {"ext4": f"truncate -s 200M {image}; mkfs.ext4 -q {image}; mount -o loop {image} /mnt",
                 "tmpfs": "mount -t tmpfs -o size=160M tmpfs /mnt"}
        for kind, mount in kinds.items():
            with self.subTest(kind=kind):
                image.unlink(missing_ok=True)
                said = self.in_full_file_system(mount, """
$P pool create /mnt/p --size 2G --mode software --sparse >/dev/null
before=$(stat -c %b /mnt/p)
$RUN /mnt/p 1000
$P pool gc --yes /mnt/p | grep "given back" || true
after=$(stat -c %b /mnt/p)
echo "more than before: $(((after - before) / 2048)) MiB"
echo other > /mnt/other
umount /mnt""")
                self.assertRegex(said, r"no space: .*more are not available")
                self.assertIn("small\n", said)
                self.assertIn("given back to the file system: 4.", said)
                self.assertIn("more than before: 0 MiB", said)

    def test_several_files_reserve_before_use(self):
        said = self.in_full_file_system("mount -t tmpfs -o size=64M tmpfs /mnt", """
$P pool create /mnt/p,/mnt/q --size 512M --mode software --sparse >/dev/null
$RUN /mnt/p,/mnt/q 300
umount /mnt""")
        self.assertRegex(said, r"no space: .*\nsmall\n")

    def test_one_full_file_leaves_no_space_taken(self):
        said = self.in_full_file_system("mount -t tmpfs -o size=64M tmpfs /mnt", """
$P pool create /mnt/p,/mnt/q --size 512M --mode software --sparse >/dev/null
before=$(($(stat -c %b /mnt/p) + $(stat -c %b /mnt/q)))
$RUN /mnt/p,/mnt/q 80
after=$(($(stat -c %b /mnt/p) + $(stat -c %b /mnt/q)))
echo "more than before: $(((after - before) / 2048)) MiB"
umount /mnt""")
        self.assertRegex(said, r"no space: .*\nsmall\n")
        more = int(re.search(r"more than before: (\d+) MiB", said)[1])
        self.assertLess(more, 8)  # those of the small object

    # ---- Penstock's own ------------------------------------------------------------------------

    def test_ls_hides_penstocks_own_objects(self):
        self.python_or_skip()
        spec = self.pool("32M")
        holder = self.holder(spec)
        shown = [entry["name"] for entry in json.loads(self.penstock("pool", "ls", "--json", spec).stdout)]
        self.assertEqual(shown, ["kept", "mine", "turn"])
        self.assertIn("penstock.writers", self.penstock("pool", "ls", "--all", spec).stdout)
        holder.communicate("\n", timeout=60)


if __name__ == "__main__":
    unittest.main()
