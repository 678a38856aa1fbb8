# SPDX-License-Identifier: Apache-2.0
"""The experts of texts that a server writes, and eval by these experts again: what reinforcement learning asks for."""
import json
import unittest

from runs.serve_test import Served

EXPERTS, TOP_K = 4, 2


class RoutedExperts(Served):
    def scored(self, *flags):
        result = self.run_program("eval", "runs/small", "--rollouts", "rollouts.jsonl", "--json", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_answers_with_their_experts_are_scored_alike(self):
        self.prepare({"model.layers": 3, "model.moe": {"experts": EXPERTS, "top_k": TOP_K, "capacity_factor": 0}})
        self.start("--exact")
        body = {"prompt": ["The quick brown", "x"], "max_tokens": 20, "n": 2, "seed": 5, "logprobs": 0,
                "return_token_ids": True, "return_routed_experts": True}
        choices = self.post("/v1/completions", body)["choices"]
        for choice in choices:
            tokens = choice["prompt_token_ids"] + choice["token_ids"]
            self.assertEqual(len(choice["routed_experts"]), len(tokens) - 1)
            for token in choice["routed_experts"]:
                self.assertEqual([len(layer) for layer in token], [TOP_K] * 3)
                self.assertTrue(all(0 <= expert < EXPERTS for layer in token for expert in layer))
        streamed = [[] for _ in choices]
        for event in self.events("/v1/completions", body):
            for choice in event["choices"]:
                streamed[choice["index"]] += choice["routed_experts"]
        self.assertEqual(streamed, [choice["routed_experts"] for choice in choices])
        self.write("rollouts.jsonl", "".join(json.dumps(choice) + "\n" for choice in choices))
        scores = self.scored("--exact")
        written = [choice["logprobs"]["token_logprobs"] for choice in choices]
        self.assertEqual(scores["log_probabilities"], written)
        self.assertEqual((scores["rollouts"], scores["tokens"]), (4, 80))
        self.assertAlmostEqual(scores["loss"], -sum(map(sum, written)) / 80, places=12)
        # Others than the router chooses make another model.
        for choice in choices:
            choice["routed_experts"] = [[[(expert + 1) % EXPERTS for expert in layer] for layer in token]
                                        for token in choice["routed_experts"]]
        self.write("rollouts.jsonl", "".join(json.dumps(choice) + "\n" for choice in choices))
        self.assertNotEqual(self.scored("--exact")["log_probabilities"], written)
        shown = self.run_program("eval", "runs/small", "--rollouts", "rollouts.jsonl")
        self.assertRegex(shown.stdout, r"rollouts +4\ntokens +80\nloss +\d")

    def test_several_ranks_tell_and_score_experts(self):
        self.prepare({"model.layers": 2, "model.moe": {"experts": EXPERTS, "top_k": TOP_K, "capacity_factor": 0}})
        for flags in (("--tensor", "2"), ("--pipeline", "2")):
            self.start("--exact", *flags)
            choices = self.post("/v1/completions", {"prompt": ["The quick brown", "x"], "max_tokens": 12, "seed": 5,
                                                    "logprobs": 0, "return_token_ids": True,
                                                    "return_routed_experts": True})["choices"]
            self.write("rollouts.jsonl", "".join(json.dumps(choice) + "\n" for choice in choices))
            self.assertEqual(self.scored("--exact", *flags)["log_probabilities"],
                             [choice["logprobs"]["token_logprobs"] for choice in choices])

    def test_run_learns_by_the_experts_of_rollouts(self):
        moe = {"experts": EXPERTS, "top_k": TOP_K, "capacity_factor": 0}
        model = {"model.layers": 2, "model.moe": moe}
        self.prepare(model)
        self.start("--exact")
        choices = self.post("/v1/completions", {"prompt": ["The quick brown", "x"], "max_tokens": 20, "n": 4, "seed": 5,
                                                "return_token_ids": True, "return_routed_experts": True})["choices"]
        self.process.terminate()
        self.process.wait(60)

        def losses(name, replays, change=lambda expert: expert, *flags):
            rows = [{**choice, "routed_experts": [[[change(expert) for expert in layer] for layer in token]
                                                  for token in choice["routed_experts"]]} for choice in choices]
            self.write("rollouts.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            self.prepare({**model, "name": name, "data.train": [{"path": "rollouts.jsonl"}], "batch.sequence_length": 64,
                          "data.fine_tuning": {"routing_replay": replays}, "training.init_from": "runs/small",
                          "training.steps": 1}, "--run-dir", "runs/" + name, *flags)
            return [row["loss"] for row in self.rows("runs/" + name) if "loss" in row]

        plain = losses("plain", False)
        self.assertEqual(losses("replayed", True), plain)
        others = losses("others", True, lambda expert: (expert + 1) % EXPERTS)
        self.assertNotEqual(others, plain)
        of_two = losses("two", True, lambda expert: (expert + 1) % EXPERTS, "--ranks", "2", "--set", "parallel.tensor=2")
        self.assertAlmostEqual(of_two[0], others[0], delta=1e-5)

    def test_rollouts_that_are_not_of_the_model_are_refused_by_name(self):
        self.prepare({"model.layers": 2, "model.moe": {"experts": EXPERTS, "top_k": TOP_K}})
        good = {"prompt_token_ids": [84], "token_ids": [104, 101], "routed_experts": [[[0, 1]] * 2] * 2}
        for words, changes in [
                (["line 2", '"token_ids" is missing'], {"token_ids": None}),
                (["line 2", '"token_ids" is "x"'], {"token_ids": "x"}),
                (["line 2", "at least one"], {"prompt_token_ids": []}),
                (["line 2", "the id 256", "vocab_size"], {"token_ids": [104, 256]}),
                (["line 2", "the text has 700 tokens", "max_sequence_length"], {"prompt_token_ids": [1] * 698}),
                (["line 2", '"routed_experts" is'], {"routed_experts": [[0, 1], [0, 1]]}),
                (["line 2", "routed_experts has 1 entries; must be 2"], {"routed_experts": [[[0, 1]] * 2]}),
                (["line 2", "routed_experts[0] has 3 entries; must be 2"], {"routed_experts": [[[0, 1]] * 3] * 2}),
                (["line 2", "routed_experts[0][0] has the expert 4"], {"routed_experts": [[[0, 4]] * 2] * 2}),
                (["line 2", "the expert 1 twice"], {"routed_experts": [[[1, 1]] * 2] * 2})]:
            with self.subTest(changes=str(changes)[:60]):
                bad = {key: value for key, value in {**good, **changes}.items() if value is not None}
                self.write("rollouts.jsonl", json.dumps(good) + "\n" + json.dumps(bad) + "\n")
                self.refused(65, ["rollouts.jsonl", *words], "eval", "runs/small", "--rollouts", "rollouts.jsonl")
        self.write("rollouts.jsonl", json.dumps(good) + "\n")
        self.refused(2, ["/model/moe/capacity_factor"], "eval", "runs/small", "--rollouts", "rollouts.jsonl", "--exact")

    def test_a_model_without_experts_has_none_to_return(self):
        self.prepare()
        self.start()
        status, answer = self.request("/v1/completions", {"prompt": "The", "return_routed_experts": True})
        self.assertEqual((status, answer["error"]["param"]), (400, "return_routed_experts"))


if __name__ == "__main__":
    unittest.main()
