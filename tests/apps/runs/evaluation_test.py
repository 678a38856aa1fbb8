# SPDX-License-Identifier: Apache-2.0
"""`llmtrain eval` of several data, and with options that they do not take."""
import json
import unittest

from program import TEXT, TrainingTest


class Evaluation(TrainingTest):
    def test_several_data(self):
        """A row each, whatever method they are evaluated by, and what each is evaluated to alone."""
        self.train("--set", 'data.validation=[{"path":"text.txt"}]', "--set", "training.steps=4")
        evaluated = json.loads(self.run_program("eval", "runs/small", "--packed", "--json").stdout)
        self.write("few.txt", "ab")
        self.write("none.jsonl", '{"text": ""}\n')
        self.write("ids.bin", TEXT[:101].encode("utf-16-le"))
        names = ("few.txt", "ids.bin", "none.jsonl", "text.txt")
        data = [word for name in names for word in ("--data", name)]
        rows = json.loads(self.run_program("eval", "runs/small", "--json", *data).stdout)["results"]
        self.assertEqual([(row["data"], row["method"], row["tokens"]) for row in rows],
                         [("few.txt", "rolling", 2), ("ids.bin", "packed", 96), ("none.jsonl", "rolling", 0),
                          ("text.txt", "rolling", len(TEXT))])
        self.assertEqual((rows[2]["loss"], rows[2]["log_likelihood"], rows[2]["texts"]), (None, 0, 1))
        for row in rows:
            alone = json.loads(self.run_program("eval", "runs/small", "--json", "--data", row["data"]).stdout)
            self.assertEqual(row["tokens"], alone["tokens"])
            if row["loss"] is not None:
                self.assertAlmostEqual(row["loss"], alone["loss"], delta=1e-6)
        shown = self.run_program("eval", "runs/small", *data).stdout
        self.assertRegex(shown, r"(?m)^none\.jsonl +rolling +0( +-)+$")
        self.assertRegex(shown, rf"(?m)^text\.txt +rolling +{len(TEXT)} +{rows[3]['loss']:.6f} ")
        whole = self.run_program("eval", "runs/small", "--packed", "--data", "text.txt", "--json").stdout
        self.assertEqual(json.loads(whole)["loss"], evaluated["loss"])

    def test_options_that_disagree_with_the_data(self):
        self.train()
        self.refused(66, ["nowhere.txt"], "eval", "runs/small", "--data", "nowhere.txt")
        self.write("empty.txt", "")
        self.refused(65, ["empty.txt"], "eval", "runs/small", "--data", "empty.txt", "--packed")
        self.refused(2, ["--window", "17", "model.max_sequence_length = 16"], "eval", "runs/small", "--window", "17")
        nothing = self.run_program("eval", "runs/small", "--data", "empty.txt")
        self.assertIn("--data: empty.txt has no token to score", nothing.stderr)


if __name__ == "__main__":
    unittest.main()
