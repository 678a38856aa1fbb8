# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning from a Hugging Face folder, compared with transformers: its model, tokenizer and chat templates, and
PyTorch's AdamW on one document at a time; of experts the first step's losses and gradients with autograd's in float64."""
import json
import sys
import tempfile
import unittest
from pathlib import Path
from random import Random

try:
    import tokenizers
    import torch
    import transformers
    from torch.nn import functional
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

import checkpoint_folder
import program
from oracle_train import learning_rate, make_optimizer
from reference_model import ReferenceModel
from variants import write_recipe

torch.set_num_threads(1)  # the models are tiny, so that threads would mostly wait for each other

# From tokenizer_config.json of Qwen2 (without its default system prompt) and of
# Meta-Llama-3-8B-Instruct.
TEMPLATES = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
              "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
              "{% endif %}",
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
              "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
              "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
              "{% endif %}",
}
END = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>"}
SPECIAL = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>",
           "<|endoftext|>"]
WORDS = ["red", "blue", "green", "seven", "Zürich", "sky", "is", "not", "a", "the", "of", "2 + 2", "?", "naïve", "code"]
LENGTH, STEPS = 96, 20
# Models that are said to have learned 32 tokens, in which the pairs of a head turn from 5 times to hardly at all.
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 2.5},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 3.0,
               "original_max_position_embeddings": 32},
    "yarn": {"rope_type": "yarn", "factor": 3.0, "beta_fast": 4.0, "beta_slow": 0.25,
             "original_max_position_embeddings": 32},
    "yarn, not truncated": {"rope_type": "yarn", "factor": 3.0, "truncate": False, "attention_factor": 1.3,
                            "original_max_position_embeddings": 32},
}


def conversations(count):
    random = Random(3)

    def text():
        return " ".join(random.choice(WORDS) for _ in range(random.randrange(2, 9)))

    lines = []
    for index in range(count):
        messages = [{"role": "system", "content": text()}] if index % 3 == 0 else []
        for _ in range(1 + index % 2):
            messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
        lines.append({"messages": messages})
    return lines


def write_tokenizer(folder):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([" ".join(WORDS)] * 4, vocab_size=280, min_frequency=2)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"),
                                                bos_token="<|begin_of_text|>")


def write_model(folder, vocabulary, scaling=None, length=LENGTH):
    torch.manual_seed(5)
    config = transformers.LlamaConfig(vocab_size=vocabulary, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=length,
                                      initializer_range=0.1, tie_word_embeddings=False,
                                      rope_parameters={"rope_theta": 5000.0, **(scaling or {"rope_type": "default"})})
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def labelled(tokenizer, template, messages):
    """The ids of a conversation, and whether each is an answer's: what follows the prompt up to the answer's end."""
    def ids(part, prompt):
        return tokenizer.apply_chat_template(part, chat_template=TEMPLATES[template], add_generation_prompt=prompt,
                                             return_dict=False)

    whole, counts = ids(messages, False), [False] * len(ids(messages, False))
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            begin = len(ids(messages[:index], True))
            end = begin + len(tokenizer.encode(message["content"] + END[template], add_special_tokens=False))
            counts[begin:end] = [True] * (end - begin)
    return whole[:LENGTH + 1], counts[:LENGTH + 1]


def packed(lengths, most=LENGTH):
    """Best-fit decreasing, by trying every sequence."""
    sequences = []
    for document in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        fitting = [entry for entry in sequences if sum(lengths[i] for i in entry) + lengths[document] <= most]
        if fitting:
            max(fitting, key=lambda entry: sum(lengths[i] for i in entry)).append(document)
        else:
            sequences.append([document])
    return sorted(sorted(entry) for entry in sequences)


def train(folder, recipe, documents, samples, changes=None):
    """The losses of transformers' model, and the model; `samples` are lists of documents. `changes` are to its
    config.json."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = transformers.LlamaConfig.from_dict({**config, **(changes or {})})
    model = transformers.LlamaForCausalLM.from_pretrained(folder, config=config)
    optimizer = make_optimizer(model, recipe)
    size, losses = recipe["batch"]["global"], []
    for step in range(recipe["training"]["steps"]):
        chosen = [index for k in range(size) for index in samples[(step * size + k) % len(samples)]]
        counted = sum(sum(documents[index][1][1:]) for index in chosen)
        optimizer.zero_grad()
        total = 0.0
        for index in chosen:
            ids, counts = (torch.tensor(part) for part in documents[index])
            logits = model(ids[None, :-1]).logits[0]
            loss = functional.cross_entropy(logits[counts[1:]], ids[1:][counts[1:]], reduction="sum") / counted
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        optimizer.step()
        losses.append(total)
    return losses, model


class FineTuning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.tokenizer = write_tokenizer(cls.folder)
        write_model(cls.folder / "model", len(cls.tokenizer))
        cls.lines = conversations(21)
        (cls.folder / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in cls.lines), encoding="utf-8")

    def check(self, template, packing, size, model="model", steps=STEPS, keys=None, changes=None):
        """Trains both, and returns transformers' model and the name of the run; `keys` of `model` and `changes` to
        config.json say the same."""
        recipe = {"model": {"from": f"hf:{model}", **(keys or {})}, "batch": {"global": size, "micro": 2},
                  "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "train": [{"path": "chat.jsonl"}],
                           "fine_tuning": {"template": template, "packing": packing}, "shuffle": False},
                  "training": {"steps": steps, "learning_rate": {"peak": 2e-3, "warmup_steps": 4}},
                  "log": {"tensorboard": False}}
        name = f"{model}-{template}-{packing}"
        rows = program.train(write_recipe(self.folder / f"{name}.json", recipe), self.folder / name)
        documents = [labelled(self.tokenizer, template, line["messages"]) for line in self.lines]
        lengths = [len(ids) - 1 if packing else LENGTH for ids, _ in documents]
        expected, trained = train(self.folder / model, recipe, documents, packed(lengths), changes)
        self.assertLess(expected[-1], expected[0] - steps / 20)
        for row, loss in zip(rows, expected, strict=True):
            self.assertAlmostEqual(row["loss"], loss, delta=1e-4)
        return trained, name

    def test_chatml_packed(self):
        self.check("chatml", True, 2)

    def test_llama3(self):
        self.check("llama3", False, 4)

    def test_longer_context(self):
        """Weights that were trained with 32 tokens go on with 96, as in transformers with a changed config.json."""
        write_model(self.folder / "short", len(self.tokenizer), length=32)
        keys = {"max_sequence_length": LENGTH, "rope_theta": 20000, "rope_scaling": {"type": "yarn", "factor": 3}}
        scaling = {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 32, "rope_theta": 20000.0}
        _, run = self.check("chatml", True, 2, "short", 5, keys,
                            {"max_position_embeddings": LENGTH, "rope_parameters": scaling})
        shown = (self.folder / run / "log" / "rank-00000.log").read_text(encoding="utf-8")
        for words in ("short, with other positions:", "model.max_sequence_length: 32 -> 96\n",
                      "model.rope_theta: 5000.0 -> 20000.0", 'model.rope_scaling.type: null -> "yarn"'):
            self.assertIn(words, shown)

    def test_scaled_positions(self):
        """Imported, trained and exported again: the logits are those of the model that transformers trained."""
        ids = torch.tensor([labelled(self.tokenizer, "chatml", self.lines[9]["messages"])[0][:LENGTH]])
        for index, scaling in enumerate(SCALINGS.values()):
            with self.subTest(scaling):
                write_model(self.folder / f"scaled-{index}", len(self.tokenizer), scaling)
                trained, run = self.check("chatml", True, 2, f"scaled-{index}", 5)
                program.run("checkpoint", "export", self.folder / run, self.folder / f"out-{index}", "--to", "hf")
                ours = transformers.AutoModelForCausalLM.from_pretrained(self.folder / f"out-{index}")
                with torch.no_grad():
                    difference = (ours(ids).logits - trained(ids).logits).abs().max().item()
                self.assertLess(difference, 1e-3)


# Prompts and completions of 8 to 17 bytes, of which no two are alike.
DOCUMENTS = [(text[:3 + index % 4], text[3 + index % 4:]) for index, text in enumerate(
    "".join(chr(97 + (k * k + 5 * index) % 26) for k in range(length + 1))
    for index, length in enumerate((14, 16, 12, 15, 10, 7, 11, 8)))]
ROWS = 24  # of a sequence, padding among them
TWO = {"launch.ranks": 2}


class Experts(unittest.TestCase):
    """Routers learn from all rows, whatever counts in the loss of the tokens."""

    def check(self, losses, layouts):
        experts = {"experts": 4, "top_k": 2, "ffn_hidden_size": 48, "capacity_factor": 0, "z_coefficient": 0.3,
                   **losses}
        model = {"architecture": "llama", "layers": 3, "hidden_size": 32, "heads": 4, "kv_heads": 2, "vocab_size": 256,
                 "ffn_hidden_size": 48, "max_sequence_length": ROWS, "moe": experts}
        recipe = {"model": model, "batch": {"global": 8, "micro": 8},
                  "data": {"train": [{"path": "chat.jsonl"}], "fine_tuning": {"packing": False}, "shuffle": False},
                  "training": {"steps": 1, "init_from": "weights"}, "launch": {"backend": "local"},
                  "log": {"tensorboard": False}}
        reference = ReferenceModel(model)
        reference.randomize(3)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            checkpoint_folder.write(folder / "weights", {key: value.detach() for key, value
                                                         in reference.named_parameters()}, recipe)
            (folder / "chat.jsonl").write_text("".join(json.dumps({"prompt": prompt, "completion": completion}) + "\n"
                                                       for prompt, completion in DOCUMENTS), encoding="utf-8")
            rows = [program.train(write_recipe(folder / f"{index}.json", recipe), folder / str(index), layout)[0]
                    for index, layout in enumerate(layouts)]
        loss, norm = self.by_autograd(reference.double())
        for row, layout in zip(rows, layouts, strict=True):
            self.assertAlmostEqual(row["loss"] / loss, 1, delta=1e-6, msg=str(layout))
            self.assertAlmostEqual(row["grad_norm"] / norm, 1, delta=1e-5, msg=str(layout))

    def by_autograd(self, model):
        """The loss of the tokens that count, and the norm of the gradients of all losses."""
        ids, targets = torch.zeros(8, ROWS, dtype=torch.long), torch.full((8, ROWS), -1)
        for index, (prompt, completion) in enumerate(DOCUMENTS):
            text = torch.tensor(list((prompt + completion).encode()))
            ids[index, :len(text) - 1] = text[:-1]
            targets[index, len(prompt) - 1:len(text) - 1] = text[len(prompt):]
        loss = functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), ignore_index=-1)
        (loss + model.router_loss()).backward()
        return loss.item(), torch.nn.utils.get_total_norm([each.grad for each in model.parameters()]).item()

    def test_losses_of_a_micro_batch_as_a_whole(self):
        """Ranks that share a micro-batch agree on its balance."""
        self.check({"balance_coefficient": 0.5}, [{}, {**TWO, "parallel.tensor": 2}, {**TWO, "parallel.context": 2}])

    def test_losses_that_are_means_over_rows(self):
        """The z-loss of a batch is that of its parts."""
        self.check({"balance_loss": "none"}, [{}, {"batch.micro": 1}, {**TWO, "parallel.tensor": 2},
                                              {**TWO, "parallel.expert": 2, "batch.micro": 2},
                                              {**TWO, "parallel.zero_stage": 3, "batch.micro": 1}])


if __name__ == "__main__":
    unittest.main()
