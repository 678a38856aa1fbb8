# SPDX-License-Identifier: Apache-2.0
"""llmtrain chat, compared with sample and what templates write around messages."""
import json
import os
import pty
import signal
import subprocess
import termios
import unittest

from program import PROGRAM, SANITIZER_OPTIONS, TrainingTest

GREEDY = ("--temperature", "0", "--tokens", "12")
WITHOUT_SYSTEM = ("{% for m in messages %}{% if m.role == 'user' or m.role == 'assistant' %}<{{ m.content }}>{% endif %}"
                  "{% endfor %}")


def written(*messages):
    """As https://huggingface.co/Qwen/Qwen2-0.5B-Instruct does, up to where the assistant answers."""
    text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in messages)
    return text + "<|im_start|>assistant\n"


class Chat(TrainingTest):
    def setUp(self):
        super().setUp()
        line = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
        self.write("chat.jsonl", json.dumps(line) + "\n")
        self.write("recipe.json", self.recipe({"data.train": [{"path": "chat.jsonl"}], "data.fine_tuning": {},
                                               "model.max_sequence_length": 256, "training.steps": 4}))
        self.train()

    def continued(self, prompt, *flags):
        shown = self.run_program("sample", "runs/small", "--plain", "--prompt", prompt, *flags).stdout
        self.assertTrue(shown.startswith(prompt) and shown.endswith("\n"))
        return shown[len(prompt):-1]

    def answer(self, *messages):
        return self.continued(written(*messages), *GREEDY)

    def chat(self, lines, *arguments, flags=GREEDY):
        self.write("lines.txt", lines)
        with open(self.folder / "lines.txt", encoding="utf-8") as file:
            return self.run_program("chat", *arguments, *flags, stdin=file)

    def refused_line(self, lines, reasons, *arguments):
        shown = self.chat(lines, "runs/small", *arguments)
        self.assertEqual((shown.returncode, shown.stdout), (65, ""), shown.stderr)
        for reason in reasons:
            self.assertIn(reason, shown.stderr)

    def test_each_line_is_answered_in_its_conversation(self):
        system = ("system", "Be kind.")
        first = self.answer(system, ("user", "Grüezi"))
        second = self.answer(system, ("user", "Grüezi"), ("assistant", first), ("user", "Ho"))
        shown = self.chat("Grüezi\n\nHo\r\n/new\nGrüezi", "runs/small", "--system", "Be kind.")
        self.assertEqual((shown.stdout, shown.stderr), ("".join(f"{text}\n" for text in (first, second, first)), ""))

    def test_sample_answers_as_chat_does(self):
        """A prompt is a user's message, or a conversation, unless it is to be a text's beginning."""
        answers = [self.answer(("user", "Hi")), self.answer(("system", "Be kind."), ("user", "Hi"))]
        self.assertNotEqual(answers[0], self.continued("Hi", *GREEDY))
        sample = ("sample", "runs/small", *GREEDY)
        self.assertEqual(self.run_program(*sample, "--prompt", "Hi").stdout, f"Hi\n{answers[0]}\n")
        self.assertEqual(self.run_program(*sample, "--prompt", "Hi", "--system", "Be kind.").stdout, f"Hi\n{answers[1]}\n")
        conversation = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
        self.write("prompts.jsonl", "".join(json.dumps(line) + "\n" for line in (
            {"prompt": "Hi"}, {"messages": conversation})))
        lines = [json.loads(line) for line in
                 self.run_program(*sample, "--prompts", "prompts.jsonl", "--json").stdout.splitlines()]
        self.assertEqual([line["text"] for line in lines], answers)
        self.assertEqual([line["prompt"] for line in lines], ["Hi", conversation])

    def test_a_folder_of_transformers_answers_as_its_run_does(self):
        self.write("words.txt", "Hi. Hello. Ho. user assistant\n" * 50)
        self.run_program("data", "train-tokenizer", "words.txt", "--output", "tokenizer.json", "--vocab-size", "270")
        self.write("recipe.json", self.recipe({"data.train": [{"path": "chat.jsonl"}], "data.fine_tuning": {},
                                               "data.tokenizer": {"huggingface": "tokenizer.json"},
                                               "model.vocab_size": 272, "model.max_sequence_length": 256,
                                               "training.steps": 4, "log.directory": "runs/other"}))
        self.train()
        self.assertEqual(self.run_program("checkpoint", "export", "runs/other", "hf", "--to", "hf").returncode, 0)
        scratch = self.folder / "scratch"
        scratch.mkdir()
        elsewhere = {"TMPDIR": str(scratch)}
        self.write("lines.txt", "Hi\nHo\n")
        shown = []
        for source in ("runs/other", "hf:hf"):
            with open(self.folder / "lines.txt", encoding="utf-8") as file:
                shown.append(self.run_program("chat", source, *GREEDY, stdin=file, environment=elsewhere))
        self.assertEqual(shown[0].stdout, shown[1].stdout, shown[1].stderr)
        self.assertGreater(len(shown[0].stdout), 3)
        # The folder's own template; sample goes on with texts, as base models have templates, too.
        self.write("hf/chat_template.jinja", WITHOUT_SYSTEM)
        self.write("lines.txt", "Hi\n")
        with open(self.folder / "lines.txt", encoding="utf-8") as file:
            chatted = self.run_program("chat", "hf:hf", *GREEDY, stdin=file, environment=elsewhere).stdout
        sampled = self.run_program("sample", "hf:hf", "--prompt", "<Hi>", *GREEDY, environment=elsewhere).stdout
        self.assertEqual("<Hi>" + chatted, sampled)
        self.write("text.txt", "Hi. Hello. Ho.")
        evaluated = self.run_program("eval", "hf:hf", "--data", "text.txt", "--json", environment=elsewhere)
        self.assertGreater(json.loads(evaluated.stdout)["loss"], 0)
        self.assertEqual(list(scratch.iterdir()), [])
        self.refused(66, ["nowhere"], "sample", "hf:nowhere")

    def test_prompts_that_cannot_be_answered(self):
        self.write("prompts.jsonl", json.dumps({"messages": [{"role": "user"}]}) + "\n")
        self.write("no.jsonl", json.dumps({"messages": ["Hi"]}) + "\n")
        for code, reason, arguments in ((2, "--prompt: is missing", ()), (2, "--system: this model", ("--plain", "--system", "a")),
                                        (65, 'no string "content"', ("--prompts", "prompts.jsonl")),
                                        (65, 'has "messages"', ("--prompts", "prompts.jsonl", "--plain")),
                                        (65, 'line 1: "messages" must be a list', ("--prompts", "no.jsonl"))):
            shown = self.run_program("sample", "runs/small", *arguments)
            self.assertEqual((shown.returncode, shown.stdout), (code, ""), shown.stderr)
            self.assertIn(reason, shown.stderr)

    def test_each_answer_has_the_next_seed(self):
        flags = ("--temperature", "1", "--tokens", "5", "--seed")
        first = self.continued(written(("user", "Hi")), *flags, "7")
        second = self.continued(written(("user", "Hi"), ("assistant", first), ("user", "Ho")), *flags, "8")
        (checkpoint,) = (self.folder / "runs/small/checkpoints").glob("step-*")
        self.assertEqual(self.chat("Hi\nHo\n", checkpoint, flags=(*flags, "7")).stdout, f"{first}\n{second}\n")

    def test_no_tokens_are_empty_answers(self):
        self.assertEqual(self.chat("Hi\nHo\n", "runs/small", flags=("--tokens", "0")).stdout, "\n\n")

    def test_an_answer_ends_where_the_template_ends_one(self):
        """Bytes have no token that ends an answer."""
        self.train("--set", "training.steps=100", "--set", "training.learning_rate.peak=0.03", "--set",
                   "training.learning_rate.warmup_steps=5", "--set", "model.hidden_size=32", "--run-dir", "runs/learned")
        flags = ("--temperature", "0", "--tokens", "20")
        self.assertEqual(self.chat("Hi\n", "runs/learned", flags=flags).stdout, "Hello.\n")
        self.assertEqual(self.chat("Hi\n", "runs/learned", "--stop", "o", flags=flags).stdout, "Hell\n")

    def test_a_conversation_beyond_the_model_s_sequence_warns_once(self):
        shown = self.chat("a" * 200 + "\nHi\nHo\n/new\nHi\n" + "b" * 300, "runs/small")
        self.assertEqual(shown.returncode, 0)
        sizes = [f"has {len(text.encode())} tokens, of which the model sees the last 256" for text in
                 (written(("user", "a" * 200), ("assistant", self.answer(("user", "a" * 200))), ("user", "Hi")),
                  written(("user", "Hi"), ("assistant", self.answer(("user", "Hi"))), ("user", "b" * 300)))]
        warnings = shown.stderr.splitlines()
        self.assertEqual(len(warnings), 2, shown.stderr)
        for size, warning in zip(sizes, warnings, strict=True):
            self.assertIn(size, warning)

    def test_what_a_template_or_a_text_cannot_say(self):
        self.refused_line(b"\n\xc3\n", ["standard input: line 2 is not UTF-8"])
        self.write("lines.jinja", WITHOUT_SYSTEM)
        own = ("--set", 'data.fine_tuning.template={"file": "lines.jinja"}')
        self.refused_line("Hi\n", ["lines.jinja", "role system, which the chat template does not write"],
                          "--system", "Be kind.", *own)
        self.write("lines.jinja", "{{ raise_exception('never') }}")
        self.refused_line("Hi\n", ["lines.jinja: refuses the conversation", "never"], *own)
        self.write("lines.jinja", "{% if false %}{{ messages }}{% endif %}")
        self.refused_line("Hi\n", ["writes no token"], *own)
        self.refused(65, ["choose data.fine_tuning.template"], "chat", "runs/small", "--set",
                     "data.fine_tuning.template=auto")
        self.refused(2, ["/data/fine_tuning/template"], "chat", "runs/small", "--set",
                     "data.fine_tuning.template=vicuna")
        self.refused(66, ["none.jinja"], "chat", "runs/small", "--set",
                     'data.fine_tuning.template={"file": "none.jinja"}')

    def test_a_model_without_conversations_needs_a_template(self):
        self.write("plain.json", self.recipe({"name": "plain"}))
        self.assertEqual(self.run_program("run", "plain.json", "-q").returncode, 0)
        self.refused(2, ["/data/fine_tuning:", "data.fine_tuning.template=chatml"], "chat", "runs/plain")
        flags = ("--set", "data.fine_tuning.template=chatml")
        self.assertEqual(self.chat("Hi\n", "runs/plain", *flags).returncode, 0)
        self.assertEqual(self.chat("", "runs/plain", *flags).stdout, "")

    def at_terminal(self, **variables):
        master, terminal = pty.openpty()
        self.addCleanup(os.close, master)
        environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **SANITIZER_OPTIONS, **variables}
        process = subprocess.Popen([PROGRAM, "chat", "runs/small", *GREEDY], cwd=self.folder, env=environment,
                                   stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
        os.close(terminal)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = b""

        def read_until(text=None):
            nonlocal said
            while text is None or not said.decode("utf-8", "replace").endswith(text):
                try:
                    piece = os.read(master, 65536)
                except OSError:  # the other end is closed
                    break
                said += piece
            return said.decode("utf-8", "replace")

        return process, master, read_until

    def test_a_terminal_is_asked_for_messages(self):
        process, master, read_until = self.at_terminal()
        read_until("> ")
        os.write(master, b"\xc3\n")
        said = read_until("out\r\n> ")
        self.assertIn("line 1 is not UTF-8", said)
        os.write(master, b"Hi\n")
        answer = self.answer(("user", "Hi")).replace("\n", "\r\n")
        said += f"Hi\r\n{answer}\r\n> "
        self.assertEqual(read_until(f"{answer}\r\n> "), said)
        os.write(master, b"\x04")
        self.assertEqual(read_until(), said + "\r\n")
        self.assertEqual(process.wait(), 0)
        process, master, read_until = self.at_terminal()
        read_until("> ")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), -signal.SIGINT)

    def test_lines_are_edited_at_a_terminal(self):
        """Keys as in shells: xterm's arrow is ESC [ A or ESC O A, backspace takes a whole character."""
        process, master, read_until = self.at_terminal(TERM="xterm", HOME=str(self.folder))
        modes = termios.tcgetattr(master)
        first = self.answer(("user", "Hü"))
        second = self.answer(("user", "Hü"), ("assistant", first), ("user", "aHü"))
        third = self.answer(("user", "aHü"))
        read_until("> ")
        for keys, answer in (("Hüé\x7f\n", first), ("\x1b[A\x01a\n", second), ("/new\n", None), ("\x12aH\n", third)):
            os.write(master, keys.encode())
            read_until("/new\r\n> " if answer is None else "\r\n" + answer.replace("\n", "\r\n") + "\r\n> ")
        os.write(master, b"\x03")
        self.assertEqual(process.wait(), -signal.SIGINT)
        self.assertEqual(termios.tcgetattr(master), modes)
        process, master, read_until = self.at_terminal(TERM="xterm", HOME=str(self.folder))
        read_until("> ")
        os.write(master, b"\x04")
        read_until()
        self.assertEqual(process.wait(), 0)


if __name__ == "__main__":
    unittest.main()
