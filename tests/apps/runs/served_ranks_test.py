# SPDX-License-Identifier: Apache-2.0
"""llmtrain serve on several ranks: the texts of sample on as many, and what clients hear of a rank that fails."""
import concurrent.futures
import http.client
import itertools
import json
import time
import unittest

from runs.serve_test import CHOICES, PROMPTS, Served

TENSOR = ("--tensor", "2")
FAULT = "fault on demand"


class ServedRanks(Served):
    def test_answers_are_what_sample_writes_on_as_many_ranks(self):
        self.prepare({"model.layers": 2})
        self.write("prompts.jsonl", "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        for ranks in (TENSOR, ("--pipeline", "2")):
            expected = [self.sampled(choice, "--prompts", "prompts.jsonl", "--stop", "ox", *ranks)
                        for choice in CHOICES]
            self.start("--batch", "3", "--queue", "100", *ranks)

            def ask(choice, streams):
                body = {"prompt": PROMPTS, "max_tokens": 40, "stop": ["ox"], "return_token_ids": True, **choice}
                texts, ids = [""] * len(PROMPTS), [[] for _ in PROMPTS]
                answers = self.events("/v1/completions", body) if streams else [self.post("/v1/completions", body)]
                for one in itertools.chain.from_iterable(answer["choices"] for answer in answers):
                    texts[one["index"]] += one["text"]
                    ids[one["index"]] += one["token_ids"]
                return list(zip(texts, ids))

            def leave():
                connection = http.client.HTTPConnection(self.address.hostname, self.address.port)
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "fox " * 90, "max_tokens": 100}),
                                   {"Content-Type": "application/json"})
                connection.close()

            with concurrent.futures.ThreadPoolExecutor(8) as clients:
                asked = [(lines, clients.submit(ask, choice, streams))
                         for choice, lines in zip(CHOICES, expected) for streams in (False, True)]
                for _ in range(4):
                    clients.submit(leave)
                for lines, answer in asked:
                    self.assertEqual(answer.result(), [(line["text"], line["tokens"]) for line in lines])
            self.wait_for(lambda: self.metric("llmtrain_cache_used_bytes") == 0)

    def test_each_rank_has_its_part_of_keys_and_values(self):
        self.prepare({"model.layers": 2, "model.heads": 4, "model.kv_heads": 2})
        embeddings = []
        for flags, share in (((), 1), (TENSOR, 2), (("--pipeline", "2"), 2)):
            self.start("--batch", "2", *flags)
            # Two texts of 512 tokens, each with keys and values of two heads of eight fp32 numbers in two layers.
            self.assertEqual(self.metric("llmtrain_cache_bytes"), 2 * 512 * 2 * 2 * 2 * 8 * 4 / share)
            answer = self.post("/v1/embeddings", {"input": ["The quick", "fox " * 90]})
            embeddings.append([number for one in answer["data"] for number in one["embedding"]])
        # Tensor ranks add up in another order, and pipeline ranks in the same.
        for own, other in zip(embeddings[0], embeddings[1]):
            self.assertAlmostEqual(own, other, delta=1e-5)
        self.assertEqual(embeddings[0], embeddings[2])

    def test_guesses_change_no_text(self):
        self.prepare({"model.layers": 2})
        self.write("prompts.jsonl", "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        choice, lookup, draft = CHOICES[1], ("--prompt-lookup",), ("--draft", "runs/small")
        for ranks, drafts in ((TENSOR, (lookup, draft)), (("--pipeline", "2"), (draft,))):
            plain = self.sampled(choice, "--prompts", "prompts.jsonl", *ranks)
            for flags in drafts:
                with self.subTest(ranks=ranks, flags=flags):
                    self.assertEqual(self.sampled(choice, "--prompts", "prompts.jsonl", *ranks, *flags), plain)
            self.start("--batch", "2", *ranks, *draft)
            answer = self.post("/v1/completions",
                               {"prompt": PROMPTS, "max_tokens": 40, "return_token_ids": True, **choice})
            self.assertEqual([one["token_ids"] for one in answer["choices"]], [line["tokens"] for line in plain])
            self.assertGreater(self.metric("llmtrain_accepted_tokens_total"), 50)

    def test_weights_in_files_change_no_text(self):
        self.prepare({"model.layers": 3})
        self.write("prompts.jsonl", "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        sampled = [self.sampled(CHOICES[1], "--prompts", "prompts.jsonl", *TENSOR, *flags)
                   for flags in ((), ("--weight-memory", "0"))]
        self.assertEqual(sampled[0], sampled[1])

    def test_exact_log_probabilities_are_those_of_eval_on_as_many_ranks(self):
        self.prepare({"precision.compute": "bf16"})
        self.compare_with_eval("--exact", *TENSOR)

    def test_a_rank_that_fails_or_halts_is_answered_with_503(self):
        self.prepare()
        body = {"prompt": "The", "max_tokens": 500}
        for action, rank, code, reason in (("fail", 1, 1, FAULT), ("throw", 0, 1, FAULT),
                                           ("stall", 1, 69, "launch.watchdog_seconds")):
            with self.subTest(action=action, rank=rank):
                self.start(*TENSOR, "--restarts", "0", "--set", "launch.watchdog_seconds=3",
                           environment={"LLMTRAIN_FAULT": f"{action}:forward:{rank}:20"})
                status, answer = self.request("/v1/completions", body)
                self.assertEqual(status, 503, answer)
                self.assertIn(reason, answer["error"]["message"])
                self.assertEqual(self.headers["Retry-After"], "1")
                said = self.process.stderr.read()
                self.assertEqual(self.process.wait(60), code, said)
                self.assertIn(reason, said)

    def test_ranks_that_wait_for_clients_are_not_lost(self):
        self.prepare()
        self.start(*TENSOR, "--set", "launch.watchdog_seconds=1")
        time.sleep(2.5)
        self.post("/v1/completions", {"prompt": "The", "max_tokens": 3})
        self.process.terminate()
        self.assertEqual(self.process.wait(60), 0)

    def test_what_several_ranks_do_not_serve_is_refused(self):
        self.prepare()
        self.refused(2, ["--pipeline", "--weight-memory"], "serve", "runs/small", "--pipeline", "2", "--weight-memory",
                     "0")
        self.refused(2, ["/parallel/tensor", "3"], "serve", "runs/small", "--tensor", "3")


if __name__ == "__main__":
    unittest.main()
