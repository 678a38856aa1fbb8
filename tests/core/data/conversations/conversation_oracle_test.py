# SPDX-License-Identifier: Apache-2.0
"""Conversations by a model's own chat template, compared with transformers: the text of apply_chat_template to the byte,
which of it are the assistant's tokens, and what an export gives transformers to read.

conversation_oracle_test.py TOOL [CONVERSATIONS]"""
import gzip
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from random import Random

try:
    import tokenizers
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

from chat_template_shapes import MARKED, TOOLS

TOOL = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 200
SPECIAL = ["<s>", "</s>", "<|end|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>"]
# Templates in the shapes of public ones: turns with marks of their own, and one that wants turns to alternate and folds
# the system message in.
TURNS = ("{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|end|>\n{% endfor %}"
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
FOLDED = ("{%- if messages[0]['role'] == 'system' -%}{%- set system = messages[0]['content'] + '\n' -%}"
          "{%- set rest = messages[1:] -%}{%- else -%}{%- set system = '' -%}{%- set rest = messages -%}{%- endif -%}"
          "{{- bos_token }}{%- for m in rest %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
          "{{- raise_exception('roles must alternate') }}{%- endif %}{%- if m.role == 'user' %}"
          "{{- '[INST] ' + (system if loop.first else '') + m.content + ' [/INST]' }}{%- else %}"
          "{{- ' ' + m.content + eos_token }}{%- endif %}{%- endfor %}")
WORDS = ["red", "Zürich", "naïve", "2 + 2", "?", "天空", "code\n", " a", "🙂", "<b>", "\"x\""]


def words(random):
    return " ".join(random.choice(WORDS) for _ in range(random.randrange(0, 7)))


def plain(random):
    messages = [{"role": "system", "content": words(random)}] if random.random() < 0.3 else []
    for _ in range(random.randrange(1, 4)):
        messages += [{"role": "user", "content": words(random)}, {"role": "assistant", "content": words(random)}]
    return {"messages": messages[:len(messages) - (random.random() < 0.1)]}


def with_tools(random):
    call = {"type": "function", "function": {"name": "sky", "arguments": {"is": words(random), "n": 3}}}
    messages = [{"role": "user", "content": words(random)},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": words(random)},
                {"role": "assistant", "content": words(random), "reasoning_content": words(random)}]
    return {"messages": messages, "tools": TOOLS}


class Conversations(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "model"

    def write_model(self, template, as_file):
        tokenizer = tokenizers.ByteLevelBPETokenizer()
        tokenizer.train_from_iterator(WORDS, vocab_size=300, min_frequency=1)
        tokenizer.add_special_tokens(SPECIAL)
        tokenizer.save(str(self.folder / "tokenizer.json"))
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(self.folder / "tokenizer.json"), bos_token="<s>", eos_token="</s>")
        self.tokenizer.chat_template = template
        self.tokenizer.save_pretrained(self.model, save_jinja_files=as_file)
        config = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2,
                  "intermediate_size": 32, "vocab_size": len(self.tokenizer), "max_position_embeddings": 64}
        (self.model / "config.json").write_text(json.dumps(config), encoding="utf-8")
        generation = {"eos_token_id": [self.tokenizer.convert_tokens_to_ids("<|eot_id|>"), 5]}
        (self.model / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")

    def read(self, file, fine_tuning=None):
        recipe = {"model": {"from": f"hf:{self.model}"}, "batch": {"global": 1, "micro": 1}, "training": {"steps": 1},
                  "data": {"fine_tuning": fine_tuning or {}}}
        (self.folder / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
        (self.folder / "out").mkdir(exist_ok=True)
        made = subprocess.run([TOOL, self.folder / "recipe.json", self.folder / file, self.folder / "out"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        *records, last = map(json.loads, made.stdout.splitlines())
        return records, last

    def check(self, lines, records, spans_of):
        self.assertEqual(len(lines), len(records))
        refused = 0
        for line, record in zip(lines, records, strict=True):
            try:
                text = self.render(line["messages"], False, line.get("tools"))
            except Exception as error:  # whatever a template raises
                self.assertIn(str(error).rsplit(":", maxsplit=1)[-1], record["error"])
                refused += 1
                continue
            self.assertNotIn("error", record)
            self.assertEqual("".join(part for part, _ in record["parts"]), text)
            counted, begin = [], 0
            for part, counts in record["parts"]:
                if counts:
                    counted.append((begin, begin + len(part)))
                begin += len(part)
            self.assertEqual(counted, spans_of(line))
        self.assertLess(refused, len(lines) / 2)

    def render(self, messages, prompt, tools=None):
        return self.tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=prompt)

    def by_prefixes(self, line):
        """From the prompt to the answer up to the last character of the next text that is not white space."""
        spans, messages = [], line["messages"]
        for index, message in enumerate(messages):
            if message["role"] == "assistant":
                begin = len(self.render(messages[:index], True))
                spans.append((begin, len(self.render(messages[:index + 1], False).rstrip())))
        return [span for span in spans if span[1] > span[0]]

    def by_marks(self, line):
        """Where transformers finds tokens of the assistant's."""
        made = self.tokenizer.apply_chat_template(line["messages"], tools=line.get("tools"), return_dict=True,
                                                  return_assistant_tokens_mask=True,
                                                  tokenizer_kwargs={"return_offsets_mapping": True})
        spans = []
        for (begin, end), counts in zip(made["offset_mapping"], made["assistant_masks"], strict=True):
            if counts and spans and spans[-1][1] >= begin:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            elif counts:
                spans.append((begin, end))
        return spans

    def check_export(self):
        exported = transformers.AutoTokenizer.from_pretrained(self.folder / "out")
        self.assertEqual(exported.chat_template, self.tokenizer.chat_template)
        self.assertEqual(exported.special_tokens_map, self.tokenizer.special_tokens_map)

    def ids(self, *tokens):
        return sorted(self.tokenizer.convert_tokens_to_ids(token) for token in tokens)

    def test_turns_in_tokenizer_config_and_a_packed_list_of_sharegpt(self):
        self.write_model(TURNS, False)
        random = Random(1)
        lines = [plain(random) for _ in range(COUNT)]
        names = {"system": "system", "user": "human", "assistant": "gpt"}
        shared = [{"id": 1, "conversations": [{"from": names[m["role"]], "value": m["content"]}
                                              for m in line["messages"]]} for line in lines]
        with gzip.open(self.folder / "chat.json.gz", "wt", encoding="utf-8") as file:
            json.dump(shared, file, indent=1, ensure_ascii=False)
        records, last = self.read("chat.json.gz")
        self.check(lines, records, self.by_prefixes)
        self.check_export()
        self.assertEqual(last["answer"].rstrip(), "<|end|>")
        self.assertEqual(sorted(last["ends"]), sorted([5, *self.ids("</s>", "<|eot_id|>", "<|end|>")]))

    def test_a_file_of_jinja_that_refuses_some(self):
        self.write_model(FOLDED, True)
        random = Random(2)
        lines = [plain(random) for _ in range(COUNT)]
        for line in lines[::5]:
            line["messages"].insert(1, {"role": "user", "content": "again"})
        (self.folder / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        records, last = self.read("chat.jsonl")
        self.check(lines, records, self.by_prefixes)
        self.assertIn("chat.jsonl: line 1 is refused by the chat template", records[0]["error"])
        self.check_export()
        self.assertEqual(last["answer"], "</s>")

    def test_named_templates_with_marks_and_tools(self):
        for as_file in (False, True):
            with self.subTest(as_file):
                self.write_model({"default": TURNS, "tool_use": MARKED}, as_file)
                random = Random(3)
                lines = [with_tools(random) if index % 2 else plain(random) for index in range(COUNT)]
                (self.folder / "a.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines),
                                                      encoding="utf-8")
                records, _ = self.read("a.ndjson")
                self.check(lines, records, lambda line: (self.by_marks if "tools" in line else self.by_prefixes)(line))
                self.check_export()

    def test_named_template_of_a_base_model_is_exported(self):
        """As ChatML writes messages, which is what transformers then writes."""
        self.write_model(None, True)
        random = Random(4)
        lines = [plain(random) for _ in range(20)]
        (self.folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        records, last = self.read("a.jsonl")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder / "out")
        self.check(lines, records, self.by_marks)
        self.assertEqual((last["answer"], sorted(last["ends"])),
                         ("<|im_end|>", sorted([5, *self.ids("</s>", "<|eot_id|>", "<|im_end|>")])))
        prompt = self.tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False,
                                                    add_generation_prompt=True)
        self.assertEqual(prompt, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")
