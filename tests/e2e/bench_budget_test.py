"""The time limits of penstock bench, with a simulated clock; and other vendors' programs, which the tests imitate."""

import sys
import types
import unittest
import unittest.mock

from support import SOURCE, Case

sys.path.insert(0, str(SOURCE / "python"))
from penstock.bench import budget, model, perftest, running  # noqa: E402
from penstock.bench.experiment import Absent, Experiment, Failed, Key, Run, Settings  # noqa: E402
from penstock.bench.experiments import stream  # noqa: E402


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Budget(unittest.TestCase):
    """Experiments whose measurements take a given time on the simulated clock."""

    def ran(self, settings, *durations, rounds=100):
        """Runs experiments with two variants that take the given seconds each. Returns outcomes and end time."""
        clock, outcomes = Clock(), {}
        shares = budget.Budget(settings.whole(), len(durations), clock)
        for number, duration in enumerate(durations):
            def measure(run, duration=duration):
                clock.now += min(duration, run.timeout())
                return {Key("latency", "latency_us", 8): 1.0}

            def run(run, measure=measure):
                run.rounds({name: lambda: measure(run) for name in ("ours", "theirs")}, rounds)

            name = f"experiment {number}"
            each = Experiment(name, "", "", "", "", run)
            outcomes[name] = each.outcome()
            running.run_one(each, settings, None, outcomes[name], lambda *_: None, shares.share())
        return list(outcomes.values()), clock.now

    def test_begins_no_round_that_cannot_fit(self):
        outcomes, now = self.ran(Settings(budget=100, limit=1000), 7, 7)
        self.assertEqual([row.rounds for each in outcomes for row in each.rows], [3, 3, 4, 4])  # 42 s of 50; 56 of 58
        self.assertEqual(now, 98)

    def test_later_experiments_get_unused_time(self):
        outcomes, now = self.ran(Settings(budget=100, limit=1000), 1, 20, rounds=2)
        self.assertEqual([row.rounds for each in outcomes for row in each.rows], [2, 2, 2, 2])
        self.assertEqual(now, 84)

    def test_the_whole_run_never_takes_longer(self):
        outcomes, now = self.ran(Settings(budget=100), 70, 1, 1)
        self.assertEqual(now, 100)
        self.assertEqual([each.status for each in outcomes], ["ok", "absent", "absent"])
        self.assertIn("the 100 s of the whole run were over: give a longer --budget", outcomes[1].reason)
        outcomes, now = self.ran(Settings(budget=100), 120)
        self.assertEqual([row.series for row in outcomes[0].rows], ["ours"])
        self.assertIn("without theirs: the 100 s of the whole run were over", outcomes[0].reason)

    def test_makes_all_requested_rounds(self):
        outcomes, now = self.ran(Settings(repeat=20), 60)
        self.assertEqual([row.rounds for row in outcomes[0].rows], [20, 20])

    def test_by_default_it_is_under_ten_minutes(self):
        _, now = self.ran(Settings(), *[33.0] * 13)
        self.assertLessEqual(now, 540)


class Rounds(unittest.TestCase):
    def test_failed_measurement_is_not_called_missing(self):
        outcome = model.Outcome("", "", "", "")
        answers = iter([Failed("once"), None, None])

        def bundle():
            answer = next(answers)
            if answer:
                raise answer
            return {Key("latency", "latency_us", 8, series="one of the bundle"): 1.0}

        def never():
            raise Failed("no device")

        Run(Settings(repeat=3), None, outcome).rounds({"bundle": bundle, "a": never, "b": never}, 3)
        self.assertEqual(outcome.reason, "without a, b: no device")


class Others(Case):
    """Programs that imitate the output of perftest and STREAM."""

    def program(self, name, text):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def run_of(self, **settings):
        return Run(Settings(repeat=1, **settings), types.SimpleNamespace(), model.Outcome("", "", "", ""))

    def test_rdma(self):
        self.program("ib_write_lat", 'echo " #bytes #iterations t_min[usec]"; echo " $4 1000 0.9 4.0 1.5 1.6 0.1 2 3"\n')
        self.program("ib_write_bw", 'echo " $4 1000 11000.00 10000.00 0.01"\n')
        run = self.run_of(peer="far:7741")
        with unittest.mock.patch.object(perftest, "DEVICES", self.folder / "none"), self.assertRaisesRegex(Absent, "no RDMA device"):
            perftest.measurements(run)
        (self.folder / "devices" / "mlx5_0").mkdir(parents=True)
        with unittest.mock.patch.object(perftest, "DEVICES", self.folder / "devices"):
            with unittest.mock.patch.dict("os.environ", PATH="/nowhere"), self.assertRaisesRegex(Absent, "apt install perftest"):
                perftest.measurements(run)
            with unittest.mock.patch.dict("os.environ", PATH=f"{self.folder}:/usr/bin:/bin"):
                run.rounds(perftest.measurements(run), 1)
        self.assertEqual({(row.series, row.op, row.bytes, round(row.median, 2)) for row in run.outcome.rows},
                         {("RDMA, mlx5_0, to far", op, size, value) for op, value in (("latency", 1.5), ("bandwidth", 10485.76))
                          for size in (8, 1 << 20)})

    def test_stream_as_published(self):
        said = "Copy:        12000.5  0.01  0.01  0.01\nScale:       11000.0  0.01  0.01  0.01\nSolution Validates: avg error less than 1e-13"
        right = self.program("right", f"cat <<END\n{said}\nEND\n")
        wrong = self.program("wrong", "echo Failed Validation on array a[]\n")
        figures = stream.published(self.run_of(procs=(1, 4096)), str(right))
        self.assertEqual({(key.op, key.procs, key.series): value for key, value in figures.items()},
                         {("copy", 1, "STREAM as published"): 12000.5, ("scale", 1, "STREAM as published"): 11000.0})
        with self.assertRaisesRegex(Failed, "does not say that its solution validates"):
            stream.published(self.run_of(procs=(1,)), str(wrong))


if __name__ == "__main__":
    unittest.main()
