# SPDX-License-Identifier: Apache-2.0
"""llmtrain serve, by clients of several kinds: what it answers is what sample writes."""
import concurrent.futures
import http.client
import itertools
import json
import re
import select
import signal
import socket
import sys
import time
import unittest
import urllib.parse

from program import TrainingTest

CHOICES = [{"temperature": 0}, {"temperature": 1.3, "seed": 5}, {"temperature": 1, "top_k": 20, "seed": 6},
           {"temperature": 0.9, "top_p": 0.8, "seed": 7, "repetition_penalty": 1.3}]
PROMPTS = ["The quick", "x", "jumps over the lazy dog.\nThe", "Grüezi, 你好", "fox " * 90]


class Served(TrainingTest):
    def start(self, *flags, source="runs/small", environment=None):
        """Starts the server on a free port."""
        self.process = self.start_program("serve", source, "--port", "0", *flags, environment=environment)
        said = ""
        for line in self.process.stderr:
            said += line
            if line.startswith("serving "):
                self.address = urllib.parse.urlsplit(line.split(" at ")[1].split("/v1")[0])
                return
        self.fail("no server:\n" + said)

    def prepare(self, changes=None, *flags):
        self.write("recipe.json", self.recipe({"model.max_sequence_length": 512, "model.init_std": 0.2,
                                               "model.hidden_size": 32,
                                               "batch.sequence_length": 16, **(changes or {})}))
        self.train(*flags)

    def compare_with_eval(self, *flags):
        """Log-probabilities of answers and those that eval has, with the same flags."""
        self.start(*flags)
        body = {"prompt": "\n", "max_tokens": 60, "seed": 3, "n": 6, "logprobs": 0, "return_token_ids": True}
        compared = 0
        for choice in self.post("/v1/completions", body)["choices"]:
            # Tokens are bytes, and a text's first follows a newline. A file with control characters may be no text.
            ids = list(itertools.takewhile(lambda byte: byte >= 32, choice["token_ids"]))
            if not ids:
                continue
            compared += len(ids)
            self.write("answer.txt", bytes(ids))
            result = self.run_program("eval", "runs/small", "--data", "answer.txt", "--json", *flags)
            self.assertEqual(result.returncode, 0, result.stderr)
            # Sums of the same fp32 numbers, in whatever order.
            self.assertAlmostEqual(json.loads(result.stdout)["log_likelihood"],
                                   sum(choice["logprobs"]["token_logprobs"][:len(ids)]), delta=1e-9)
        self.assertGreater(compared, 20)

    def prepare_chat(self):
        line = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
        self.write("chat.jsonl", json.dumps(line) + "\n")
        self.prepare({"data.train": [{"path": "chat.jsonl"}], "data.fine_tuning": {}, "training.steps": 4,
                      "batch.sequence_length": 256})

    def request(self, path, body=None, headers=None):
        """The status and the body, as JSON where it is some."""
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=120)
        try:
            if body is None:
                connection.request("GET", path, headers=headers or {})
            else:
                text = body if isinstance(body, (bytes, str)) else json.dumps(body)
                connection.request("POST", path, text, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            self.headers = answer.headers
            content = answer.read().decode()
            return answer.status, json.loads(content) if "json" in answer.headers["Content-Type"] else content
        finally:
            connection.close()

    def post(self, path, body, **options):
        status, answer = self.request(path, body, **options)
        self.assertEqual(status, 200, answer)
        return answer

    def events(self, path, body, **options):
        """What a streamed answer consists of."""
        stream = self.post(path, {**body, "stream": True}, **options)
        lines = [line for line in stream.split("\n\n") if line]
        self.assertEqual(lines[-1], "data: [DONE]")
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def raw(self, data, half_closed=False):
        """All that the server answers to these bytes."""
        with socket.create_connection((self.address.hostname, self.address.port), timeout=60) as client:
            client.sendall(data)
            if half_closed:
                client.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := client.recv(65536):
                answer += piece
            return answer

    def metric(self, name):
        _, text = self.request("/metrics")
        return [float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " ")][0]

    def wait_for(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def sampled(self, choice, *flags):
        names = {"temperature": "--temperature", "seed": "--seed", "top_k": "--top-k", "top_p": "--top-p",
                 "repetition_penalty": "--repetition-penalty"}
        choice = [word for key, value in choice.items() for word in (names[key], str(value))]
        result = self.run_program("sample", "runs/small", "--json", "--tokens", "40", *choice, *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]


class Completions(Served):
    def test_answers_are_what_sample_writes_whoever_asks_beside_them(self):
        self.prepare()
        self.write("prompts.jsonl", "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        expected = [self.sampled(choice, "--prompts", "prompts.jsonl", "--samples", "2", "--stop", "ox")
                    for choice in CHOICES]
        self.start("--batch", "3", "--queue", "100")

        def ask(choice, streams):
            body = {"prompt": PROMPTS, "max_tokens": 40, "n": 2, "stop": ["ox"], "return_token_ids": True, **choice}
            texts, ids, ends = [""] * 10, [[] for _ in range(10)], [None] * 10
            answers = self.events("/v1/completions", body) if streams else [self.post("/v1/completions", body)]
            for answer in answers:
                for one in answer["choices"]:
                    self.assertIsNone(ends[one["index"]])
                    texts[one["index"]] += one["text"]
                    ids[one["index"]] += one["token_ids"]
                    ends[one["index"]] = one["finish_reason"]
            return [{"text": text, "tokens": own, "ended": "length" if end == "length" else "stop"}
                    for text, own, end in zip(texts, ids, ends)]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [(place, pool.submit(ask, choice, streams)) for streams in (False, True)
                     for place, choice in enumerate(CHOICES)]
        for place, answer in asked:
            found = answer.result()
            for line, own in zip(expected[place], found, strict=True):
                with self.subTest(choice=CHOICES[place], prompt=line["prompt"][:9], sample=line["sample"]):
                    self.assertEqual(own["text"], line["text"])
                    self.assertEqual((own["tokens"], own["ended"]), (line["tokens"], line["ended"]))
        # A client reads its last token before the step ends that frees the text's place.
        self.wait_for(lambda: self.metric("llmtrain_growing_texts") == 0)
        self.assertEqual(self.metric("llmtrain_cache_used_bytes"), 0)

    def test_exact_log_probabilities_are_those_of_eval(self):
        self.prepare({"precision.compute": "bf16"})
        for flags in ((), ("--set", "precision.fp8_level=O0")):
            with self.subTest(flags=flags):
                self.compare_with_eval("--exact", *flags)
                self.process.terminate()
                self.process.wait()

    def test_usage_log_probabilities_and_ids(self):
        self.prepare()
        self.start()
        body = {"model": "small", "prompt": "The", "max_tokens": 5, "temperature": 0, "logprobs": 3}
        answer = self.post("/v1/completions", body)
        self.assertEqual(answer["usage"], {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8})
        found = answer["choices"][0]["logprobs"]
        self.assertEqual("".join(found["tokens"]), answer["choices"][0]["text"])
        for own, likeliest in zip(found["token_logprobs"], found["top_logprobs"], strict=True):
            self.assertEqual(own, max(likeliest.values()))
        # The same prompt as ids, and the same numbers.
        tokens = self.post("/tokenize", {"prompt": "The"})
        self.assertEqual((tokens["tokens"], tokens["count"]), ([84, 104, 101], 3))
        again = self.post("/v1/completions", {**body, "prompt": tokens["tokens"]})
        self.assertEqual(again["choices"], answer["choices"])
        streamed = self.events("/v1/completions", {**body, "stream_options": {"include_usage": True}})
        self.assertEqual(streamed[-1]["usage"], answer["usage"])
        self.assertEqual([number for event in streamed[:-1]
                          for number in event["choices"][0]["logprobs"]["token_logprobs"]], found["token_logprobs"])
        # Without a seed texts differ; with one they do not.
        random = {"prompt": "The", "max_tokens": 30}
        texts = [self.post("/v1/completions", random)["choices"][0]["text"] for _ in range(2)]
        self.assertNotEqual(*texts)

    def test_what_is_refused_names_the_field(self):
        self.prepare()
        self.start("--tokens", "100", "--max-body", "20000")
        good = {"prompt": "The", "max_tokens": 2}
        for status, field, changes in [
                (400, "prompt", {"prompt": None}), (400, "prompt", {"prompt": 5}), (400, "prompt", {"prompt": [[]]}),
                (400, "prompt", {"prompt": [1, "x"]}), (400, "prompt", {"prompt": [256]}),
                (400, "prompt", {"prompt": [-1]}), (400, "prompt", {"prompt": "x" * 512}),
                (400, "max_tokens", {"max_tokens": 0}), (400, "max_tokens", {"max_tokens": 101}),
                (400, "max_tokens", {"max_tokens": 2 ** 63}), (400, "max_tokens", {"max_tokens": "2"}),
                (400, "max_tokens", {"prompt": "x" * 450, "max_tokens": 90}), (400, "temperature", {"temperature": -1}),
                (400, "top_p", {"top_p": 1.5}), (400, "n", {"n": 0}), (400, "n", {"n": 100, "prompt": ["a", "b"]}),
                (400, "stop", {"stop": ""}), (400, "stop", {"stop": [1]}), (400, "seed", {"seed": 1.5}),
                (400, "stream", {"stream": 1}), (400, "stream_options", {"stream_options": {"include_usage": True}}),
                (400, "logprobs", {"logprobs": 21}), (400, "echo", {"echo": True}), (400, "best_of", {"best_of": 3}),
                (400, "presence_penalty", {"presence_penalty": 0.5}), (400, "logit_bias", {"logit_bias": {"5": 1}}),
                (400, "suffix", {"suffix": "x"}), (400, "temprature", {"temprature": 1}),
                (404, "model", {"model": "other"})]:
            with self.subTest(changes=str(changes)[:60]):
                found, answer = self.request("/v1/completions", {**good, **changes})
                self.assertEqual((found, answer["error"]["param"]), (status, field), answer)
                self.assertIn(field, answer["error"]["message"])
        for text in ["", "[]", "{", '{"prompt": "a", "prompt": "b"}', b'{"prompt": "\xff"}', "[" * 10000,
                     '{"prompt": NaN}']:
            self.assertEqual(self.request("/v1/completions", text)[0], 400, text)
        self.assertEqual(self.request("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})[1]
                         ["error"]["param"], "messages")
        self.assertEqual(self.request("/v1/completions", {**good, "user": "me", "echo": False})[0], 200)
        self.check_http()

    def check_http(self):
        for status, arguments in [(404, ("/v1/other",)), (405, ("/v1/completions",)), (405, ("/health", "{}")),
                                  (415, ("/v1/completions", "{}", {"Content-Type": "text/plain"})),
                                  (413, ("/v1/completions", "x" * 20001)), (413, ("/v1/completions", "x" * 5000000))]:
            self.assertEqual(self.request(*arguments)[0], status, str(arguments)[:60])
        head = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
        chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 4096 + b"\r\n"
        for status, data in [(400, b"rubbish\r\n\r\n"), (400, b"\x16\x03\x01\x02\x00\x01\x00"), (400, b"GET / HTTP/9\r\n\r\n"),
                             (431, b"GET /health HTTP/1.1\r\n" + b"X-A: b\r\n" * 4000),
                             (400, head + b"Content-Length: -5\r\n\r\n"), (413, head + b"Content-Length: 999999999999\r\n\r\n"),
                             (413, head + chunks * 1 + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 6),
                             (400, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")]:
            self.assertEqual(self.raw(data).split()[1:2], [str(status).encode()], data[:60])
        # One that ends in the middle of its request, and one of HTTP/1.0.
        self.raw(head + b"Content-Length: 50\r\n\r\n{", half_closed=True)
        self.assertIn(b"200 OK", self.raw(b"GET /health HTTP/1.0\r\n\r\n"))
        self.assertEqual(self.request("/health"), (200, {"status": "ok"}))

    def test_the_page_asks_nobody_else(self):
        self.prepare()
        self.start()
        status, page = self.request("/")
        self.assertEqual((status, self.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'", self.headers["Content-Security-Policy"])
        self.assertEqual(re.findall(r"https?://|(?:src|href)=", page), [])
        _, models = self.request("/v1/models")
        self.assertEqual((models["data"][0]["has_chat_template"], models["data"][0]["max_model_len"]), (False, 512))

    def test_a_key_is_asked_for(self):
        self.prepare()
        self.write("key", "secret\n")
        self.start("--api-key-file", "key")
        for headers, status in [({}, 401), ({"Authorization": "Bearer secre"}, 401), ({"Authorization": "secret"}, 401),
                                ({"Authorization": "Bearer secret"}, 200)]:
            self.assertEqual(self.request("/v1/models", headers=headers)[0], status)
        self.assertEqual(self.request("/health")[0], 200)

    def test_clients_that_leave_free_their_places_and_too_many_wait(self):
        self.prepare({"model.max_sequence_length": 4096})
        self.start("--batch", "1", "--queue", "3")
        body = json.dumps({"prompt": "The", "max_tokens": 4000, "stream": True, "temperature": 0}).encode()
        request = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d"
                   b"\r\n\r\n" % len(body)) + body
        clients = [socket.create_connection((self.address.hostname, self.address.port)) for _ in range(4)]
        for client in clients:
            client.sendall(request)
        self.wait_for(lambda: self.metric("llmtrain_waiting_texts") + self.metric("llmtrain_growing_texts") == 4)
        status, answer = self.request("/v1/completions", {"prompt": "The"})
        self.assertEqual((status, answer["error"]["type"]), (429, "rate_limit_error"))
        self.assertEqual(self.headers["Retry-After"], "1")
        growing = None  # all have got their headers
        while growing is None:
            for client in select.select(clients, [], [], 60)[0]:
                growing = client if b"data:" in client.recv(4096) else growing
        # Those that wait leave while one's text goes on.
        for client in clients:
            if client is not growing:
                client.close()
        self.wait_for(lambda: self.metric("llmtrain_waiting_texts") == 0)
        self.assertEqual(self.metric("llmtrain_growing_texts"), 1)
        growing.close()
        self.wait_for(lambda: self.metric("llmtrain_waiting_texts") + self.metric("llmtrain_growing_texts") == 0)
        self.assertEqual(self.metric("llmtrain_cache_used_bytes"), 0)
        self.wait_for(lambda: self.metric("llmtrain_lost_clients_total") >= 4)
        self.assertEqual(self.request("/v1/completions", {"prompt": "The"})[0], 200)

    def test_who_has_heard_the_end_of_a_text_may_ask_for_another(self):
        """A text's place is free before its last token is sent, and not only when the step has ended that made it."""
        self.prepare()
        self.start("--batch", "1", "--queue", "0")
        for number in range(60):
            stop = {"stop": ["e", "o", " "]} if number % 3 == 0 else {}
            self.post("/v1/completions", {"prompt": "The", "max_tokens": 1 + number % 4, "seed": number, **stop})
            if number % 10 == 0:
                self.post("/v1/embeddings", {"input": ["The", "fox"]})

    def test_a_signal_ends_it_when_what_had_begun_has_ended(self):
        self.prepare({"model.max_sequence_length": 4096})
        self.start("--batch", "2")
        body = {"prompt": "The", "max_tokens": 3000, "temperature": 0}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            answers = [pool.submit(self.events, "/v1/completions", body) for _ in range(3)]
            self.wait_for(lambda: self.metric("llmtrain_growing_texts") == 2)
            self.process.send_signal(signal.SIGTERM)
            for answer in answers:
                self.assertEqual(answer.result()[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(self.process.wait(60), 0)
        self.assertIn("ended on request", self.process.stderr.read())

    def test_what_cannot_be_served_is_refused_at_once(self):
        self.prepare()
        self.refused(2, ["--batch"], "serve", "runs/small", "--batch", "0")
        self.refused(2, ["/precision/fp8_level"], "serve", "runs/small", "--set", "precision.compute=bf16",
                     "--set", "precision.fp8_level=O0")
        self.refused(2, ["--kv-cache-dtype", "--exact"], "serve", "runs/small", "--exact", "--kv-cache-dtype", "int8")
        self.refused(66, ["nowhere"], "serve", "nowhere")
        self.refused(66, ["--host"], "serve", "runs/small", "--host", "no host")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.refused(73, ["--port"], "serve", "runs/small", "--port", str(taken.getsockname()[1]))


class Chats(Served):
    def test_chats_are_answered_as_by_sample(self):
        self.prepare_chat()
        self.start()
        conversations = [[{"role": "user", "content": "Grüezi"}],
                         [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Ho"}]]
        for messages in conversations:
            self.write("messages.jsonl", json.dumps({"messages": messages}) + "\n")
            expected, = self.sampled({"temperature": 1, "seed": 3}, "--prompts", "messages.jsonl")
            body = {"model": "small", "messages": messages, "max_tokens": 40, "seed": 3, "return_token_ids": True}
            answer = self.post("/v1/chat/completions", body)["choices"][0]
            self.assertEqual((answer["message"]["content"], answer["token_ids"]), (expected["text"], expected["tokens"]))
            events = self.events("/v1/chat/completions", body)
            self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
            self.assertEqual("".join(event["choices"][0]["delta"].get("content", "") for event in events),
                             expected["text"])
        # Content in parts, and what templates and their checks refuse.
        parts = [{"role": "user", "content": [{"type": "text", "text": "Grü"}, {"type": "text", "text": "ezi"}]}]
        self.assertEqual(self.post("/tokenize", {"messages": parts}),
                         self.post("/tokenize", {"messages": conversations[0]}))
        logprobs = self.post("/v1/chat/completions", {"messages": parts, "max_tokens": 3, "logprobs": True,
                                                      "top_logprobs": 2})["choices"][0]["logprobs"]["content"]
        self.assertEqual([len(token["top_logprobs"]) for token in logprobs], [2] * len(logprobs))
        for messages in [[], "Hi", [{"content": "Hi"}], [{"role": "user"}], [{"role": "user", "content": 5}],
                         [{"role": "user", "content": [{"type": "image_url"}]}], [5]]:
            status, answer = self.request("/v1/chat/completions", {"messages": messages})
            self.assertEqual((status, answer["error"]["param"][:8]), (400, "messages"), answer)


class OpenaiClient(Served):
    """The client that people use, of the openai package."""

    def test_completions_chats_and_errors(self):
        try:
            import openai
        except ImportError as error:
            self.skipTest(f"{sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
        self.prepare_chat()
        self.start("--name", "small")
        client = openai.OpenAI(base_url=self.address.geturl() + "/v1", api_key="none", max_retries=0)
        self.assertEqual([model.id for model in client.models.list()], ["small"])
        body = {"model": "small", "prompt": "The quick", "max_tokens": 12, "seed": 3, "logprobs": 2}
        whole = client.completions.create(**body)
        pieces = list(client.completions.create(**body, stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(piece.choices[0].text for piece in pieces if piece.choices), whole.choices[0].text)
        self.assertEqual((pieces[-1].usage.completion_tokens, whole.usage.completion_tokens), (12, 12))
        self.assertEqual([len(whole.choices[0].logprobs.token_logprobs), whole.choices[0].finish_reason],
                         [12, "length"])
        body = {"model": "small", "messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 9,
                "seed": 4, "logprobs": True, "top_logprobs": 1}
        answer = client.chat.completions.create(**body).choices[0]
        deltas = [piece.choices[0].delta for piece in client.chat.completions.create(**body, stream=True)]
        self.assertEqual((deltas[0].role, answer.message.role), ("assistant", "assistant"))
        self.assertEqual("".join(delta.content or "" for delta in deltas), answer.message.content)
        self.assertEqual({len(token.top_logprobs) for token in answer.logprobs.content}, {1})
        with self.assertRaisesRegex(openai.BadRequestError, "max_tokens"):
            client.completions.create(model="small", prompt="x", max_tokens=100000)
        with self.assertRaises(openai.NotFoundError):
            client.completions.create(model="large", prompt="x")


if __name__ == "__main__":
    unittest.main()
