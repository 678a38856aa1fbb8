# SPDX-License-Identifier: Apache-2.0
"""`llmtrain eval` of whole texts, compared with the rolling log-likelihood of lm-evaluation-harness.

Its definition, written here anew over transformers' logits in float64: HFLM.loglikelihood_rolling in
lm_eval/models/huggingface.py, get_rolling_token_windows and make_disjoint_window in lm_eval/utils.py, and the counts of
PerplexityTask in lm_eval/api/task.py, of lm_eval 0.4.13."""
import json
import math
import re
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import sentencepiece
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

import byte_level_bpe
import program

torch.set_num_threads(1)  # the models are tiny, so that threads would mostly wait for each other

LENGTH = 24
TEXTS = {
    "short": "a",
    "empty": "",
    "below a window": "The sky is\u2003blue.\n",
    "windows": "The quick brown fox jumps over the lazy dog, and the dog sleeps. \t\n" * 5,
    "languages": "Die Straße ist naß — über 3½ Meilen. 天空是藍色的，今天也是。 Небо голубое\u00a0и ясное. "
                 "السماء زرقاء. 하늘은 파랗다 🙂\n\n\u2028नीला आकाश",
}
SPECIAL = {"begin": "<|begin_of_text|>", "end": "<|endoftext|>"}
COMMON = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": LENGTH, "initializer_range": 0.2,
          "tie_word_embeddings": False}
# Special tokens by the names that transformers has for them; a BOS that is not EOS is put before every text.
TOKENIZERS = {
    "BOS before texts (Llama 3)": {"bos_token": SPECIAL["begin"], "eos_token": SPECIAL["end"]},
    "BOS that is EOS (GPT-2)": {"bos_token": SPECIAL["end"], "eos_token": SPECIAL["end"]},
    "EOS alone (Qwen2)": {"eos_token": SPECIAL["end"]},
    # A template with marks on both sides, as encoders and some decoders have it.
    "BOS and EOS around texts": {"bos_token": SPECIAL["begin"], "eos_token": SPECIAL["end"], "sep_token": SPECIAL["end"]},
}
# The share of a log-likelihood by which fp32, whose logits are rounded, may differ from float64.
TOLERANCE = 1e-6


def windows(tokens, prefix, length):
    """Pairs of inputs and of those tokens, at the inputs' end, that are predicted."""
    pairs = []
    for begin in range(0, len(tokens), length):
        predicted = tokens[begin:begin + length]
        end = begin + len(predicted)
        inputs = [prefix, *tokens][max(0, end - length):end]
        pairs.append((inputs, predicted))
    return pairs


def log_likelihood(model, tokenizer, text, length=LENGTH):
    """The log-likelihood of a text, and of how many tokens that is."""
    prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    tokens, total = tokenizer.encode(text), 0.0
    for inputs, predicted in windows(tokens, prefix, length):
        with torch.no_grad():
            scores = torch.log_softmax(model(torch.tensor([inputs])).logits[0], 1)[-len(predicted):]
        total += scores.gather(1, torch.tensor(predicted)[:, None]).sum().item()
    return total, len(tokens)


def write_tokenizer(folder, names):
    model = byte_level_bpe.train([TEXTS["windows"], TEXTS["languages"]], byte_level_bpe.LLAMA3, 320)
    model.add_special_tokens(list(SPECIAL.values()))
    if names.get("bos_token") == SPECIAL["begin"]:
        begin, end = SPECIAL["begin"], SPECIAL["end"] if "sep_token" in names else ""
        model.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{begin} $A {end}".strip(), pair=f"{begin} $A {begin} $B",
            special_tokens=[(token, model.token_to_id(token)) for token in SPECIAL.values()])
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=model, **names)
    made.save_pretrained(folder)
    return made


class RollingEvaluation(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        for name, text in TEXTS.items():
            (self.folder / f"{name}.jsonl").write_text(json.dumps({"text": text}) + "\n", encoding="utf-8")
        lines = [json.dumps({"text": text}) for text in TEXTS.values()]
        (self.folder / "all.jsonl").write_text("\n".join(lines), encoding="utf-8")

    def write(self, name, config, names):
        """The model in float64, and its tokenizer; imported into the folder of that name."""
        torch.manual_seed(7)
        folder = self.folder / name
        tokenizer = write_tokenizer(folder / "hf", names)
        model = transformers.AutoModelForCausalLM.from_config(config(vocab_size=len(tokenizer)), experts_implementation="eager")
        model.save_pretrained(folder / "hf")
        program.run("checkpoint", "import", folder / "hf", folder / "checkpoint", "--from", "hf")
        return model.double().eval(), tokenizer

    def evaluate(self, name, *arguments):
        return json.loads(program.run("eval", self.folder / name / "checkpoint", "--json", *arguments))

    def data(self, names=TEXTS):
        return [word for name in names for word in ("--data", self.folder / f"{name}.jsonl")]

    def check(self, found, expected, text):
        likelihood, tokens = expected
        self.assertEqual((found["tokens"], found["method"]), (tokens, "rolling"))
        self.assertEqual(found["words"], len(re.split(r"\s+", text)))
        self.assertEqual(found["bytes"], len(text.encode()))
        self.assertAlmostEqual(found["log_likelihood"], likelihood, delta=-TOLERANCE * likelihood)
        per_byte = -likelihood / found["bytes"] if found["bytes"] else math.nan
        self.check_figure(found["bits_per_byte"], per_byte / math.log(2))
        self.check_figure(found["byte_perplexity"], math.exp(per_byte))
        self.check_figure(found["loss"], -likelihood / tokens if tokens else math.nan)
        # Beyond what a double holds where words are long and the model knows nothing.
        per_word = -likelihood / found["words"]
        self.check_figure(found["word_perplexity"], math.exp(per_word) if tokens and per_word < 700 else math.nan)

    def check_figure(self, found, expected):
        """Null stands for what is no number. Perplexities are powers of what the tolerance is of."""
        if found is None or math.isnan(expected):
            self.assertTrue(found is None and math.isnan(expected), (found, expected))
        else:
            self.assertAlmostEqual(math.log(found), math.log(expected), delta=TOLERANCE * (1 + abs(math.log(expected))))

    def test_texts_of_tokenizers(self):
        config = lambda **keys: transformers.LlamaConfig(**COMMON, **keys)
        for name, names in TOKENIZERS.items():
            with self.subTest(name):
                model, tokenizer = self.write(name, config, names)
                found = self.evaluate(name, *self.data())["results"]
                for (kind, text), result in zip(TEXTS.items(), found, strict=True):
                    with self.subTest(kind):
                        self.check(result, log_likelihood(model, tokenizer, text), text)

    def test_layouts_batches_and_windows(self):
        """Experts have no capacity here, so that texts that are evaluated together do not matter to each other."""
        config = lambda **keys: transformers.MixtralConfig(**COMMON, **keys, num_local_experts=4, num_experts_per_tok=2)
        model, tokenizer = self.write("mixtral", config, TOKENIZERS["EOS alone (Qwen2)"])
        for window, options in ((LENGTH, ()), (LENGTH, ("--tensor", 2, "--pipeline", 2)),
                                (LENGTH, ("--set", "batch.micro=5", "--set", "batch.global=5")), (7, ("--window", 7)),
                                (LENGTH, ("--set", "model.moe.capacity_factor=0.5"))):
            with self.subTest(options):
                expected = [log_likelihood(model, tokenizer, text, window) for text in TEXTS.values()]
                together = self.evaluate("mixtral", *self.data(["all"]), *options)
                self.assertEqual((together["texts"], together["tokens"]), (5, sum(tokens for _, tokens in expected)))
                likelihood = sum(value for value, _ in expected)
                self.assertAlmostEqual(together["log_likelihood"], likelihood, delta=-TOLERANCE * likelihood)

    def test_bytes(self):
        """They have no mark: a text begins after a newline."""
        config = transformers.LlamaConfig(**COMMON, vocab_size=256)
        torch.manual_seed(3)
        model = transformers.LlamaForCausalLM(config)
        model.save_pretrained(self.folder / "bytes/hf")
        program.run("checkpoint", "import", self.folder / "bytes/hf", self.folder / "bytes/checkpoint", "--from", "hf")

        class Bytes:
            bos_token_id = ord("\n")

            def encode(self, text):
                return list(text.encode())

        found = self.evaluate("bytes", *self.data())["results"]
        for text, result in zip(TEXTS.values(), found, strict=True):
            self.check(result, log_likelihood(model.double().eval(), Bytes(), text), text)

    def test_sentencepiece(self):
        """Its BOS is no text that could stand before another one, and is put before each."""
        folder = self.folder / "sentencepiece/hf"
        folder.mkdir(parents=True)
        with (folder / "tokenizer.model").open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter([TEXTS["windows"], TEXTS["languages"]] * 3), model_writer=file, vocab_size=400,
                model_type="bpe", byte_fallback=True, minloglevel=2, normalization_rule_name="identity",
                remove_extra_whitespaces=False)
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

        class Pieces:
            bos_token_id = pieces.bos_id()

            def encode(self, text):
                return [pieces.bos_id(), *pieces.encode(text)]

        torch.manual_seed(5)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**COMMON, vocab_size=len(pieces)))
        model.save_pretrained(folder)
        program.run("checkpoint", "import", folder, self.folder / "sentencepiece/checkpoint", "--from", "hf")
        found = self.evaluate("sentencepiece", *self.data())["results"]
        for text, result in zip(TEXTS.values(), found, strict=True):
            self.check(result, log_likelihood(model.double().eval(), Pieces(), text), text)


if __name__ == "__main__":
    unittest.main()
