"""ci/gpu.sh without a GPU: all of it on the stand-in, in short form; its page of a GPU's figures; what it is made of."""

import json
import os
import subprocess
import sys
import unittest

from nccl_ranks import BUILD
from support import SOURCE, Case, clean_environment

sys.path.insert(0, str(SOURCE / "lab/bench"))
import gpu_page  # noqa: E402
import gpu_parts  # noqa: E402

# A run of a program of nccl-tests 2.19.6, cut short.
NCCL_TESTS = """# nccl-tests version 2.19.6 nccl-headers=22707 nccl-library=23203
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
          16             4     float     sum      -1    12.34    0.00    0.00       0    11.11    0.00    0.00       0
     1048576        262144     float     sum      -1   100.00   10.49   10.49       2   101.00   10.38   10.38     N/A
# Out of bounds values : 0 OK
"""

SMALL_MPI = r"""
#include "mpi.h"
#define NEED(condition) if (!(condition)) small_mpi::end(#condition)
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm comm;
  int rank, ranks;
  MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  for (int turn = 0; turn < 500; ++turn) {
    int sum = rank + turn, least = -rank;
    double most = 0.5 * rank;
    std::int64_t all[8] = {}, gathered[8] = {}, own = rank + 7;
    char word[8] = "";
    if (rank == 1) std::strcpy(word, "hello");
    all[rank] = rank + turn;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, comm);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 8, MPI_BYTE, comm);
    MPI_Gather(&own, 8, MPI_BYTE, gathered, 8, MPI_BYTE, 0, comm);
    MPI_Bcast(word, 8, MPI_BYTE, 1, comm);
    NEED(sum == ranks * (ranks - 1) / 2 + ranks * turn && least == 1 - ranks && most == 0.5 * (ranks - 1));
    for (int r = 0; r < ranks; ++r) NEED(all[r] == r + turn && (rank != 0 || gathered[r] == r + 7));
    NEED(std::strcmp(word, "hello") == 0);
  }
  MPI_Comm_free(&comm);
  MPI_Finalize();
}
"""


def measured(library, bytes, seconds, bus, operation="all_gather", ranks=2):
    return {"library": library, "operation": operation, "ranks": ranks, "bytes": bytes, "seconds": seconds, "bus_GBps": bus,
            "algorithm_GBps": 2 * bus, "cpu_seconds": seconds}


class GpuCommand(Case):
    def bundle(self):
        """As ci/gpu.sh --bundle makes it."""
        bundle = self.folder / "gpu"
        (bundle / "bin").mkdir(parents=True)
        for name in ("lib", "standin", "bin/gpu_test", "bin/penstock"):
            (bundle / name).symlink_to(os.path.join(BUILD, name))
        (self.folder / "python").symlink_to(os.path.join(BUILD, "python"))
        subprocess.run([SOURCE / "ci/gpu.sh", "--programs", bundle / "bin", f"{BUILD}/lib"], check=True)
        return bundle

    def command(self, *arguments):
        done = subprocess.run([SOURCE / "lab/bench/gpu.py", "--bundle", self.bundle(), "--out", self.folder / "out", *arguments],
                              capture_output=True, text=True, timeout=300, env=clean_environment())
        self.assertIn("no GPU here: the stand-in's form", done.stdout)
        return done, json.loads((self.folder / "out/gpu.json").read_text())

    def test_it_runs_without_a_gpu(self):
        done, results = self.command()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        page = (self.folder / "out/gpu.md").read_text()
        self.assertIn("the times mean nothing", page)
        outcomes = {part["name"]: part["outcome"] for part in results["parts"]}
        for name in ("libnccl.so.2: every call, 2 ranks", "libnccl.so.2: every call in memory of the pool, 2 ranks"):
            self.assertEqual(outcomes[name], "ok")
        self.assertEqual(outcomes["multiprocessors, penstock"],
                         "blocks of a kernel at most: all_gather of 256 KB: 1, all_reduce of 256 KB: 32, all_reduce of 1 KB: 1")
        self.assertIn("| all_reduce | 2 threads | 1 KB |", page)
        self.assertIn("| all_reduce | 2 processes | 16 B |", page)
        for name in ("limits, 2 processes", "penstock, 2 ranks, turn 1", "chunks=4, 512 KB", "variant=naive"):
            self.assertRegex(outcomes[name], r"^[1-9]\d* measurements$")
        self.assertEqual(outcomes["NCCL over sockets, 2 ranks, turn 1"], "left out: it needs a GPU")
        trained = {row["backend"]: row["losses"] for row in results["training"]}
        if "penstock" in trained and "gloo" in trained:
            self.assertEqual(trained["penstock"], trained["gloo"])

    def test_its_time_ends(self):
        done, results = self.command("--seconds", "0")
        self.assertEqual({part["outcome"] for part in results["parts"]}, {"left out: no time was left for it"})
        self.assertEqual(done.returncode, 0)

    def test_failed_part_stops_no_other(self):
        bundle = self.bundle()
        (bundle / "bin/nccl_perf").write_text("#!/bin/sh\nexit 3\n")
        done = subprocess.run([SOURCE / "lab/bench/gpu.py", "--bundle", bundle, "--out", self.folder / "out", "--only", "^limits, 2|^penstock, 2"], capture_output=True, text=True,
                              timeout=300, env=clean_environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("penstock, 2 ranks, turn 1: FAILED: rank 0: status 3", done.stdout)
        self.assertIn("limits, 2 processes: 32 measurements", done.stdout)

    def experiments(self, bundle, *arguments):
        return subprocess.run([SOURCE / "lab/bench/gpu_run.py", "--bundle", bundle, "--out", self.folder / "out", *arguments],
                              capture_output=True, text=True, timeout=300, env=clean_environment())

    def test_experiments_run_without_a_gpu(self):
        bundle = self.bundle()
        done = self.experiments(bundle, "--before", bundle)
        results = json.loads((self.folder / "out/gpu-run.json").read_text())
        outcomes = {part["name"]: part["outcome"] for part in results["parts"]}
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("flush", "hops", "read", "queue"):
            self.assertEqual(outcomes[f"probe {name}"], "left out: it needs a GPU")
        for ranks in (2, 3):
            self.assertEqual(outcomes[f"right answers, hardware, {ranks} ranks"], "ok")
        measured = {(row["library"], row["operation"]) for row in results["measured"]}
        for name in ("large calls, software", "large calls, hardware, by a thread", "before, software", "after, hardware"):
            self.assertIn((name, "reduce_scatter"), measured)
        for name in ("alltoall of 8 MB", "alltoall of 64 MB, malloc keeps its pages"):
            self.assertIn((name, "alltoall"), measured)
        page = (self.folder / "out/gpu-run.md").read_text()
        self.assertIn("the times mean nothing", page)
        self.assertRegex(page, r"\| hardware \| all_gather \| 2 \| 64 KB \| [\d.]+ \| [\d.]+ \| [\d.]+ \|")
        self.assertIn("status 0: lscpu", (self.folder / "out/log.txt").read_text())

    def test_late_experiment_is_looked_at(self):
        bundle = self.bundle()
        (bundle / "bin/gpu_test").unlink()
        (bundle / "bin/gpu_test").write_text("#!/bin/sh\necho begun\nexec sleep 100\n")
        (bundle / "bin/gpu_test").chmod(0o700)
        for seconds in ("6", "12", "24", "48", "96"):  # a busy machine may take longer to begin
            done = self.experiments(bundle, "--seconds", seconds, "--only", "the other tests")
            if "no time was left for it" not in done.stdout:
                break
        self.assertEqual(done.returncode, 1)
        self.assertIn("the other tests of src/gpu: FAILED: it exceeded its time limit", done.stdout)
        self.assertRegex((self.folder / "out/stacks.txt").read_text(), r"== late: process \d+\n.")
        self.assertIn("begun", (self.folder / "out/log.txt").read_text())

    def test_gpu_page_says_which_bars_are_met(self):
        copies = [{"operation": "pinned copy", "way": way, "bytes": 1 << 20, "streams": 1, "parts": 1, "processes": 1, "same_part": 1,
                   "seconds": 1e-5, "GBps": rate} for way, rate in (("to the host", 40.0), ("to the GPU", 50.0), ("both ways", 80.0))]
        results = {"gpu": "a GPU", "parts": [{"name": "a part", "outcome": "ok", "seconds": 1.0}], "limits": copies, "nccl_tests": [],
                   "training": [], "utilization": [],
                   "measured": [measured("penstock", 16 << 20, 1e-3, 18.0), measured("penstock", 16 << 20, 3e-3, 22.0),
                                measured("NCCL sockets", 16 << 20, 20e-3, 1.0),
                                measured("penstock", 16 << 20, 1e-3, 10.0, "broadcast", 4)]}
        self.assertEqual(gpu_page.ceiling(results), 40.0)
        page = gpu_page.page(results, ["gpu-limits.svg"])
        self.assertNotIn("mean nothing", page)
        self.assertIn("(bar 0.9): 0.75 at worst (broadcast, 4 ranks, 16 MB)", page)
        self.assertIn("(bar 5): 10.0 times as fast at worst (all_gather, 16 MB)", page)
        self.assertIn("| penstock | all_gather | 2 | 16 MB | 2000.0 | 20.000 | 1.00 | 10.0 |", page)
        self.assertIn("![gpu-limits.svg](gpu-limits.svg)", page)

    def test_tables_of_nccl_tests_are_read(self):
        self.assertEqual(gpu_parts.nccl_test_rows(NCCL_TESTS),
                         [{"bytes": 16, "microseconds": 12.34, "bus_GBps": 0.0, "wrong": 0},
                          {"bytes": 1 << 20, "microseconds": 100.0, "bus_GBps": 10.49, "wrong": 2}])

    def test_nccl_tests_are_left_out_in_words(self):
        done = subprocess.run([SOURCE / "ci/nccl_tests.sh", self.folder], capture_output=True, text=True, check=False,
                              env=clean_environment(NCCL_TESTS=self.folder / "none"))
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stdout, "left out: no sources at .*none: NCCL_TESTS=FOLDER names them")

    def test_says_why_the_extension_is_absent(self):
        (self.folder / "python").write_text("#!/bin/sh\nexit 1\n")
        (self.folder / "python").chmod(0o700)
        done = subprocess.run([SOURCE / "ci/torch_extension.sh", self.folder / "python", self.folder], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stdout, "left out: .*/python has no torch")

    def test_the_small_mpi_for_nccl_tests(self):
        (self.folder / "mpi.cpp").write_text(SMALL_MPI)
        subprocess.run(["c++", "-std=c++17", "-O1", "-Wall", "-Werror", f"-I{SOURCE}/lab/bench/small_mpi", self.folder / "mpi.cpp", "-o", self.folder / "mpi"],
                       check=True)
        jobs = [subprocess.Popen([self.folder / "mpi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=clean_environment(SMALL_MPI=f"{rank} 3 {self.folder}/shared")) for rank in range(3)]
        for status, _, err in self.outcomes(jobs):
            self.assertEqual((status, err), (0, ""))


if __name__ == "__main__":
    unittest.main()
