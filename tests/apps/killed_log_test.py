# SPDX-License-Identifier: Apache-2.0
"""What a run that is killed leaves of its log and metrics, how the next start goes on with them, and links in their
places."""
import json
import re
import unittest

from program import TrainingTest

TIME = re.compile(r"\d{4}-\d\d-\d\dT\S+ (debug|info|warning|error) ")


class KilledRun(TrainingTest):
    def log(self):
        return (self.folder / "runs/small/log/rank-00000.log").read_text()

    def test_every_line_that_was_shown_is_in_the_log(self):
        process = self.start_program("run", "recipe.json", "--set", "training.steps=1000000", "--set",
                                     "log.tensorboard=false")
        shown = []
        for line in process.stderr:
            shown.append(line.rstrip("\n"))
            if line.startswith("step "):
                break
        process.kill()
        shown += process.stderr.read().split("\n")
        logged = {TIME.sub("", line) for line in self.log().split("\n")}
        self.assertEqual([line for line in shown if line not in logged], [])
        steps = [int(found[1]) for found in (re.match(r"step +(\d+)/", line) for line in shown) if found]
        rows = (self.folder / "runs/small/metrics.jsonl").read_text().split("\n")[:-1]
        self.assertIn(max(steps), [json.loads(row)["step"] for row in rows])

    def test_the_next_start_goes_on_with_whole_lines(self):
        self.train()
        whole, metrics = self.log(), self.folder / "runs/small/metrics.jsonl"
        before = metrics.read_text()
        (self.folder / "runs/small/log/rank-00000.log").write_text(whole + "2026-01-01T00:00:00.000+00:00 debug step 3/4  lo")
        metrics.write_text(before + '{"step":3,"lo')
        self.train("--set", "training.steps=4")
        self.assertIn("debug step 3/4  lo\n2", self.log())
        self.assertTrue(all(TIME.match(line) or not line.startswith("2") for line in self.log().split("\n")))
        self.assertEqual([row["step"] for row in self.rows()], [1, 2, 3, 4])
        self.assertTrue(metrics.read_text().startswith(before))

    def test_links_in_the_places_of_its_files_are_not_followed(self):
        other, empty = self.write("other", "of somebody else\n"), self.write("empty", "")
        self.train()
        for name, target in (("log/rank-00000.log", other), ("metrics.jsonl", empty)):
            with self.subTest(name):
                place = self.folder / "runs/small" / name
                content = place.read_bytes()
                place.unlink()
                place.symlink_to(target)
                result = self.run_program("run", "recipe.json", "-q", "--set", "training.steps=4")
                self.assertEqual(result.returncode, 73, result.stderr)
                self.assertIn(f"{name}: is a link, which is not followed; remove it", result.stderr)
                self.assertEqual((other.read_text(), empty.read_text()), ("of somebody else\n", ""))
                place.unlink()
                place.write_bytes(content)
        # Those that are replaced whole are replaced themselves.
        for name in ("report.html", "report.html.tmp", "metrics.prom.tmp", "plan.json.tmp", "trace.json", "trace.json.tmp"):
            (self.folder / "runs/small" / name).unlink(missing_ok=True)
            (self.folder / "runs/small" / name).symlink_to(other)
        self.train("--set", "training.steps=4", "--trace", self.folder / "runs/small/trace.json")
        self.assertEqual(other.read_text(), "of somebody else\n")
        self.assertFalse((self.folder / "runs/small/report.html").is_symlink())
        self.assertIn("traceEvents", json.loads((self.folder / "runs/small/trace.json").read_text()))


if __name__ == "__main__":
    unittest.main()
