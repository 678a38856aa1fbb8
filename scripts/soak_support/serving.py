# SPDX-License-Identifier: Apache-2.0
"""Asks a server many things at once, and compares each answer with what `llmtrain sample` writes.

Of the clients of the openai package three in ten leave in the middle of an answer and one in ten reads slowly; others
send what is no request. The memory and open files of the server and of its model's process must not grow, and in the
end nothing may be held.
"""
import asyncio
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai

PROMPTS = ["The quick", "x", "jumps over the lazy dog.\nThe", "Grüezi, 你好", "fox " * 40]
SEEDS, TOKENS = 4, 40
RECIPE = {"model": {"architecture": "llama", "layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2,
                    "vocab_size": 256, "max_sequence_length": 256, "init_std": 0.2},
          "data": {"train": [{"path": "text.txt"}]}, "batch": {"global": 4, "micro": 4, "sequence_length": 64},
          "training": {"steps": 10}, "cluster": {"device": "cpu"}, "log": {"directory": "run"}}
NONSENSE = [b"\0\xff" * 50, b"GET / HTTP/1.1\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n\r\n{",
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
            b'{"prompt"', b"GET /v1/models HTTP/1.1\r\n" + b"X: " + b"y" * 20000]
# Beyond what the first requests take: buffers of the allocator, not what requests leave behind.
MOST_GROWTH = 32 << 20


class Soak:
    def __init__(self, program, folder, requests, clients, ranks):
        self.program, self.folder, self.ranks = program, folder, ranks
        self.requests, self.clients = requests, clients
        self.counts = {"equal": 0, "left": 0, "nonsense": 0}
        self.wrong = []

    def run_program(self, *arguments):
        return subprocess.run([self.program, *arguments], cwd=self.folder, check=True, text=True, capture_output=True)

    def prepare(self):
        (self.folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 200, encoding="utf-8")
        (self.folder / "recipe.json").write_text(json.dumps(RECIPE), encoding="utf-8")
        self.run_program("run", "recipe.json", "-q")
        self.expected = {}
        for prompt, seed in itertools.product(PROMPTS, range(SEEDS)):
            line = self.run_program("sample", "run", "--json", "--prompt", prompt, "--tokens", str(TOKENS),
                                    "--temperature", "1", "--seed", str(seed), *self.ranks).stdout
            self.expected[prompt, seed] = json.loads(line)["text"]

    def start(self):
        # pylint: disable-next=consider-using-with
        self.server = subprocess.Popen([self.program, "serve", "run", "--port", "0", "--queue", str(self.clients),
                                        *self.ranks], cwd=self.folder, stderr=subprocess.PIPE, text=True)
        for line in self.server.stderr:
            if line.startswith("serving "):
                self.address = line.split(" at ")[1].split("/v1")[0]
                return
        raise SystemExit("the server did not start")

    async def ask(self, client, number):
        draws = random.Random(number)
        if draws.random() < 0.05:
            return await self.send_nonsense(draws.choice(NONSENSE))
        prompt, seed = draws.choice(PROMPTS), draws.randrange(SEEDS)
        body = {"model": "run", "prompt": prompt, "max_tokens": TOKENS, "temperature": 1, "seed": seed}
        leaves, slow = draws.random() < 0.3, draws.random() < 0.1
        if draws.random() < 0.3:
            answer = await client.completions.create(**body)
            return self.compare(prompt, seed, answer.choices[0].text)
        text, count = "", 0
        stream = await client.completions.create(**body, stream=True)
        async for piece in stream:
            text += "".join(choice.text for choice in piece.choices)
            count += 1
            if leaves and count == 5:
                self.counts["left"] += 1
                return await stream.close()
            if slow and count % 10 == 0:
                await asyncio.sleep(0.05)
        return self.compare(prompt, seed, text)

    def compare(self, prompt, seed, text):
        if text == self.expected[prompt, seed]:
            self.counts["equal"] += 1
        else:
            self.wrong.append(f"{prompt!r}, seed {seed}: {text!r}")

    async def send_nonsense(self, data):
        host, port = self.address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(data)
        if data.endswith(b'{"prompt"'):  # whole, though no JSON
            answer = await reader.read(65536)
            if not answer.startswith(b"HTTP/1.1 400"):
                self.wrong.append(f"nonsense was answered with {answer[:40]}")
        writer.close()
        self.counts["nonsense"] += 1

    def held(self):
        """(bytes of memory, open files) of the server and of the process that has its model."""
        found = []
        for pid in [self.server.pid, *self.children()]:
            process = Path(f"/proc/{pid}")
            resident = next(line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS"))
            found.append((int(resident.split()[1]) << 10, len(list((process / "fd").iterdir()))))
        if len(found) != 2:
            self.wrong.append(f"the server has {len(found) - 1} processes in place of one")
        return found

    def children(self):
        threads = Path(f"/proc/{self.server.pid}/task").iterdir()
        return [child for thread in threads for child in (thread / "children").read_text().split()]

    async def ask_all(self, numbers):
        async with openai.AsyncOpenAI(base_url=self.address + "/v1", api_key="none", max_retries=0) as client:
            async def work():
                while numbers:
                    number = numbers.pop()
                    try:
                        await self.ask(client, number)
                    except (openai.OpenAIError, OSError) as error:
                        self.wrong.append(f"request {number}: {error!r}")
            await asyncio.gather(*(work() for _ in range(self.clients)))

    def run(self):
        self.prepare()
        self.start()
        start, before = time.monotonic(), None
        parts = 8
        for part in range(parts):
            numbers = list(range(part * self.requests // parts, (part + 1) * self.requests // parts))
            asyncio.run(self.ask_all(numbers))
            held = self.held()
            print(f"{(part + 1) * self.requests // parts} requests: {self.counts}, {len(self.wrong)} wrong, "
                  + ", ".join(f"{name} {memory >> 20} MiB and {files} open files"
                              for name, (memory, files) in zip(("server", "model"), held)), flush=True)
            before = before or held
        self.server.send_signal(signal.SIGTERM)
        self.server.stderr.close()
        if self.server.wait(60) != 0:
            self.wrong.append(f"the server ended with {self.server.returncode}")
        for name, (first, _), (last, _) in zip(("server", "model"), before, held):
            if last - first > MOST_GROWTH:
                self.wrong.append(f"the {name}'s memory grew by {(last - first) >> 20} MiB")
        print(f"{self.requests / (time.monotonic() - start):.0f} requests a second")
        for line in self.wrong[:10]:
            print("wrong:", line)
        return 1 if self.wrong else 0


def main():
    program, requests, clients = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="llmtrain-serving-") as folder:
        return Soak(program, Path(folder), requests, clients, sys.argv[4:]).run()


if __name__ == "__main__":
    sys.exit(main())
