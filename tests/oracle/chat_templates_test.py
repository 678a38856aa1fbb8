# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning by a model's own chat template, compared with transformers: the tokens of apply_chat_template, which of
them are the assistant's, the losses of training on them, and what is exported: template, tokens that end a text, and
where generation stops."""
import gzip
import json
import tempfile
import unittest
from pathlib import Path
from random import Random

import fine_tuning_test as fine_tuning  # skips where a package is missing
import torch
import transformers

import program
from chat_template_shapes import MARKED, TOOLS
from variants import write_recipe

TURNS = ("{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.content | trim }}{{ eos_token }}"
         "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{% endif %}")
LENGTH = 256  # tokens, enough for the longest conversation with tools


def words(random):
    return " ".join(random.choice(fine_tuning.WORDS) for _ in range(random.randrange(2, 7)))


def plain_conversations():
    random = Random(1)
    return [{"messages": [{"role": role, "content": words(random)}
                          for _ in range(1 + index % 2) for role in ("user", "assistant")]} for index in range(13)]


def tool_conversations():
    random, lines = Random(2), []
    for index in range(13):
        messages = [{"role": "user", "content": words(random)},
                    {"role": "assistant", "content": words(random), "reasoning_content": words(random)}]
        if index % 3 == 0:
            call = {"function": {"name": "sky", "arguments": {"is": words(random)}}}
            messages[1:1] = [{"role": "assistant", "content": "", "tool_calls": [call]},
                             {"role": "tool", "content": words(random)}]
        lines.append({"messages": messages, **({"tools": TOOLS} if index % 3 == 0 else {})})
    return lines


class ChatTemplates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write_model(self, template, as_file):
        fine_tuning.write_tokenizer(self.folder)
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(self.folder / "tokenizer.json"), bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")
        self.tokenizer.chat_template = template
        fine_tuning.write_model(self.folder / "model", len(self.tokenizer), length=LENGTH)
        self.tokenizer.save_pretrained(self.folder / "model", save_jinja_files=as_file)
        (self.folder / "tokenizer.json").unlink()
        generation = {"bos_token_id": 1, "eos_token_id": [self.tokenizer.convert_tokens_to_ids("<|endoftext|>")]}
        (self.folder / "model" / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")

    def by_prefixes(self, line):
        def ids(messages, prompt):
            return self.tokenizer.apply_chat_template(messages, add_generation_prompt=prompt, return_dict=False)

        messages = line["messages"]
        whole = ids(messages, False)
        counts = [False] * len(whole)
        for index, message in enumerate(messages):
            if message["role"] == "assistant":
                begin, end = len(ids(messages[:index], True)), len(ids(messages[:index + 1], False))
                counts[begin:end] = [True] * (end - begin)
        return whole, counts

    def by_marks(self, line):
        made = self.tokenizer.apply_chat_template(line["messages"], tools=line.get("tools"), return_dict=True,
                                                  return_assistant_tokens_mask=True)
        return made["input_ids"], [bool(counts) for counts in made["assistant_masks"]]

    def check(self, documents, file):
        """Trains on the file here and on the documents in transformers, and exports."""
        self.assertLessEqual(max(len(ids) for ids, _ in documents), LENGTH + 1)
        recipe = {"model": {"from": "hf:model"}, "batch": {"global": 2, "micro": 2},
                  "data": {"train": [{"path": file}], "fine_tuning": {}, "shuffle": False},
                  "training": {"steps": 5, "learning_rate": {"peak": 2e-3, "warmup_steps": 4}},
                  "log": {"tensorboard": False}}
        rows = program.train(write_recipe(self.folder / "recipe.json", recipe), self.folder / "run")
        samples = fine_tuning.packed([len(ids) - 1 for ids, _ in documents], LENGTH)
        expected, _ = fine_tuning.train(self.folder / "model", recipe, documents, samples)
        for row, loss in zip(rows, expected, strict=True):
            self.assertAlmostEqual(row["loss"], loss, delta=1e-4)
        program.run("checkpoint", "export", self.folder / "run", self.folder / "out", "--to", "hf")

    def check_tokenizer(self):
        exported = transformers.AutoTokenizer.from_pretrained(self.folder / "out")
        self.assertEqual(exported.chat_template, self.tokenizer.chat_template)
        self.assertEqual(exported.special_tokens_map, self.tokenizer.special_tokens_map)

    def check_ends(self, end):
        """The exported model ends texts where this program does: at the end of an answer, and at what the model's own
        generation_config.json lists."""
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "out")
        ends = [self.tokenizer.convert_tokens_to_ids(token) for token in ("<|endoftext|>", "<|eot_id|>", end)]
        self.assertEqual(set(model.generation_config.eos_token_id), set(ends))
        ids = self.tokenizer("red sky", return_tensors="pt").input_ids
        with torch.no_grad():
            free = model.generate(ids, do_sample=False, max_new_tokens=9)[0, ids.shape[1]:].tolist()
        for stop in ([], [free[4]], [0, free[2], free[7]]):
            (self.folder / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": stop or None}),
                                                                          encoding="utf-8")
            shown = program.run("sample", self.folder / "run", "--plain", "--prompt", "red sky", "--temperature", 0,
                                "--tokens", 9, "--json")
            with torch.no_grad():
                expected = model.generate(ids, do_sample=False, max_new_tokens=9, eos_token_id=stop or ends)
            expected = expected[0, ids.shape[1]:].tolist()
            self.assertEqual(json.loads(shown)["tokens"], expected)

    def check_chat(self, system):
        """Three turns as transformers continues them: apply_chat_template and generate."""
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "out")
        messages, answers = [{"role": "system", "content": system}], []
        asked = ["the sky is", "Zürich ?", "red naïve code"]
        for question in asked:
            messages.append({"role": "user", "content": question})
            ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt",
                                                     return_dict=False)
            with torch.no_grad():
                new = model.generate(ids, do_sample=False, max_new_tokens=7)[0, ids.shape[1]:].tolist()
            if new[-1] in model.generation_config.eos_token_id:
                new.pop()
            answers.append(self.tokenizer.decode(new))
            messages.append({"role": "assistant", "content": answers[-1]})
        shown = program.run("chat", self.folder / "run", "--temperature", 0, "--tokens", 7, "--system", system,
                            lines="".join(question + "\n" for question in asked))
        self.assertEqual(shown, "".join(answer + "\n" for answer in answers))

    def test_a_text_in_tokenizer_config(self):
        """The answers are found by prefixes, and the file is ShareGPT's as a packed list."""
        self.write_model(TURNS, False)
        self.assertIn("chat_template", json.loads((self.folder / "model" / "tokenizer_config.json").read_text()))
        lines = plain_conversations()
        names = {"user": "human", "assistant": "gpt"}
        shared = [{"id": index, "conversations": [{"from": names[m["role"]], "value": m["content"]}
                                                  for m in line["messages"]]} for index, line in enumerate(lines)]
        with gzip.open(self.folder / "chat.json.gz", "wt", encoding="utf-8") as file:
            json.dump(shared, file, indent=1)
        self.check([self.by_prefixes(line) for line in lines], "chat.json.gz")
        self.check_tokenizer()
        self.check_chat("not code")
        self.check_ends("<|eot_id|>")

    def test_a_file_of_jinja_with_marks_and_tools(self):
        self.write_model(MARKED, True)
        self.assertEqual((self.folder / "model" / "chat_template.jinja").read_text(encoding="utf-8"), MARKED)
        lines = tool_conversations()
        (self.folder / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        self.check([self.by_marks(line) for line in lines], "chat.jsonl")
        self.check_tokenizer()
        self.check_chat("not code")
        self.check_ends("<|im_end|>")

    def test_a_list_of_templates_with_names(self):
        self.write_model({"default": TURNS, "tool_use": MARKED}, False)
        lines = tool_conversations()[::3] + plain_conversations()
        (self.folder / "chat.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        self.check([self.by_marks(line) if "tools" in line else self.by_prefixes(line) for line in lines],
                   "chat.ndjson")
        self.check_tokenizer()

    def test_a_base_model_gets_the_template_that_it_was_trained_with(self):
        """Alpaca's records as ChatML, with what transformers then writes."""
        self.write_model(None, True)
        lines = plain_conversations()
        records = [{"instruction": line["messages"][0]["content"], "output": line["messages"][1]["content"]}
                   for line in lines]
        (self.folder / "alpaca.json").write_text(json.dumps(records), encoding="utf-8")
        self.check([fine_tuning.labelled(self.tokenizer, "chatml", line["messages"][:2]) for line in lines],
                   "alpaca.json")
        exported = transformers.AutoTokenizer.from_pretrained(self.folder / "out")
        for line in lines:
            for prompt in (False, True):
                self.assertEqual(
                    exported.apply_chat_template(line["messages"], tokenize=False, add_generation_prompt=prompt),
                    self.tokenizer.apply_chat_template(line["messages"], tokenize=False, add_generation_prompt=prompt,
                                                       chat_template=fine_tuning.TEMPLATES["chatml"]))
        self.check_ends("<|im_end|>")


if __name__ == "__main__":
    unittest.main()
