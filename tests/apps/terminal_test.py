# SPDX-License-Identifier: Apache-2.0
"""What a person at a terminal sees of a run: lines that fit its width, and answers to Ctrl-C."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
import unittest

from program import PROGRAM, SANITIZER_OPTIONS, TrainingTest

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
REDRAW = "\r\x1b[K"


class Terminal(TrainingTest):
    def start(self, columns, *arguments, **variables):
        """Starts a run whose terminal has that many columns."""
        self.master, terminal = pty.openpty()
        self.addCleanup(os.close, self.master)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

        def attach():
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            # What started the tests may ignore it, as shells do in the background.
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "TERM": "xterm-256color",
                       **SANITIZER_OPTIONS, **variables}
        process = subprocess.Popen([PROGRAM, "run", "recipe.json", *arguments], cwd=self.folder, env=environment,
                                   stdin=terminal, stdout=terminal, stderr=terminal, preexec_fn=attach)
        os.close(terminal)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def read_until(self, text=None):
        """What the terminal got until `text`, or the end of the run."""
        said = b""
        while text is None or text not in said.decode("utf-8", "ignore"):
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            said += piece
        return said.decode()

    def drawn(self, columns, **variables):
        """The progress lines of a run: each as it stood before the next one replaced it."""
        process = self.start(columns, "--set", "training.steps=1000", "--set", "log.every=1000", "--set",
                             "log.tensorboard=false", "--run-dir", f"runs/{columns}", "--set", "launch.backend=local",
                             # So that also the fastest machine trains for several redraws, one every 100 ms.
                             "--set", "launch.layer_delay_microseconds=500", **variables)
        said = self.read_until()
        self.assertEqual(process.wait(), 0, said)
        # A line that was redrawn ends where the next one clears it.
        lines = [line for piece in said.split(REDRAW)[1:] for line in piece.split("\r\n")[:1]]
        lines = [line for line in lines if re.search(r"step +\d+/1000", line)]
        self.assertGreater(len(lines), 2, said)
        return lines

    def test_lines_fit_the_terminal(self):
        for columns, fields in ((80, ["tok/s"]), (120, ["lr", "MFU", "iB", "━"]), (160, ["lr", "MFU", "iB", "━"])):
            with self.subTest(columns=columns):
                for line in self.drawn(columns, **({} if columns == 80 else {"NO_COLOR": "1"})):
                    plain = COLOUR.sub("", line)
                    self.assertLess(len(plain), columns, plain)
                    self.assertLessEqual(len(re.findall("[━╌]", plain)), 24)
                    for field in ("step", "loss", "grad norm", *fields):
                        self.assertIn(field, plain.replace("╌", "━"))
                    if columns > 80:
                        self.assertEqual(line, plain, "colours in spite of NO_COLOR")
        for line in self.drawn(20):
            self.assertLess(len(COLOUR.sub("", line)), 20)

    def test_colours(self):
        self.assertIn("\x1b[36m━", self.drawn(160)[-1])

    def test_a_pipe_gets_plain_whole_lines(self):
        said = self.run_program("run", "recipe.json", environment={"TERM": "xterm-256color"}).stderr
        self.assertNotIn("\x1b", said)
        self.assertNotIn("\r", said)
        self.assertRegex(said, r"\nstep 1/2  loss .* MFU .* left\nstep 2/2  loss .* in ")

    def test_an_interrupt_stops_after_the_step(self):
        process = self.start(120, "--set", "training.steps=1000000")
        self.read_until("loss")
        os.write(self.master, b"\x03")
        said = self.read_until()
        self.assertEqual(process.wait(), 75, said)
        self.assertIn("stopping after this step; again to stop now", said)
        self.assertRegex(said, r"stopped on request after step \d+; run the same command again")

    def test_a_second_interrupt_stops_now(self):
        """A step of three seconds is not waited for. The run resumes from the checkpoint before it."""
        slow = ("--set", "training.steps=5", "--set", "batch.global=32", "--set", "batch.micro=1", "--set",
                "launch.backend=local", "--set", "launch.layer_delay_microseconds=30000")
        self.train("--set", "training.steps=2")
        process = self.start(120, *slow)
        self.read_until("step 3/5")  # the first of the slow steps has ended
        os.write(self.master, b"\x03")
        said = self.read_until("again to stop now")
        start = time.monotonic()
        os.write(self.master, b"\x03")
        said += self.read_until()
        self.assertEqual(process.wait(), -signal.SIGINT, said)
        self.assertLess(time.monotonic() - start, 2)
        self.assertIn("stopped at once; the newest checkpoint is step-00000002; run the same command again", said)


if __name__ == "__main__":
    unittest.main()
