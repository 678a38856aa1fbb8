# SPDX-License-Identifier: Apache-2.0
"""llmtrain serve whose model's process is killed: what clients hear of it, that it comes back, and that none is left."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import time
import unittest

from processes import is_running, processes_below
from runs.serve_test import Served

TENSOR = ("--tensor", "2")
BODY = {"prompt": "The quick", "max_tokens": 30, "seed": 3, "n": 2, "logprobs": 3, "return_token_ids": True}


class ServedRestart(Served):
    def model(self):
        """The number of the model's process."""
        child, = processes_below(self.process.pid)
        return int(child)

    def kill_model(self, number=signal.SIGKILL):
        """Returns when the process has ended."""
        model = self.model()
        os.kill(model, number)
        self.wait_for(lambda: not is_running(model))

    def hold_next_model(self):
        """The process in which the model is loaded again, which goes on at SIGCONT."""
        self.wait_for(lambda: list(processes_below(self.process.pid)))
        model = self.model()
        os.kill(model, signal.SIGSTOP)
        return model

    def streamed(self, body):
        """What arrives of a streamed answer, however it ends."""
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps({**body, "stream": True}),
                           {"Content-Type": "application/json"})
        answer, read = connection.getresponse(), b""
        try:
            while piece := answer.read1():
                read += piece
        except (http.client.HTTPException, OSError):
            pass  # a stream whose end is missing
        connection.close()
        return answer.status, read

    def is_healthy(self):
        return self.request("/health")[0] == 200

    def refused_for_now(self, path, body, reason):
        status, answer = self.request(path, body)
        self.assertEqual(status, 503, answer)
        self.assertIn(reason, answer["error"]["message"])
        self.assertEqual(self.headers["Retry-After"], "1")

    def ended(self, code):
        said = self.process.stderr.read()
        self.assertEqual(self.process.wait(60), code, said)
        return said

    def test_a_killed_model_is_answered_with_503_and_loaded_again(self):
        self.prepare({"model.max_sequence_length": 4096, "model.layers": 2})
        self.start(*TENSOR)
        before = self.post("/v1/completions", BODY)["choices"]
        maps = pathlib.Path(f"/proc/{self.process.pid}/maps").read_text()
        self.assertNotIn("libllmtrain_runtime", maps)  # so that what kills a model kills no server
        first = self.model()
        endless = {"prompt": "The", "max_tokens": 4000}
        with concurrent.futures.ThreadPoolExecutor(3) as clients:
            streams = [clients.submit(self.streamed, endless) for _ in range(2)]
            whole = clients.submit(self.request, "/v1/completions", endless)
            self.wait_for(lambda: self.metric("llmtrain_growing_texts") == 3)
            self.kill_model()
            self.refused_for_now("/v1/completions", BODY, "killed by signal 9")
            second = self.hold_next_model()
            self.refused_for_now("/v1/completions", BODY, "killed by signal 9")
            self.refused_for_now("/v1/embeddings", {"input": "The"}, "loaded again")
            self.refused_for_now("/health", None, "loaded again")
            self.assertEqual(self.metric("llmtrain_growing_texts"), 0)
            for stream in streams:
                status, read = stream.result()
                self.assertEqual(status, 200)
                self.assertIn(b"data: ", read)
                self.assertNotIn(b"[DONE]", read)
            status, answer = whole.result()
            self.assertEqual(status, 503, answer)
            self.assertIn("killed by signal 9", answer["error"]["message"])
        os.kill(second, signal.SIGCONT)
        self.wait_for(self.is_healthy)
        self.assertEqual(self.post("/v1/completions", BODY)["choices"], before)
        self.assertEqual(self.metric("llmtrain_model_restarts_total"), 1)
        self.assertEqual(self.model(), second)
        self.assertNotEqual(first, second)
        self.process.terminate()
        said = self.ended(0)
        self.assertIn("the model has been loaded again", said)
        self.assertIn("ended on request", said)
        self.assertFalse(is_running(second))

    def test_one_that_fails_again_and_again_ends_the_server(self):
        """Whether it is killed or says why it fails, and only when it has been loaded again so often."""
        self.prepare()
        for fault, flags, code, reason in (("kill:forward:0:5", ("--restarts", "1"), 69, "killed by signal 9"),
                                           ("fail:forward:1:5", (), 1, "fault on demand")):
            with self.subTest(fault=fault):
                self.start(*TENSOR, *flags, environment={"LLMTRAIN_FAULT": fault})
                restarts = 1 if flags else 2
                for count in range(restarts + 1):
                    self.assertEqual(self.metric("llmtrain_model_restarts_total"), count)
                    self.refused_for_now("/v1/completions", {"prompt": "The", "max_tokens": 100}, reason)
                    if count < restarts:
                        self.wait_for(self.is_healthy)
                self.assertIn(reason, self.ended(code).splitlines()[-1])

    def test_without_restarts_the_first_end_is_the_servers(self):
        self.prepare({"model.max_sequence_length": 4096})
        self.start("--restarts", "0")
        with concurrent.futures.ThreadPoolExecutor(1) as client:
            answer = client.submit(self.request, "/v1/completions", {"prompt": "The", "max_tokens": 4000})
            self.wait_for(lambda: self.metric("llmtrain_growing_texts") == 1)
            os.kill(self.model(), signal.SIGABRT)  # what a sanitizer, unlike SIGSEGV, leaves a signal
            self.assertEqual(answer.result()[0], 503)
        self.assertIn("killed by signal 6", self.ended(69))
        self.refused(2, ["--restarts"], "serve", "runs/small", "--restarts", "-1")

    def test_one_that_is_killed_before_it_is_loaded_ends_the_server(self):
        self.prepare()
        self.process = self.start_program("serve", "runs/small", "--port", "0")
        self.wait_for(lambda: list(processes_below(self.process.pid)))
        os.kill(self.model(), signal.SIGKILL)
        said = self.ended(69)
        self.assertIn("killed by signal 9", said)
        self.assertNotIn("serving ", said)

    def test_a_request_to_stop_while_it_is_loaded_again(self):
        self.prepare()
        self.start()
        self.kill_model()
        self.wait_for(lambda: self.metric("llmtrain_model_restarts_total") == 1)
        self.hold_next_model()
        self.process.terminate()
        self.ended(0)

    def test_signals_of_a_terminal_reach_the_server_alone(self):
        """Ctrl-C goes to all processes that a terminal's command has started: answers end, and again ends all at once."""
        self.prepare({"model.max_sequence_length": 4096})
        for again, code in ((False, 0), (True, -signal.SIGINT)):
            with self.subTest(again=again):
                self.start()
                model = self.model()
                with concurrent.futures.ThreadPoolExecutor(1) as client:
                    answer = client.submit(self.streamed, {"prompt": "The", "max_tokens": 2000})
                    self.wait_for(lambda: self.metric("llmtrain_growing_texts") == 1)
                    if again:  # a text that does not end by itself
                        os.kill(model, signal.SIGSTOP)
                    for _ in range(2 if again else 1):
                        os.killpg(self.process.pid, signal.SIGINT)
                        time.sleep(0.6)  # two within half a second count as one
                    self.assertEqual(b"[DONE]" in answer.result()[1], not again)
                self.ended(code)
                self.wait_for(lambda model=model: not is_running(model))

    def test_a_killed_server_leaves_no_model(self):
        self.prepare()
        self.start(*TENSOR)
        model = self.model()
        self.process.kill()
        self.wait_for(lambda: not is_running(model))

    def start_program(self, *arguments, **options):
        return super().start_program(*arguments, start_new_session=True, **options)


if __name__ == "__main__":
    unittest.main()
