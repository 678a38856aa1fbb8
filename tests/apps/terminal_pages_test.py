# SPDX-License-Identifier: Apache-2.0
"""What commands print on terminals of several widths, into a pipe and with NO_COLOR: no line is wider than the
terminal, and columns stay aligned."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from program import PROGRAM, SANITIZER_OPTIONS, SOURCE, ProgramTest, small

SANITIZED = bool(os.environ.get("LLMTRAIN_SANITIZE"))
# Under a sanitizer other widths take long and see no other code.
WIDTHS = (80,) if SANITIZED else (80, 120, 160)
PIPED = 100
GPT3 = str(SOURCE / "recipes" / "papers" / "gpt3-175b.json")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SWEEP = ("--set", "parallel.data=auto", "--sweep", "parallel.tensor=4,8", "--sweep", "batch.micro=1,2,5")

COMMANDS = {
    "plan": ("plan", GPT3),
    "plan that does not fit": ("plan", GPT3, "--set", "memory.recompute=none"),
    "plan --search": ("plan", "experts.json", "--search", "--output", "best.json"),
    "plan --sweep": ("plan", GPT3, *SWEEP),
    "plan --target": ("plan", GPT3, "--target", "40d", "--price", "2.5 EUR"),
    "plan of two": ("plan", GPT3, "other.json"),
    "recipes": ("recipes",),
    "help": ("--help",),
    "run --help": ("run", "--help"),
    "plan --help": ("plan", "--help"),
    "new --help": ("new", "--help"),
    "train-tokenizer --help": ("data", "train-tokenizer", "--help"),
    "new": ("new", "--model", "quickstart", "--data", "text.txt", "--machine", "a100-40gb", "--output", "new.json"),
    "support": ("support",),
    "doctor": ("doctor",),
    "compare": ("compare", "runs/first", "runs/second", "runs/the third one", "runs/fourth"),
}
# Each takes half a minute there, and other tests run it.
LONG = {"plan --search", "support"} if SANITIZED else set()


def cells_of(head):
    """Where the words of a table's head begin and end; two spaces are between columns."""
    return [match.span() for match in re.finditer(r"\S+(?: \S+)*", head)]


class Pages(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", "text " * 100)
        other = json.loads((SOURCE / "recipes" / "papers" / "gpt3-175b.json").read_text())
        other["parallel"].update({"tensor": 4, "data": 16})
        other["memory"] = {"recompute": "selective"}
        self.write("other.json", other)
        cluster = {"profile": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
        model = {"model.layers": 4, "model.heads": 4, "model.moe": {"experts": 8}, "batch.global": 64,
                 "parallel": {"data": "auto"}, "precision": {"compute": "bf16"}}
        self.write("experts.json", small(model, cluster=cluster))
        for index, name in enumerate(("first", "second", "the third one", "fourth")):
            self.write(f"runs/{name}/recipe.json", small({"seed": index}))
            self.write(f"runs/{name}/metrics.jsonl", "".join(json.dumps(
                {"step": step, "tokens": 100 * step, "loss": 5 / step, "learning_rate": 0.1, "grad_norm": 1.0,
                 "step_seconds": 0.1, "tokens_per_second": 1000.0, "mfu": 0.3, "memory_bytes": 1 << 30,
                 "tensor_bytes": 1 << 29}) + "\n" for step in range(1, 9)))

    def printed(self, arguments, columns=None, **variables):
        """Standard output of a command: on a terminal with that many columns, or into a pipe."""
        (self.folder / "new.json").unlink(missing_ok=True)
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **SANITIZER_OPTIONS, **variables}
        if columns is None:
            result = self.run_program(*arguments, environment=environment)
            self.assertIn(result.returncode, (0, 1), result.stderr)
            return result.stdout
        master, terminal = pty.openpty()
        self.addCleanup(os.close, master)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=terminal, stderr=subprocess.PIPE)
        os.close(terminal)
        said = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            said += piece
        error = process.communicate()[1]
        self.assertIn(process.returncode, (0, 1), error)
        return said.decode().replace("\r\n", "\n")

    def assert_fits(self, text, columns):
        self.assertGreater(len(text.splitlines()), 3)
        for line in text.splitlines():
            self.assertLessEqual(len(ESCAPE.sub("", line)), columns, line)
            self.assertEqual(line, line.rstrip(), "spaces at its end")

    def test_no_line_is_wider_than_the_terminal(self):
        for name, arguments in COMMANDS.items():
            for columns in () if name in LONG else WIDTHS:
                with self.subTest(name, columns=columns):
                    self.assert_fits(self.printed(arguments, columns), columns)

    def test_a_pipe_is_a_page_without_colours(self):
        for name in COMMANDS.keys() - LONG:
            with self.subTest(name):
                text = self.printed(COMMANDS[name])
                self.assert_fits(text, PIPED)
                self.assertNotIn("\x1b", text)

    def test_no_color(self):
        for name in {"plan", "plan --search", "plan --sweep", "plan of two", "recipes", "compare"} - LONG:
            with self.subTest(name):
                coloured = self.printed(COMMANDS[name], 120)
                plain = self.printed(COMMANDS[name], 120, NO_COLOR="1")
                self.assertIn("\x1b[1m", coloured)
                self.assertEqual(plain, ESCAPE.sub("", coloured))

    def rows_of(self, name, columns, first="step"):
        """The rows below a table's head, which begins with `first`: of each row and the head the same lines."""
        lines = self.printed(COMMANDS[name], columns, NO_COLOR="1").splitlines()
        start = next(index for index, line in enumerate(lines) if line.lstrip(" *").startswith(first))
        table = lines[start:lines.index("", start)]
        # Where columns did not fit, each row goes on in lines that are indented, and so does the head.
        height = 1 + (table[1].startswith("    ") and table[1].strip()[0].isalpha())
        return [table[index:index + height] for index in range(0, len(table), height)]

    def assert_aligned(self, rows, left):
        """Every cell ends where its head does, or begins there where it is one of `left`."""
        for part, head in enumerate(rows[0]):
            for begin, end in cells_of(head):
                for row in rows[1:]:
                    line = row[part].ljust(end + 1)
                    if head[begin:end] in left:
                        self.assertTrue(line[begin] != " " and line[begin - 1:begin] in ("", " "), "\n".join(row))
                    else:
                        self.assertTrue(line[end - 1] != " " and line[end] == " ", "\n".join([*rows[0], *row]))

    def test_columns_are_aligned(self):
        for columns in (*WIDTHS, None):
            with self.subTest(columns=columns):
                if "plan --search" not in LONG:
                    found = self.rows_of("plan --search", columns)
                    self.assert_aligned(found, {"schedule × loops", "recompute", "FP8"})
                planned = [row for row in self.rows_of("plan --sweep", columns, "tensor") if "refused" not in row[0]]
                self.assert_aligned(planned, {})
                self.assert_aligned(self.rows_of("plan --target", columns, "devices"), {})

    @unittest.skipIf(SANITIZED, "a search takes long under a sanitizer")
    def test_values_stand_below_their_heads(self):
        front = json.loads(self.run_program(*COMMANDS["plan --search"], "--json").stdout)["front"]
        rows = self.rows_of("plan --search", 160)
        for head, section in (("tensor", "parallel"), ("pipeline", "parallel"), ("data", "parallel"), ("micro", "batch")):
            end = re.search(head + r"\S*", rows[0][0]).end()
            self.assertEqual([row[0][:end].split()[-1] for row in rows[1:]],
                             [str(entry["recipe"][section][head]) for entry in front], head)

    def test_recipes_are_aligned(self):
        """Also those of 128 experts; a description that finds no room is below its recipe."""
        for columns in (*WIDTHS, None):
            with self.subTest(columns=columns):
                lines = self.printed(("recipes",), columns, NO_COLOR="1").splitlines()
                rows = [[line] for line in lines[:lines.index("")] if not line.startswith("    ")]
                self.assertIn("128 experts", "".join(row[0] for row in rows))
                self.assert_aligned(rows, {"recipe", "model"})
                self.assertEqual(len(rows) - 1, len(json.loads(self.run_program("recipes", "--json").stdout)))

    def test_texts_begin_in_one_column(self):
        for name, column in (("doctor", 26), ("new", 45), ("run --help", 30)):
            for columns in WIDTHS:
                with self.subTest(name, columns=columns):
                    text = self.printed(COMMANDS[name], columns)
                    continued = [line for line in text.splitlines() if line.startswith(" " * 20)]
                    for line in continued:
                        self.assertEqual(len(line) - len(line.lstrip()), column, line)

    def test_examples_that_are_too_long_go_on_as_shells_take_it(self):
        text = self.printed(("new", "--help"), 80)
        self.assertRegex(text, r"\n  llmtrain new --model llama3-8b .* \\\n      \S.*\n$")


if __name__ == "__main__":
    unittest.main()
