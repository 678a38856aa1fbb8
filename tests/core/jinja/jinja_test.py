# SPDX-License-Identifier: Apache-2.0
"""Templates rendered as transformers' apply_chat_template renders them, byte by byte, or refused where it refuses them.

jinja_test.py TOOL [CONVERSATIONS [FUZZED]]: of each template, and fuzzed templates in all."""
import sys
import unittest
from random import Random

try:
    import jinja_oracle as oracle
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

from jinja_fuzz import CONTEXT, Fuzz
from plain_templates import PLAIN
from tool_templates import TOOLS

TOOL = sys.argv[1]
CONVERSATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
FUZZED = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
TEMPLATES = PLAIN | TOOLS


class JinjaTest(unittest.TestCase):
    def check_same(self, groups, least, **options):
        """At least the share `least` has a text to compare; the others are refused by both."""
        found, texts = oracle.differences(TOOL, groups, **options)
        for template, context, right, answer in found[:5]:
            print(f"--- {template!r}\n    {context}\n    transformers: {right}\n    here: {answer}")
        self.assertEqual(len(found), 0, f"{len(found)} differ")
        count = sum(len(contexts) for _, contexts in groups)
        print(f"{count} renderings, {texts} of them texts")
        self.assertGreater(texts, least * count)

    def test_templates(self):
        self.assertGreaterEqual(len(set(TEMPLATES.values())), 60)
        groups = []
        for name, template in TEMPLATES.items():
            random = Random(name)
            groups.append((template, [oracle.conversation(random) for _ in range(CONVERSATIONS)]))
        self.check_same(groups, 0.6)

    def test_every_template_writes_texts(self):
        for name, template in TEMPLATES.items():
            random = Random("texts of " + name)
            results = oracle.expected(template, [oracle.conversation(random) for _ in range(40)])
            self.assertTrue(any(result and len(result[0]) > 20 for result in results), name)

    def test_fuzzed_expressions(self):
        fuzz = Fuzz(1)
        self.check_same([("{{ " + fuzz.expression() + " }}", [CONTEXT]) for _ in range(FUZZED)], 0.2)

    def test_fuzzed_statements(self):
        fuzz = Fuzz(2)
        self.check_same([(fuzz.template(), [CONTEXT]) for _ in range(FUZZED // 2)], 0.1)

    def test_broken_templates_are_refused_alike(self):
        fuzz = Fuzz(3)
        texts = list(TEMPLATES.values())
        random = Random(4)
        groups = [(fuzz.broken(random.choice(texts)), [oracle.conversation(random)]) for _ in range(FUZZED // 4)]
        groups += [(fuzz.broken(fuzz.template()), [CONTEXT]) for _ in range(FUZZED // 4)]
        self.check_same(groups, 0.05)

    def test_limits_and_lines(self):
        cases = {
            "\n{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": (2, "calls itself too often"),
            "{% for i in range(99999) %}{% for j in range(99999) %}\n.{% endfor %}{% endfor %}": (2, "too many steps"),
            "a\nb\n{{ 'a' * 300000000 }}": (3, "256 MiB"),
            "{% set ns = namespace(x='a' * 99999) %}{% for i in range(9999) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}":
                (1, "too many steps"),
            "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}": (1, "nested too deeply"),
            "{{ 1" + " + 1" * 5000 + " }}": (1, "nested too deeply"),
            "{{ " + "not " * 5000 + "1 }}": (1, "nested too deeply"),
            "{% if 1 %}" * 5000 + "{% endif %}" * 5000: (1, "nested too deeply"),
            "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}":
                (1, "nested too deeply"),
            "{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}{% set ns.x = ns.x|map('abs') %}{% endfor %}":
                (1, "nested too deeply"),
            "{% set ns = namespace() %}{% set ns.x = [ns] %}\n{{ ns }}": (2, "namespaces are nested too deeply"),
            "{{ 9223372036854775807 + 1 }}": (1, "beyond 64 bits"),
            "\n\n{{ raise_exception('No ' ~ 1) }}": (3, "No 1"),
            "{{ a }}\n{{ a.b }}": (2, "'a' is undefined"),
            "{% if a %}\n\n{% endfor %}": (3, "unknown tag 'endfor'"),
            "{% include 'x' %}": (1, "'include' is not supported"),
            "{% for i in [1] %}\n{{ i|nosuch }}{% endfor %}": (2, "No filter named 'nosuch'"),
            "{{ x }}\n{{ strftime_now(5) }}": (2, "takes a text"),
        }
        for (template, (line, words)), answers in zip(cases.items(), oracle.rendered(
                TOOL, [(template, [{}]) for template in cases], steps=2_000_000)):
            with self.subTest(template[:80]):
                self.assertIn(words, answers[0]["error"])
                self.assertEqual(line, answers[0]["line"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")  # Python's of the code that Jinja makes
