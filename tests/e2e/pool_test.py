"""penstock pool create | info | ls | gc | rm: their effects and their errors."""

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import unittest
from pathlib import Path

from support import NOBODY, PENSTOCK, SHM, Case, clean_environment, unique


class Create(Case):
    def test_create_info_ls_rm(self):
        spec = self.pool("64M", "software", "--max-processes", "17", "--max-nodes", "7")
        info = self.info(spec)
        self.assertEqual(info["bytes"], 64 << 20)
        self.assertEqual((info["mode"], info["max_processes"], info["max_nodes"]), ("software", 17, 7))
        self.assertEqual((info["alive"], info["dead"]), (0, 0))
        self.assertIn("software", self.penstock("pool", "info", spec).stdout)
        self.assertEqual(json.loads(self.penstock("pool", "ls", "--json", spec).stdout), [])
        self.penstock("pool", "rm", spec)
        self.refused("pool", "info", spec, says=[spec, "absent"], fix="penstock pool create")

    def test_file_pool(self):
        path = self.folder / "pool"
        self.penstock("pool", "create", path, "--size", "32M", "--mode", "software")
        self.assertEqual(self.info(path)["bytes"], 32 << 20)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.penstock("pool", "rm", path)
        self.assertFalse(path.exists())

    def test_sparse_reserves_little(self):
        path = self.folder / "pool"
        done = self.penstock("pool", "create", path, "--size", "8G", "--mode", "software", "--sparse")
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.info(path)["bytes"], 8 << 30)
        self.assertLess(path.stat().st_blocks * 512, 256 << 20)
        self.penstock("pool", "rm", path)

    def test_interleaved_parts(self):
        parts = [self.folder / name for name in ("a", "b", "c")]
        spec = ",".join(map(str, parts))
        self.penstock("pool", "create", spec, "--size", "48M", "--mode", "software")
        self.assertEqual(self.info(spec)["bytes"], 48 << 20)
        swapped = ",".join(map(str, reversed(parts)))
        self.refused("pool", "info", swapped, says="order")
        self.penstock("pool", "rm", spec)
        self.assertEqual([p for p in parts if p.exists()], [])

    def test_auto_is_hardware_in_own_memory_only(self):
        spec = self.pool("32M", "auto")
        self.assertEqual(self.info(spec)["mode"], "hardware")

    def test_auto_is_software_on_a_file(self):
        path = Path(__file__).resolve().parents[2] / unique("build-pool")
        if subprocess.run(["stat", "-f", "-c", "%T", path.parent], capture_output=True,
                          text=True).stdout.strip() == "tmpfs":
            self.skipTest("the source tree lies on tmpfs")
        self.addCleanup(path.unlink, missing_ok=True)
        done = self.penstock("pool", "create", path, "--size", "32M", "--mode", "auto")
        self.assertEqual(self.info(path)["mode"], "software")
        self.assertIn("because", done.stdout)

    def test_existing_is_kept_unless_overwrite(self):
        spec = self.pool("32M")
        before = self.info(spec)["id"]
        self.refused("pool", "create", spec, "--size", "32M", says="exists", fix="--overwrite")
        self.assertEqual(self.info(spec)["id"], before)
        self.penstock("pool", "create", spec, "--size", "32M", "--overwrite")
        self.assertNotEqual(self.info(spec)["id"], before)

    def test_overwrite_keeps_the_size(self):
        """Follows the printed advice, without --size. The size in a damaged superblock is not trusted."""
        path = self.folder / "pool"
        self.penstock("pool", "create", path, "--size", "34M", "--nodes", "9", "--mode", "software")

        def damage(file):
            file.seek(32)
            file.write((1 << 50).to_bytes(8, "little"))

        def another_layout(file):
            file.seek(8)
            file.write((99).to_bytes(8, "little"))

        for harm in (lambda file: None, lambda file: file.truncate(20 << 20), damage, another_layout):
            with path.open("r+b") as file:
                harm(file)
            before = path.stat().st_ino
            self.penstock("pool", "create", path, "--overwrite")
            self.assertNotEqual(path.stat().st_ino, before)
            self.assertEqual(self.info(path)["bytes"], 34 << 20)
        parts = ",".join(str(self.folder / name) for name in "ab")
        self.penstock("pool", "create", parts, "--size", "64M", "--mode", "software")
        self.penstock("pool", "create", parts, "--overwrite")
        self.assertEqual(self.info(parts)["bytes"], 64 << 20)
        self.refused("pool", "create", self.folder / "none", "--overwrite", says="needs a size", status=2,
                     fix="--size 2G --overwrite")

    def test_overwrite_keeps_the_mode(self):
        spec = self.pool("32M", "software")
        done = self.penstock("pool", "create", spec, "--overwrite")
        self.assertIn("software coherence because the pool that was replaced had it", done.stdout)
        self.assertEqual(self.info(spec)["mode"], "software")
        self.penstock("pool", "create", spec, "--overwrite", "--mode", "hardware")
        self.assertEqual(self.info(spec)["mode"], "hardware")

    def test_advice_can_be_pasted(self):
        """The pool's path contains a blank."""
        path = self.folder / "a pool"
        self.refused("pool", "info", path, says="is absent", fix=f"penstock pool create '{path}' --size 2G")
        self.penstock("pool", "create", path, "--size", "32M")
        self.refused("pool", "create", path, "--size", "32M", says="exists",
                     fix=f"penstock pool create '{path}' --overwrite")

    def test_too_few_descriptors(self):
        """The error names the limit, whichever file is the first that cannot be opened."""
        spec = self.pool("32M")
        for limit in range(4, 24):
            done = subprocess.run(["sh", "-c", f"ulimit -n {limit}; exec '{PENSTOCK}' pool info {spec}"],
                                  capture_output=True, text=True, timeout=60, env=clean_environment())
            if done.returncode != 0:
                self.assertIn("Too many open files", done.stderr, limit)

    def test_empty_file(self):
        path = self.folder / "empty"
        path.touch()
        self.refused("pool", "create", path, "--size", "32M", says="is an empty file",
                     fix=f"penstock pool create {path} --size 2G --overwrite")
        self.penstock("pool", "create", path, "--size", "32M", "--overwrite")
        self.assertEqual(self.info(path)["bytes"], 32 << 20)

    def test_gc_of_a_clean_pool(self):
        spec = self.pool("32M")
        self.assertIn("0 dead processes", self.penstock("pool", "gc", spec).stdout)
        self.assertIn("freed: 0", self.penstock("pool", "gc", spec, "--yes").stdout)

    def test_gc_tells_what_it_freed(self):
        spec = self.pool("32M")
        program = ("import ctypes, sys, time; pool = ctypes.c_void_p(); "
                   "library = ctypes.CDLL(sys.argv[1]); "
                   "status = library.penstock_pool_attach(sys.argv[2].encode(), None, ctypes.byref(pool)); "
                   "print('status', status, flush=True); time.sleep(600)")
        library = Path(PENSTOCK).resolve().parents[1] / "lib/libpenstock.so"
        with subprocess.Popen([sys.executable, "-c", program, library, spec], stdout=subprocess.PIPE,
                              text=True, env=clean_environment()) as process:
            try:
                self.assertEqual(process.stdout.readline(), "status 0\n")
            finally:
                process.kill()
        self.assertIn("1 dead process left", self.penstock("pool", "gc", spec).stdout)
        self.assertIn("freed: 1 dead process", self.penstock("pool", "gc", spec, "--yes").stdout)
        self.assertIn("freed: 0 dead processes", self.penstock("pool", "gc", spec, "--yes").stdout)

    def test_ps_of_an_unused_pool(self):
        spec = self.pool("32M")
        self.assertEqual(json.loads(self.penstock("ps", "--json", spec).stdout), [])
        self.assertIn("RANK", self.penstock("ps", spec).stdout)
        self.assertEqual(json.loads(self.penstock("ps", "--traffic=0.1", "--json", spec).stdout), [])
        self.assertIn("READS/S", self.penstock("ps", spec, "--traffic=0.1").stdout)


class BadInput(Case):
    def test_absent(self):
        for command in (["pool", "info"], ["pool", "ls"], ["pool", "gc"], ["ps"]):
            self.refused(*command, "shm:" + unique("absent"), says="absent",
                         fix="penstock pool create")
        self.refused("pool", "rm", "shm:" + unique("absent"), says="absent")

    def test_not_a_pool(self):
        path = self.folder / "letter"
        path.write_text("Dear reader,\n" * 4096)
        before = path.read_bytes()
        self.refused("pool", "info", path, says="not a Penstock pool", fix="penstock pool create")
        self.refused("pool", "rm", "--force", path, says="not a Penstock pool")
        self.refused("pool", "create", path, "--size", "32M", "--overwrite", says="not a Penstock pool")
        self.assertEqual(path.read_bytes(), before)

    def test_other_layout_version(self):
        path = self.folder / "pool"
        self.penstock("pool", "create", path, "--size", "32M", "--mode", "software")
        with path.open("r+b") as file:
            file.seek(8)
            file.write((99).to_bytes(8, "little"))
        self.refused("pool", "info", path, says=["layout version 99", "needs 7"],
                     fix="penstock pool create")

    def test_damaged_superblock(self):
        path = self.folder / "pool"
        self.penstock("pool", "create", path, "--size", "32M", "--mode", "software")
        with path.open("r+b") as file:
            file.seek(32)
            file.write((1 << 50).to_bytes(8, "little"))
        self.refused("pool", "info", path, says="damaged", fix="penstock pool create")

    def test_truncated(self):
        path = self.folder / "pool"
        self.penstock("pool", "create", path, "--size", "32M", "--mode", "software")
        os.truncate(path, 16 << 20)
        self.refused("pool", "info", path, says="truncated", fix="penstock pool create")

    def test_too_small(self):
        self.refused("pool", "create", "shm:" + unique("tiny"), "--size", "1M",
                     says=["1 MiB", "at least"], fix="--size 16M", status=2)

    def test_size_not_aligned(self):
        self.refused("pool", "create", "shm:" + unique("odd"), "--size", "33000000",
                     says=["33000000", "multiple"], fix="--size 31457280", status=2)

    def test_size_is_no_number(self):
        self.refused("pool", "create", "shm:" + unique("what"), "--size", "lots", says="lots", status=2)

    def test_more_than_the_file_system_has(self):
        name = unique("huge")
        self.refused("pool", "create", f"shm:{name}", "--size", "4000G", says=["needs", "free"],
                     fix="remount,size=")
        self.assertEqual([p for p in SHM.iterdir() if name in p.name], [])

    def test_small_dev_shm(self):
        if os.geteuid() != 0:
            self.skipTest("mounting a small /dev/shm needs root")
        script = ("mount -t tmpfs -o size=24M tmpfs /dev/shm && "
                  f"exec {PENSTOCK} pool create shm:{unique('small')} --size 64M")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True,
                              text=True, env=clean_environment())
        if "unshare" in done.stderr or "mount:" in done.stderr:
            self.skipTest("no mount namespaces here")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("64 MiB", done.stderr)
        self.assertIn("remount,size=", done.stderr)

    def test_file_size_limit(self):
        path = self.folder / "pool"
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        self.refused("pool", "create", path, "--size", "32M", says="at most 8 MiB", fix="ulimit -f",
                     preexec_fn=limit)
        self.assertFalse(path.exists())

    def test_wrong_permissions(self):
        spec = self.pool("32M")
        if os.geteuid() != 0:
            path = SHM / f"penstock.{spec.removeprefix('shm:')}"
            path.chmod(0)
            self.addCleanup(path.chmod, 0o600)
            self.refused("pool", "info", spec, says="permi", fix="--group")
            return
        # Root may open anything: run it as another user, from a copy that this user may run.
        place = Path("/tmp") / unique("penstock")
        self.addCleanup(place.unlink, missing_ok=True)
        shutil.copy(PENSTOCK, place)
        place.chmod(0o755)
        done = subprocess.run([place, "pool", "info", spec], capture_output=True, text=True,
                              user=NOBODY, group=NOBODY, extra_groups=[], env=clean_environment(),
                              cwd="/")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("may not", done.stderr)
        self.assertIn("--group", done.stderr)

    def test_unknown_group(self):
        self.refused("pool", "create", "shm:" + unique("group"), "--size", "32M", "--group",
                     "no-such-group", says="no-such-group", fix="id -nG", status=2)

    def test_absent_folder(self):
        self.refused("pool", "create", self.folder / "no" / "pool", "--size", "32M",
                     says="no folder", fix="mkdir -p")

    def test_unknown_mode(self):
        self.refused("pool", "create", "shm:" + unique("mode"), "--size", "32M", "--mode", "magic",
                     says="magic", status=2)

    def test_usage(self):
        for arguments in ([], ["pool"], ["pool", "create"], ["paint"], ["pool", "info", "--shiny", "x"]):
            done = self.penstock(*arguments, status=2)
            self.assertIn("penstock: error:", done.stderr)
            self.assertIn("--help", done.stderr)

    def test_unknown_variable_warns(self):
        environment = clean_environment(PENSTOCK_POOOL="shm:x")
        done = self.penstock("env", "--list", environment=environment)
        self.assertIn("PENSTOCK_POOOL", done.stderr)
        self.assertIn("PENSTOCK_POOL?", done.stderr)


if __name__ == "__main__":
    unittest.main()
