# SPDX-License-Identifier: Apache-2.0
"""Random expressions, statements and broken templates in Jinja."""
from random import Random

NAMES = ["s", "t", "n", "f", "l", "d", "m", "u", "e", "b", "x.y", "l[0]", "d.a", "d['b']", "m[0].content", "nothing"]
LITERALS = ["1", "0", "-2", "7", "2.5", "1e3", "'a b'", '"it\'s"', "'é🙂ß'", "''", "true", "none", "[]", "[3, 1, 2]", "{}",
            "{'k': 1, 'a': [2]}", "(1, 'x')", "(1,)", "()", "['b', 'A', 'c']", "' x '", "'a-b_c d'", "0x1F", "1_000"]
CONTEXT = {"s": "Hello World", "t": "  two\nlines \n", "n": 5, "f": -1.75, "l": [3, "a", None, 2.0, [1, 2]], "d":
           {"a": 1, "b": {"c": "ü"}, "items": 2}, "m": [{"role": "user", "content": "hi"}, {"role": "assistant",
           "content": None}], "u": "ŉǆßΣΑΣ é🙂", "e": [], "b": True, "x": {"y": "A,b;C"}}
BINARY = ["+", "-", "*", "/", "//", "%", "~", "and", "or", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
METHODS = ["upper()", "lower()", "title()", "strip()", "split()", "split('l')", "split(None, 1)", "rsplit(' ', 1)",
           "strip('Hd ')", "lstrip()", "rstrip('\\n ')", "startswith('He')", "endswith(('d', 'x'))", "replace('l', 'L', 1)",
           "replace('', '-')", "find('o')", "rfind('o', 1)", "index('zz')", "count('l')", "capitalize()", "swapcase()",
           "center(15, '*')", "ljust(14)", "rjust(14, '.')", "zfill(8)", "isdigit()", "isalpha()", "isupper()", "isspace()",
           "istitle()", "isalnum()", "splitlines()", "splitlines(true)", "partition(' ')", "rpartition('o')",
           "join(['a', 'b'])", "removeprefix('He')", "removesuffix('ld')", "format(1, a=2)", "items()|list", "keys()|list",
           "values()|list", "get('a')", "get('zz', 7)", "index(3)", "count(2)", "copy()", "a", "zz", "append(1)",
           "pop()", "__class__", "_x", "0", "1"]
FILTERS = ["upper", "lower", "title", "trim", "trim('H')", "length", "count", "list", "first", "last", "join", "join(', ')",
           "sort", "sort(reverse=true)", "reverse|list", "unique|list", "sum", "max", "min", "int", "int(9)", "int(base=16)",
           "float", "round", "round(1)", "round(1, 'floor')", "round(-1)", "abs", "string", "tojson", "tojson(indent=2)",
           "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "default('dd')",
           "d('dd', true)", "replace('l', 'L')", "replace('a', 1, 1)", "capitalize", "indent", "indent(2, true)",
           "indent('> ', blank=true)", "wordcount", "truncate(5)", "truncate(7, true, '..', 0)", "center(20)",
           "batch(2)|list", "batch(2, 'x')|list", "slice(2)|list", "slice(3, 'x')|list", "map('upper')|list",
           "map('string')|join('/')", "map(attribute='content')|list", "map(attribute='role', default='?')|join",
           "select|list", "select('string')|list", "reject('none')|list", "select('>', 1)|list",
           "selectattr('role', 'equalto', 'user')|list", "rejectattr('content')|list", "groupby('role')", "items|list",
           "dictsort", "dictsort(by='value')", "attr('zz')", "format(1)", "format('q', 2)",
           "nosuch", "select('nosuch')|list", "map('nosuch')|list", "sort(attribute='role')|length", "list|tojson"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean",
         "true", "false", "odd", "even", "divisibleby(2)", "divisibleby 3", "equalto 5", "eq('a')", "ne 1", "gt 2", "lt 2",
         "in [1, 5]", "in 'Hello'", "upper", "lower", "callable", "not none", "not string", "sameas true", "escaped",
         "filter", "nosuch"]
FORMATS = ["'%s'", "'%d items'", "'%5.2f|'", "'%-6s|'", "'%05d'", "'%x'", "'%s %s'", "'%%'", "'%(a)s'", "'%r'", "'%c'",
           "'%+d'", "'%e'", "'%g'", "'%3s%'"]
BRACES = ["'{}'", "'{0}{0}'", "'{:>8}|'", "'{:*^9}|'", "'{:05d}'", "'{:.2f}'", "'{a}'", "'{!r}'", "'{{}}'", "'{:,}'", "'{0[a]}'",
          "'{:x}'", "'{:%}'", "'{", "'{:<{w}}|'"]


class Fuzz:
    def __init__(self, seed):
        self.random = Random(seed)

    def pick(self, choices):
        return self.random.choice(choices)

    def index(self):
        return self.pick(["0", "-1", "2", "1:", ":2", "::-1", "-3:", "1:3", "::2", "5:1:-2", "'a'", "'b'", "none", "true", "1.5",
                          ":", "10", "::0", "'x':"])

    def expression(self, depth=3):
        kind = self.random.randrange(14) if depth else self.random.randrange(2)
        inner = lambda: self.expression(depth - 1)
        if kind == 0:
            return self.pick(NAMES)
        if kind == 1:
            return self.pick(LITERALS)
        if kind in (2, 3):
            return f"({inner()} {self.pick(BINARY)} {inner()})"
        if kind in (4, 5, 6):
            return f"{inner()}|{self.pick(FILTERS)}"
        if kind == 7:
            return f"({inner()}).{self.pick(METHODS)}"
        if kind == 8:
            return f"({inner()})[{self.index()}]"
        if kind == 9:
            return f"({inner()} is {self.pick(TESTS)})"
        if kind == 10:
            return f"({inner()} if {inner()} else {inner()})" if self.random.random() < 0.8 else f"({inner()} if {inner()})"
        if kind == 11:
            return f"({self.pick(['not', '-', '+'])} {inner()})"
        if kind == 12:
            return f"{self.pick(FORMATS)} % {self.pick(['', '(', '('])}{inner()}".replace("% (", "% (") + \
                self.pick(["", ")", f", {inner()})"])
        return f"{self.pick(BRACES)}.format({inner()}, a={inner()}, w=7)" if self.random.random() < 0.6 else \
            f"[{inner()}, {inner()}, {{'k': {inner()}}}]"

    def gap(self):
        return self.pick(["", " ", "\n", "  \n  ", "\t", "x", " y\n"])

    def tag(self, code):
        return f"{{%{self.pick(['', '', '-', '+'])} {code} {self.pick(['', '', '-', '+'])}%}}{self.gap()}"

    def statements(self, depth=3):
        return self.gap().join(self.statement(depth) for _ in range(self.random.randrange(1, 4)))

    def loop(self, depth):
        kind = self.random.randrange(4)
        over = self.pick(["l", "m", "d", "d|items", "range(4)", "s", "e", "nothing", "[1, 1, 2]", self.expression(1)])
        target, condition = ("k, v", "") if kind == 0 else ("i", self.pick(["", "", " if i", " if i is string", " if loop"]))
        body = self.pick(["{{ loop.index }}/{{ loop.length }}", "{{ loop.first }}{{ loop.last }}", "{{ i }},", "{{ k }}={{ v }}",
                          "{{ loop.previtem }}{{ loop.nextitem }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.changed(i) }}",
                          "{{ loop.revindex0 }}{{ loop.depth }}", "{% if loop.index > 2 %}{% break %}{% endif %}.",
                          "{% if not i %}{% continue %}{% endif %}{{ i }}", "{% set c = i %}{{ c }}"])
        otherwise = self.tag("else") + "none" if self.random.random() < 0.3 else ""
        return self.tag(f"for {target} in {over}{condition}") + body + self.statements(depth - 1) + otherwise + \
            self.tag("endfor")

    def statement(self, depth):
        kind = self.random.randrange(11) if depth else self.random.randrange(3)
        if kind < 2:
            # What is added to a text that is marked safe is escaped; more than that is not done with one here.
            shown = self.expression(2) if self.random.random() < 0.9 else self.pick(
                ["(s|e) + '<b>'", "'<i>' + (t|safe)", "x.y|e", "(u|safe)|length", "'<&\"' ~ ('<&>\\''|forceescape)"])
            return f"{{{{{self.pick(['', '-'])} {shown} {self.pick(['', '-'])}}}}}" + self.gap()
        if kind == 2:
            return self.tag(f"set {self.pick(['c', 's', 'n', 'ns.v', 'a, b'])} = {self.expression(2)}") + "{{ c }}{{ s }}"
        if kind in (3, 4):
            return self.loop(depth)
        if kind == 5:
            return self.tag(f"if {self.expression(2)}") + self.statements(depth - 1) + \
                (self.tag(f"elif {self.expression(1)}") + self.gap() if self.random.random() < 0.3 else "") + \
                (self.tag("else") + self.statements(depth - 1) if self.random.random() < 0.5 else "") + self.tag("endif")
        if kind == 6:
            return self.tag(f"macro q(a, b={self.expression(1)})") + "{{ a }}{{ b }}{{ varargs }}{{ kwargs }}" + \
                self.statements(depth - 1) + self.tag("endmacro") + \
                self.pick(["{{ q(1) }}", "{{ q() }}", "{{ q(1, 2, 3) }}", "{{ q(b=s, z=1) }}", "{{ q(1)|length }}"])
        if kind == 7:
            return self.tag("set c") + self.statements(depth - 1) + self.tag("endset") + "{{ c|length }}"
        if kind == 8:
            return self.tag(f"filter {self.pick(['upper', 'trim', 'indent(2)', 'replace(1, 2)|length'])}") + \
                self.statements(depth - 1) + self.tag("endfilter")
        if kind == 9:
            return self.tag("with c = 5, i = s") + self.statements(depth - 1) + self.tag("endwith")
        return self.pick(["{# note -#}", "{%- raw %} {{ x }} {% endraw -%}", "{% generation %}" + self.statements(depth - 1) +
                          "{% endgeneration %}", "{% set ns = namespace(v=1) %}{% set ns.v = ns.v ~ n %}{{ ns.v }}{{ ns }}"])

    def template(self):
        return "{% set ns = namespace(v=0) %}" + self.statements()

    def broken(self, text):
        """The text with some of its pieces cut out, doubled or put elsewhere."""
        for _ in range(self.random.randrange(1, 4)):
            if not text:
                return "{%"
            begin = self.random.randrange(len(text))
            end = min(len(text), begin + self.random.randrange(1, 12))
            place = self.random.randrange(len(text))
            text = self.pick([text[:begin] + text[end:], text[:end] + text[begin:], text[:begin] + self.pick(
                ["{%", "%}", "{{", "}}", "|", "(", ")", "[", "'", "endif", ".", "-", "{#", "\\", "**", "is", ","]) + text[begin:],
                text[:place] + text[begin:end] + text[place:]])
        return text
