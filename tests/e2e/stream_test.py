"""penstock bench stream on tiny arrays, as a user calls it: checks what it finds and reports, never its figures."""
import csv
import json
import signal
import subprocess

from support import PENSTOCK, SHM, Case, clean_environment, unique

SMALL = ("bench", "stream", "--elements", "4096", "--any-size", "--ntimes", "3", "--threads", "1")


class Stream(Case):
    def tables(self, *arguments, environment=None, status=0):
        file = self.folder / "stream.json"
        self.printed = self.penstock(*SMALL, "--json", file, *arguments, environment=environment, status=status).stdout
        self.report = json.loads(file.read_text())[0]
        return {table["title"]: table["rows"] for table in self.report["tables"]}

    def series(self, tables):
        return {row["series"] for row in tables["figures"]}

    def test_classes_of_this_machine(self):
        tables = self.tables()
        classes = {row["class"] for row in tables["figures"]}
        self.assertIn("pool", classes)
        absent = " ".join(row["what"] for row in tables["absent"])
        for name in ("1a", "1b", "1c", "2a", "2b"):
            self.assertTrue(name in classes or name in absent, f"{name} is neither measured nor absent: {absent}")
        listed = self.penstock("bench", "stream", "--list").stdout
        self.assertRegex(listed, r"(?m)^node \d+: \d+ CPUs, \d+ MiB, DRAM, distances")
        for row in tables["figures"]:
            self.assertGreater(row["MBps"], 0)
            self.assertLess(max(row["error_a"], row["error_b"], row["error_c"]), 1e-13)
            arrays = 2 if row["kernel"] in ("Copy", "Scale") else 3
            self.assertEqual(row["bytes"], arrays * 8 * 4096)
            self.assertAlmostEqual(row["MBps"] * row["best_s"] * 1e6 / row["bytes"], 1, places=4)

    def test_pools_in_every_mode(self):
        tables = self.tables("--mode", "hardware,software,uncached,simulated", "--store", "plain,nt",
                             "--target", "memory", "pool", "pool+observe")
        self.assertEqual(tables["absent"], [])
        for mode in ("hardware", "software", "simulated"):
            for store in ("plain", "nt"):
                self.assertIn(f"pool, {mode}, {store}", self.series(tables))
        self.assertIn("pool, uncached, plain", self.series(tables))
        names = {row["ratio"] for title, rows in tables.items() if title.startswith("ratios") for row in rows}
        self.assertEqual(names, {"pool / memory", "by this mode / by hardware", "observed first / not"})

    def test_a_pool_that_is_there(self):
        spec = self.pool("64M", "software")
        before = self.info(spec)["bytes_used"]
        tables = self.tables("--target", f"pool:{spec}")
        self.assertEqual({row["mode"] for row in tables["figures"]}, {"software"})
        self.assertEqual(self.info(spec)["bytes_used"], before)

    def test_libpmemobj(self):
        folder = SHM / unique("stream")
        folder.mkdir()
        self.addCleanup(folder.rmdir)
        targets = [f"{way}:{folder}" for way in ("pmem", "pmem+persist", "pmem+tx", "pmem+tx-nosnap")]
        tables = self.tables("--target", "memory", *targets, environment=clean_environment(PMEM_IS_PMEM_FORCE="1"))
        if any("apt-get install libpmemobj1" in row["why"] for row in tables["absent"]):
            self.skipTest("libpmemobj is not installed; the rest was measured")
        self.assertEqual(len(self.series(tables)), 6)  # pmem in two ways
        self.assertIn("pmem_persist is write-back instructions and a fence; PMEM_IS_PMEM_FORCE = 1", self.printed)
        self.assertIn("transactions / plain", self.printed)
        self.assertEqual(list(folder.iterdir()), [])

    def test_csv_has_the_papers_columns(self):
        file = self.folder / "stream.csv"
        self.penstock(*SMALL, "--target", "memory", "--kernels", "copy,triad", "--repeat", "2", "--csv", file)
        self.assertTrue(file.read_text().startswith("threads,Copy,Scale,Add,Triad,"))
        [row] = csv.DictReader(file.read_text().splitlines())
        self.assertEqual((row["threads"], row["Scale"], row["Add"]), ("1", "", ""))
        self.assertGreater(float(row["Triad"]), 0)

    def test_wrong_options(self):
        self.refused("bench", "stream", "--target", "nowhere", says="'nowhere' is no target; they are memory, numa:NODE", status=2)
        self.refused("bench", "stream", "--kernels", "copy,fill", says="'fill' is no kernel of STREAM", status=2)
        self.refused("bench", "stream", "--threads", "2-1", says="names no numbers of threads", status=2)
        self.refused("bench", "stream", "--cores", "60000", says="CPU 60000", fix="taskset", status=2)
        self.refused("bench", "stream", "--elements", "1001", "--any-size", "--target", "memory",
                     says="no multiple of 8", fix="--elements 1008", status=2)
        self.tables("--target", "memory")
        caches = self.report["last-level caches, bytes"]
        if caches != "unknown":
            self.refused("bench", "stream", "--elements", "4096", "--target", "memory", says="4096 are too few",
                         fix="--any-size", status=2)

    def test_reports_missing_parts_and_runs_the_rest(self):
        tables = self.tables("--target", "memory", "numa:77", "pmem:/nowhere/at/all")
        self.assertEqual(self.series(tables), {"memory, plain"})
        why = " ".join(row["why"] for row in tables["absent"])
        self.assertRegex(why, "no memory on NUMA node 77|apt-get install libnuma1|binds no memory")
        self.assertRegex(why, "/nowhere/at/all: .*name a folder that is there|apt-get install libpmemobj1")
        self.penstock(*SMALL, "--target", "numa:77", status=1)
        self.refused(*SMALL, "--target", "memory", "--json", "/nowhere/a.json", says="cannot write /nowhere/a.json")

    def test_interrupted_it_keeps_what_it_has(self):
        file = self.folder / "stream.json"
        job = subprocess.Popen([PENSTOCK, *SMALL, "--repeat", "1000", "--target", "memory", "pool", "--json", file],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
        self.addCleanup(job.kill)
        own = SHM / f"penstock.penstock-bench-{job.pid}"
        self.wait_for(own.exists, "its pool")
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGINT, err)
        self.assertIn("memory, plain", out)
        self.assertIn("figures", file.read_text())
        self.assertFalse(own.exists())
