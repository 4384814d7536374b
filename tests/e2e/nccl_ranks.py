"""Programs whose ranks use Penstock's libnccl.so.2, with host memory or on the stand-in GPU."""

import os
import subprocess

from support import PENSTOCK, PROGRAMS, Case, clean_environment

BUILD = os.path.dirname(os.path.dirname(PENSTOCK))
LIBRARY = os.path.join(BUILD, "lib/penstock/nccl")
STANDIN = os.path.join(BUILD, "standin")
STRICT = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]


class NcclRanks(Case):
    def compiled(self, name):
        program = self.folder / name
        subprocess.run([*STRICT, PROGRAMS / f"{name}.c", "-o", program,
                        f"-L{LIBRARY}", "-l:libnccl.so.2", f"-Wl,-rpath,{LIBRARY}", f"-Wl,-rpath-link,{BUILD}/lib", "-ldl"],
                       check=True)
        return program

    def environment(self, gpu, **more):
        if gpu:
            # Streams of the stand-in are threads, and need the cores.
            more = {"GPU": 1, "LD_LIBRARY_PATH": STANDIN, "PENSTOCK_SPIN": 1} | more
        return clean_environment(**more)

    def ranks(self, number, what, gpu, timeout=100, **more):
        """Runs the ranks; returns the status and output of each. A tuple as a value has one element for each rank."""
        folder = self.folder / f"{what}-{number}-{gpu}-{'-'.join(map(str, more.values())).replace(':', '_').replace('/', '_')}"
        folder.mkdir()
        return self.outcomes(self.begin(number, what, gpu, folder, **more), timeout)

    def begin(self, number, what, gpu, folder, **more):
        def of(value, rank):
            return value[rank] if isinstance(value, tuple) else value
        return [subprocess.Popen([self.program, str(rank), str(number), folder, what], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True,
                                 env=self.environment(of(gpu, rank), **{name: of(value, rank) for name, value in more.items()}))
                for rank in range(number)]

    def all_right(self, *arguments, **more):
        for status, out, err in self.ranks(*arguments, **more):
            self.assertEqual((status, out), (0, "ok\n"), err)
