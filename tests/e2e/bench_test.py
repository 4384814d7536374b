"""penstock bench: figures of this machine. That they are printed, never what they are."""
import unittest

from support import Case


class Bench(Case):
    def test_limits_in_both_modes(self):
        done = self.penstock("bench", "limits", "--rounds", "1", "--size", "32M")
        for mode in ("software", "hardware"):
            self.assertIn(f"mode {mode}", done.stdout)
        self.assertIn("hand-over of a message", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["65536"]]
        self.assertEqual(len(rows), 4)
        software = rows[0]  # its stores never go through the cache: nothing to compare
        self.assertEqual(software.pop(), "-")
        self.assertTrue(all(float(value) > 0 for row in rows for value in row), rows)

    def test_footprint(self):
        done = self.penstock("bench", "footprint", "--ranks", "4", "--neighbours", "2", "--size", "64M")
        table, channels, together, pair = map(float, done.stdout.split("for a pair")[1].split())
        self.assertAlmostEqual(together, table + channels, delta=0.2)
        self.assertGreater(pair, 0.5)  # its cells alone are 512 KiB

    def test_footprint_of_too_many(self):
        self.refused("bench", "footprint", "--ranks", "1", says="1 ranks that talk to 4 each cannot be")
        self.refused("bench", "footprint", "--size", "64M", says="make a larger pool")


if __name__ == "__main__":
    unittest.main()
