# SPDX-License-Identifier: Apache-2.0
"""Templates rendered by transformers and by jinja_tool, and random conversations to render."""
import copy
import datetime
import json
import re
import subprocess
from random import Random

import transformers.utils.chat_template_utils as chat_templates

NOW = 1750000000  # seconds; strftime_now is told that it is then
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


chat_templates.datetime = FixedTime


def expected(template, contexts):
    """For each context the text and the marked parts, or None where transformers refuses."""
    try:
        compiled = chat_templates._compile_jinja_template(template)
    except Exception:
        return [None] * len(contexts)
    results = []
    for context in contexts:
        # Jinja's filter indent adds to a list that it is given.
        context = copy.deepcopy({"messages": [], "tools": None, "documents": None, "add_generation_prompt": False} | context)
        try:
            results.append(chat_templates._render_with_assistant_indices(compiled, **context))
        except Exception:
            results.append(None)
    return results


def rendered(tool, groups, **options):
    """What jinja_tool answers to [(template, contexts)]: a list of answers for each."""
    lines = []
    for template, contexts in groups:
        lines.append(json.dumps({"template": template}))
        for context in contexts:
            context = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False, **context}
            lines.append(json.dumps({"context": context, "now": NOW, **options}))
    done = subprocess.run([tool], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"jinja_tool exited with {done.returncode}: {done.stderr[-2000:]}")
    answers = iter([json.loads(line) for line in done.stdout.splitlines()])
    return [[next(answers) for _ in contexts] for _, contexts in groups]


def differences(tool, groups, **options):
    """The cases in which the two differ, as (template, context, expected, answer), and how many were rendered."""
    found, texts = [], 0
    for (template, contexts), answers in zip(groups, rendered(tool, groups, **options)):
        for context, right, answer in zip(contexts, expected(template, contexts), answers):
            texts += right is not None
            if right is None:
                same = "error" in answer
            elif answer.get("error", "").endswith("has no such slice"):
                same = True  # Jinja refuses slices of numbers, too, but has undefined values for those of constants
            elif re.search(" at 0x", right[0], re.IGNORECASE):
                same = "text" in answer  # an object of Python's that prints its address
            else:
                same = answer.get("text") == right[0]
                if same and not answer["lost"]:
                    same = [tuple(span) for span in answer["generations"]] == right[1]
            if not same:
                found.append((template, context, right, answer))
    return found, texts


WORDS = ["hello", "Hello", "  world ", "Zürich", "naïve", "日本語", "🙂", "ß", "a\tb", "\n", "\n\n", "{{ x }}", "{% if %}",
         "<think>", "</think>", "don't", '"quoted"', "\\n", "<|im_end|>", "2 + 2", "É", "  ", "x_y", "[INST]", "\r\n", "ŉ"]


def text(random, most=6):
    return " ".join(random.choice(WORDS) for _ in range(random.randrange(most + 1)))


def value(random, depth=2):
    kind = random.randrange(8 if depth else 5)
    if kind == 0:
        return random.choice([None, True, False])
    if kind == 1:
        return random.choice([0, 1, -3, 10 ** 6, 2 ** 40])
    if kind == 2:
        return random.choice([0.5, 1.0, -2.25, 1e-7, 1e22, 3.14159])
    if kind < 5:
        return text(random, 3)
    if kind == 5:
        return [value(random, depth - 1) for _ in range(random.randrange(3))]
    return {random.choice(["city", "count", "ünit", "b", "a", "name"]): value(random, depth - 1)
            for _ in range(random.randrange(4))}


def parameter(random, depth=2):
    kind = random.choice(["string", "integer", "number", "array", "object", "boolean"] if depth else ["string"])
    spec = {"type": kind, "description": text(random, 3)}
    if kind == "array":
        spec["items"] = parameter(random, depth - 1)
    if kind == "object":
        spec["properties"] = {name: parameter(random, depth - 1) for name in ("b", "a")[:random.randrange(3)]}
        if random.random() < 0.5:
            spec["required"] = ["a"]
    if kind == "string" and random.random() < 0.4:
        spec["enum"] = ["celsius", "fahrenheit"]
    if kind == "integer" and random.random() < 0.5:
        spec["default"] = random.choice([None, 3])
    return spec


def tool(random):
    properties = {name: parameter(random) for name in random.sample(["city", "unit", "days", "options"], 2)}
    return {"type": "function", "function": {
        "name": random.choice(["get_weather", "search", "run"]), "description": text(random, 4),
        "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}}


def call(random):
    arguments = {name: value(random) for name in random.sample(["city", "unit", "days"], random.randrange(4))}
    return {"id": random.choice(["call_1", "abc123def", "x"]), "type": "function", "function": {
        "name": "get_weather", "arguments": arguments if random.random() < 0.8 else json.dumps(arguments)}}


def answer(random, with_calls):
    message = {"role": "assistant", "content": text(random)}
    if random.random() < 0.3:
        message["reasoning_content"] = text(random)
    elif random.random() < 0.2:
        message["content"] = "<think>\n" + text(random) + "\n</think>\n\n" + text(random)
    messages = [message]
    if with_calls and random.random() < 0.5:
        calls = [call(random) for _ in range(random.choice([1, 1, 2]))]
        messages.insert(0, {"role": "assistant", "content": random.choice([None, "", text(random)]), "tool_calls": calls})
        messages[1:1] = [{"role": "tool", "name": "get_weather", "tool_call_id": each["id"],
                          "content": random.choice([text(random), json.dumps(value(random))])} for each in calls]
    return messages


def conversation(random):
    """The variables of a rendering: mostly of the usual form, at times of another one."""
    tools = [tool(random) for _ in range(random.randrange(1, 3))] if random.random() < 0.5 else None
    messages = [{"role": "system", "content": text(random)}] if random.random() < 0.5 else []
    for _ in range(random.randrange(1, 4)):
        messages.append({"role": "user", "content": text(random)})
        messages += answer(random, tools)
    if random.random() < 0.3:
        messages.pop()
    if messages and random.random() < 0.15:
        odd = random.choice(messages)
        odd["content"] = random.choice([None, [{"type": "text", "text": text(random)}, {"type": "image"}], 5, {"a": 1}])
    if messages and random.random() < 0.08:
        random.choice(messages)["role"] = random.choice(["developer", "user", "assistant", "ipython"])
    if messages and random.random() < 0.04:
        random.choice(messages).pop("content")
    context = {"messages": messages, "tools": tools, "add_generation_prompt": random.random() < 0.5, **TOKENS}
    if random.random() < 0.2:
        context["enable_thinking"] = random.random() < 0.5
    return context
