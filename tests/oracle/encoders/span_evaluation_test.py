# SPDX-License-Identifier: Apache-2.0
"""The figures of a trained model's answers are those that transformers' model, tokenizer and published steps for SQuAD
come to with what the program exports."""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import program
import squad
import tokenizer_kinds

LENGTH, OVERLAP, LONGEST = 32, 8, 5
TEXTS = ["The Rhône rises in the Alps (in 1895), flows to the sea and is 813 km long.",
         "Émile measured it with a rod; Ada, the author, wrote about an engine in 1843!",
         "A café by the lake opened in May. Its owner's name was Ben-Jonson, they say."]


def rows():
    """Questions for places in texts that are one or two of these, also where they have no answer."""
    made = []
    for first, text in enumerate(TEXTS):
        for second in (None, *TEXTS):
            context = text if second is None else f"{text} {second}"
            words = [word for word in text.split() if context.count(word) == 1]
            for number, word in enumerate(words[:6]):
                answers = {"text": [], "answer_start": []} if number == 5 else {
                    "text": [word, word.strip("().,;!")], "answer_start": [
                        context.index(word), context.index(word.strip("().,;!"))]}
                made.append({"question": f" what is {first} {number}", "context": context, "answers": answers})
    return made


class SpanEvaluation(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write_recipe(self, vocabulary):
        source = [{"path": str(self.folder / "rows.jsonl")}]
        recipe = {
            "model": {"architecture": "bert", "layers": 2, "hidden_size": 64, "heads": 2, "dropout": 0,
                      "max_sequence_length": LENGTH, "vocab_size": vocabulary, "init_std": 0.1},
            "data": {"tokenizer": {"huggingface": str(self.folder / "tokenizer.json")}, "train": source,
                     "validation": source, "spans": {"question_length": 10, "overlap": OVERLAP,
                                                     "answer_length": LONGEST, "unanswerable": True}},
            "batch": {"global": 8, "micro": 8, "sequence_length": LENGTH},
            "training": {"steps": 120, "evaluate_every": 120, "learning_rate": {"peak": 0.005}},
            "cluster": {"device": "cpu"}}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))

    def answers(self, tokenizer, may_be_none):
        """What transformers' model tells of each row."""
        model = transformers.AutoModelForQuestionAnswering.from_pretrained(self.folder / "hf").eval()
        for row in rows():
            encoded = tokenizer(row["question"].lstrip(), row["context"], truncation="only_second", max_length=LENGTH,
                                stride=OVERLAP, return_overflowing_tokens=True, return_offsets_mapping=True)
            features = []
            for i, offsets in enumerate(encoded["offset_mapping"]):
                with torch.no_grad():
                    output = model(**{key: torch.tensor([encoded[key][i]]) for key in ("input_ids", "token_type_ids")})
                within = [place if part == 1 else None for place, part in zip(offsets, encoded.sequence_ids(i))]
                features.append((output.start_logits[0].tolist(), output.end_logits[0].tolist(), within))
            yield row, squad.told_answer(row["context"], features, LONGEST, may_be_none), len(features)

    def test_figures_are_those_of_transformers(self):
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        trained = tokenizer_kinds.bert([*TEXTS * 4, "what is 0 1 2 3 4 5"])
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained, pad_token="[PAD]")
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        tokenizer.save_pretrained(self.folder)
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
        self.write_recipe(len(tokenizer))
        run = self.folder / "run"
        program.train(self.folder / "recipe.json", run)
        program.run("checkpoint", "export", run, self.folder / "hf", "--to", "hf")
        for may_be_none in (True, False):
            with self.subTest(may_be_none):
                told = [each for each in self.answers(tokenizer, may_be_none) if may_be_none or each[0]["answers"]["text"]]
                self.assertGreater(max(windows for _, _, windows in told), 1)
                scores = [squad.raw_scores(answer, row["answers"]["text"]) for row, answer, _ in told]
                exact, f1 = (sum(column) / len(scores) for column in zip(*scores))
                self.assertGreater(f1, 0)
                data = self.folder / "told.jsonl"
                data.write_text("".join(json.dumps(row) + "\n" for row, _, _ in told))
                figures = json.loads(program.run("eval", run, "--data", data, "--json", "--set",
                                                 f"data.spans.unanswerable={json.dumps(may_be_none)}"))["figures"]
                self.assertAlmostEqual(figures["exact_match"], exact, 9)
                self.assertAlmostEqual(figures["f1"], f1, 9)


if __name__ == "__main__":
    unittest.main()
