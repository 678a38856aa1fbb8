# SPDX-License-Identifier: Apache-2.0
"""/v1/embeddings of llmtrain serve: its limits, its errors and its end. tests/oracle/encoders has the numbers."""
import base64
import concurrent.futures
import json
import signal
import socket
import struct
import unittest

from runs.serve_test import Served


class Embeddings(Served):
    def embeddings(self, texts, **fields):
        return [one["embedding"] for one in self.post("/v1/embeddings", {"input": texts, **fields})["data"]]

    def test_forms_of_input_and_of_numbers(self):
        self.prepare()
        self.start()
        answer = self.post("/v1/embeddings", {"model": "small", "input": "The", "user": "me"})
        self.assertEqual((answer["object"], answer["model"], answer["usage"]),
                         ("list", "small", {"prompt_tokens": 3, "total_tokens": 3}))
        one, = answer["data"]
        self.assertEqual((one["object"], one["index"], len(one["embedding"])), ("embedding", 0, 32))
        self.assertAlmostEqual(sum(value * value for value in one["embedding"]), 1, delta=1e-6)
        ids = self.post("/tokenize", {"prompt": "The"})["tokens"]
        for texts in ("The", ["The"], ids, [ids]):
            self.assertEqual(self.embeddings(texts), [one["embedding"]])
        coded, = self.embeddings("The", encoding_format="base64")
        single = list(struct.unpack("<32f", base64.b64decode(coded, validate=True)))
        self.assertEqual(single, [struct.unpack("<f", struct.pack("<f", value))[0] for value in one["embedding"]])
        # Two more bytes behind a multiple of three, and one more.
        for count in (1, 2, 3):
            self.assertEqual(len(base64.b64decode(self.embeddings("x", encoding_format="base64", dimensions=count)[0],
                                                  validate=True)), 4 * count)
        # Beside texts that grow, for as long as they do.
        growing = {"prompt": ["x", "y", "z"], "max_tokens": 400, "temperature": 0}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            grown = pool.submit(self.post, "/v1/completions", growing)
            while True:
                self.assertEqual(self.embeddings(["The", "quick", "The"])[::2], [one["embedding"]] * 2)
                if grown.done():
                    break
        self.assertEqual(grown.result()["choices"], self.post("/v1/completions", growing)["choices"])

    def test_what_is_refused_names_the_field(self):
        self.prepare()
        self.write("key", "secret\n")
        self.start("--max-body", "20000", "--api-key-file", "key")
        self.assertEqual(self.request("/v1/embeddings", {"input": "x"})[0], 401)
        key = {"Authorization": "Bearer secret"}
        for status, field, changes in [
                (400, "input", {"input": None}), (400, "input", {"input": ""}), (400, "input", {"input": []}),
                (400, "input", {"input": ["x", ""]}), (400, "input", {"input": [[]]}), (400, "input", {"input": 5}),
                (400, "input", {"input": [1, "x"]}), (400, "input", {"input": ["x", 1]}), (400, "input", {"input": [256]}),
                (400, "input", {"input": [-1]}), (400, "input", {"input": {"text": "x"}}),
                (400, "input", {"input": ["x", "x" * 513]}), (400, "input", {"input": ["x"] * 2049}),
                (400, "dimensions", {"dimensions": 0}), (400, "dimensions", {"dimensions": 33}),
                (400, "encoding_format", {"encoding_format": "int8"}), (400, "encoding_format", {"encoding_format": 1}),
                (400, "inputs", {"inputs": "x"}), (404, "model", {"model": "other"})]:
            with self.subTest(changes=str(changes)[:60]):
                found, answer = self.request("/v1/embeddings", {"input": "x", **changes}, headers=key)
                self.assertEqual((found, answer["error"]["param"]), (status, field), answer)
        self.assertEqual(self.request("/v1/embeddings", {"input": "x" * 20001}, headers=key)[0], 413)
        self.assertEqual(self.request("/v1/embeddings", headers=key)[0], 405)
        self.assertEqual(self.request("/v1/embeddings", {"input": "x" * 512}, headers=key)[0], 200)
        self.refused(2, ["--pooling class", "sees no other"], "serve", "runs/small", "--pooling", "class")
        self.refused(2, ["--pooling"], "serve", "runs/small", "--pooling", "max")

    def test_the_queue_is_bounded_and_a_signal_waits_for_what_had_begun(self):
        self.prepare({"model.max_sequence_length": 2048})
        self.start("--batch", "1", "--queue", "1")
        texts = ["x" * 2000 + str(number) for number in range(60)]
        body = json.dumps({"input": texts}).encode()
        request = (b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d"
                   b"\r\n\r\n" % len(body)) + body
        clients = [socket.create_connection((self.address.hostname, self.address.port)) for _ in range(2)]
        for client in clients:
            client.sendall(request)
        self.wait_for(lambda: self.metric("llmtrain_embedding_requests") == 2)
        self.assertEqual(self.request("/v1/embeddings", {"input": "x"})[0], 429)
        self.assertEqual(self.request("/v1/completions", {"prompt": "x"})[0], 429)
        # Who leaves gives way after the text at hand.
        for client in clients:
            client.close()
        self.wait_for(lambda: self.metric("llmtrain_embedding_requests") == 0)
        self.wait_for(lambda: self.metric("llmtrain_lost_clients_total") == 2)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.embeddings, texts)
            self.wait_for(lambda: self.metric("llmtrain_embedding_requests") == 1)
            self.process.send_signal(signal.SIGTERM)
            self.assertEqual(len(answer.result()), len(texts))
        self.assertEqual(self.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
