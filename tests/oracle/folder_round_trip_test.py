# SPDX-License-Identifier: Apache-2.0
"""Folders of transformers, trained for a few steps and exported: transformers and this program read the same of what
comes back as of what was given.

folder_round_trip_test.py [TEXTS [all]]: so many texts; all: each family with every byte-level tokenizer and
SentencePiece, instead of one each."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy
    import sentencepiece
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

import byte_level_bpe
import program
import tokenizer_kinds
from multilingual import multilingual_texts

torch.set_num_threads(1)  # the models are tiny, so that threads would mostly wait for each other

TEXTS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
ALL = sys.argv[2:] == ["all"]
LENGTH = 48
SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": LENGTH, "initializer_range": 0.3}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
FAMILIES = {
    "gpt2": lambda ids: transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH,
                                                initializer_range=0.3, **ids),
    "llama": lambda ids: transformers.LlamaConfig(**SHAPE, **ids),
    "mistral": lambda ids: transformers.MistralConfig(**SHAPE, **ids, sliding_window=9),
    "qwen2": lambda ids: transformers.Qwen2Config(**SHAPE, **ids),
    "qwen3": lambda ids: transformers.Qwen3Config(**SHAPE, **ids, head_dim=8),
    "mixtral": lambda ids: transformers.MixtralConfig(**SHAPE, **ids, num_local_experts=4, sliding_window=None),
    "qwen2-moe": lambda ids: transformers.Qwen2MoeConfig(**SHAPE, **EXPERTS, **ids,
                                                         shared_expert_intermediate_size=24),
    "qwen3-moe": lambda ids: transformers.Qwen3MoeConfig(**SHAPE, **EXPERTS, **ids, head_dim=8),
}
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
MESSAGES = [{"role": "user", "content": " Wie heißt das? "}, {"role": "assistant", "content": "天空"}]


def bpe(folder, pattern, bos=None, normalizer=None, **names):
    model = byte_level_bpe.train(multilingual_texts(300), pattern, 400)
    if normalizer:
        model.normalizer = normalizer
    model.add_special_tokens(["<|im_start|>", "<|im_end|>"] + ([bos] if bos else []))
    if bos:
        model.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, model.token_to_id(bos))])
        names["bos_token"] = bos
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<|endoftext|>", **names)
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)


def kind(folder, make, **names):
    # A piece that is written as a mark would be a second token of that name.
    texts = [text for text in multilingual_texts(300) if "s>" not in text]
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=make(texts), **names)
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)


def sentencepiece_folder(folder, template=TEMPLATE, algorithm="bpe", **options):
    """As Llama 2 has one: tokenizer.model and what AutoTokenizer must be told."""
    folder.mkdir(parents=True)
    with (folder / "tokenizer.model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(multilingual_texts(300)), model_writer=file, model_type=algorithm, byte_fallback=True,
            minloglevel=2, character_coverage=0.98, normalization_rule_name="identity",
            **{"vocab_size": 1600, "remove_extra_whitespaces": False, **options})
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "add_bos_token": True, "add_eos_token": False, "legacy": False,
        **({"chat_template": template} if template else {})}))


def plain_sentencepiece_folder(folder):
    """As Mistral published one: nothing beside the tokenizer.model; with pieces that the user defined."""
    sentencepiece_folder(folder, None, user_defined_symbols=["<|im_start|>", "sky", "天空"])
    (folder / "tokenizer_config.json").unlink()


TOKENIZERS = {
    "byte-level BPE with BOS (Llama 3)": lambda folder: bpe(folder, byte_level_bpe.LLAMA3, "<|begin_of_text|>"),
    "byte-level BPE with NFC (Qwen)": lambda folder: bpe(
        folder, byte_level_bpe.QWEN2, normalizer=tokenizers.normalizers.NFC(), pad_token="<|im_end|>"),
    "byte-level BPE (GPT-2)": lambda folder: bpe(folder, None, unk_token="<|endoftext|>"),
    "SentencePiece (Llama 2)": sentencepiece_folder,
    "SentencePiece alone (Mistral)": plain_sentencepiece_folder,
    "SentencePiece, unigram": lambda folder: sentencepiece_folder(
        folder, None, "unigram", remove_extra_whitespaces=True, vocab_size=1250),
    "BPE of characters and bytes (Mistral)": lambda folder: kind(
        folder, tokenizer_kinds.mistral, bos_token="<s>", eos_token="</s>", unk_token="<unk>"),
    "Unigram (XLM-R)": lambda folder: kind(
        folder, tokenizer_kinds.xlm_roberta, bos_token="<s>", eos_token="</s>", unk_token="<unk>"),
    "WordPiece (BERT)": lambda folder: kind(
        folder, tokenizer_kinds.bert, bos_token="[CLS]", eos_token="[SEP]", unk_token="[UNK]", pad_token="[PAD]"),
}


def encoder_of(folder):
    """The ids that a folder's tokenizer file says by itself: for some types of models AutoTokenizer replaces parts of it, as its
    normalizer by NFC for Qwen2."""
    if not (folder / "tokenizer.model").exists():
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        return lambda text: tokenizer.encode(text).ids
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    return lambda text: [model.bos_id(), *model.encode(text)]


def transformers_reads(family, index):
    """Whether AutoTokenizer gives texts the ids and marks of a tokenizer.model beside such a model: for Qwen2 it takes
    its class of byte-level BPE whatever a folder says, and of a tokenizer.model alone it makes GPT-2's or Qwen's."""
    return family != "qwen2" and (index != 4 or family in ("llama", "mistral", "mixtral"))


def pairs():
    """Families and the numbers of tokenizers."""
    for number, family in enumerate(FAMILIES):
        yield from ((family, index) for index in range(3) if ALL or index == number % 3)
        if ALL:
            yield from ((family, index) for index in (3, 4, 5) if transformers_reads(family, index))
    if not ALL:
        yield from (("llama", 3), ("mistral", 3), ("mixtral", 4), ("gpt2", 5))
    yield from (("mistral", 6), ("llama", 7), ("gpt2", 8))


def said(config):
    """What a generation_config.json says, without who wrote it."""
    return {key: value for key, value in config.to_dict().items()
            if key not in ("transformers_version", "_from_model_config")}


class FolderRoundTrip(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        cls.texts = multilingual_texts(TEXTS)
        lines = [json.dumps({"text": text}) for text in cls.texts]
        (cls.folder / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
        for index, write in enumerate(TOKENIZERS.values()):
            write(cls.folder / f"tokenizer-{index}")

    def test_families_and_tokenizers(self):
        for family, index in pairs():
            with self.subTest(family=family, tokenizer=index), tempfile.TemporaryDirectory(dir=self.folder) as place:
                self.check(family, self.folder / f"tokenizer-{index}", Path(place))

    def test_a_tokenizer_json_says_which_marks_stand_around_a_text(self):
        """transformers reads "add_bos_token" and "add_eos_token" only where there is none."""
        for index in (0, 2):
            for said in ({"add_bos_token": False, "add_eos_token": True}, {"add_bos_token": True}):
                with self.subTest(tokenizer=index, said=said), tempfile.TemporaryDirectory(dir=self.folder) as place:
                    for file in (self.folder / f"tokenizer-{index}").iterdir():
                        (Path(place) / file.name).write_bytes(file.read_bytes())
                    config = Path(place) / "tokenizer_config.json"
                    config.write_text(json.dumps({**json.loads(config.read_text()), **said}))
                    (Path(place) / "config.json").write_text('{"model_type": "llama"}')
                    theirs = transformers.AutoTokenizer.from_pretrained(place)
                    for text, ours in zip(self.texts, self.ids_here(Path(place) / "tokenizer.json"), strict=True):
                        self.assertEqual(ours, [*theirs(text)["input_ids"], theirs.eos_token_id], repr(text))

    def check(self, family, tokenizer_folder, place):
        given, run, out = place / "given", place / "run", place / "out"
        tokenizer = self.write_model(family, tokenizer_folder, given)
        recipe = {"model": {"from": "hf:given"}, "batch": {"global": 2, "micro": 2, "sequence_length": 32},
                  "training": {"steps": 2, "learning_rate": {"peak": 1e-2, "warmup_steps": 0}},
                  "data": {"train": [{"path": str(self.folder / "texts.jsonl")}]}, "cluster": {"device": "cpu"}}
        (place / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
        program.run("run", place / "recipe.json", "--run-dir", run, "-q")
        program.run("checkpoint", "export", run, out, "--to", "hf")
        exported = transformers.AutoTokenizer.from_pretrained(out)
        self.check_tokenizer(tokenizer, exported, out)
        model = transformers.AutoModelForCausalLM.from_pretrained(out, experts_implementation="eager").eval()
        original = transformers.AutoModelForCausalLM.from_pretrained(given)
        self.assertEqual(said(model.generation_config), said(original.generation_config))
        trained = next(model.parameters())
        self.assertFalse(torch.equal(trained, next(original.parameters())), "no step was taken")
        self.check_ends(model, exported, run)

    def write_model(self, family, tokenizer_folder, given):
        """A random model whose texts end at every fifth id, besides EOS."""
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder)
        torch.manual_seed(13)
        ids = {"vocab_size": len(tokenizer), "bos_token_id": tokenizer.bos_token_id,
               "eos_token_id": tokenizer.eos_token_id, "tie_word_embeddings": False}
        model = transformers.AutoModelForCausalLM.from_config(FAMILIES[family](ids))
        model.save_pretrained(given)
        for file in tokenizer_folder.iterdir():
            (given / file.name).write_bytes(file.read_bytes())
        ends = sorted({tokenizer.eos_token_id, *range(0, len(tokenizer), 5)})
        generation = {"eos_token_id": ends, "do_sample": False, "max_new_tokens": 20, "repetition_penalty": 1.0,
                      **({} if tokenizer.bos_token_id is None else {"bos_token_id": tokenizer.bos_token_id})}
        (given / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
        return transformers.AutoTokenizer.from_pretrained(given)

    def check_tokenizer(self, given, exported, out):
        encode = encoder_of(out)
        is_sentencepiece = (out / "tokenizer.model").exists()
        # AutoTokenizer makes another tokenizer of a tokenizer.model for each type of model: the file itself counts. Where
        # there is a template its marks are tokens, and a text that is written like one is, too.
        expected = encode if is_sentencepiece else lambda text: given(text)["input_ids"]
        for text in self.texts:
            if not (is_sentencepiece and given.chat_template and "s>" in text):
                self.assertEqual(exported(text)["input_ids"], expected(text), repr(text))
        self.assertEqual({**given.special_tokens_map, **exported.special_tokens_map}, exported.special_tokens_map)
        for prompt in (False, True) if given.chat_template else ():
            self.assertEqual(exported.apply_chat_template(MESSAGES, add_generation_prompt=prompt, tokenize=False),
                             given.apply_chat_template(MESSAGES, add_generation_prompt=prompt, tokenize=False))
        files = ["tokenizer.model"] if is_sentencepiece else ["tokenizer.json"]
        if is_sentencepiece and not given.chat_template:
            files.append("tokenizer.json")
        end = [] if self.puts_end(given) else [given.eos_token_id]
        for file in files:
            for text, ours in zip(self.texts, self.ids_here(out / file), strict=True):
                self.assertEqual(ours, encode(text) + end, f"{file}: {text!r}")

    def ids_here(self, tokenizer):
        """The ids that this program gives all texts: documents end with EOS, and empty ones are left out."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            program.run("data", "tokenize", self.folder / "texts.jsonl", "--tokenizer", tokenizer, "--output", Path(place, "ids"))
            index = Path(place, "ids.idx").read_bytes()
            lengths = numpy.frombuffer(index, numpy.int32, int.from_bytes(index[18:26], "little"), 34)
            ids = numpy.fromfile(Path(place, "ids.bin"), numpy.uint16)
        return [part.tolist() for part in numpy.split(ids, numpy.cumsum(lengths)[:-1])]

    def puts_end(self, tokenizer):
        """Whether its template ends a text, as for encoders; a prompt goes on without that mark."""
        return tokenizer("a")["input_ids"][-1] != tokenizer("a", add_special_tokens=False)["input_ids"][-1]

    def check_ends(self, model, tokenizer, run):
        """Without flags texts end where generate() ends them, and at the same tokens."""
        for prompt in ("the sky", "Небо"):
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            if self.puts_end(tokenizer):
                ids = ids[:, :-1]
            with torch.no_grad():
                expected = model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0)
            expected = expected[0, ids.shape[1]:].tolist()
            line = json.loads(program.run("sample", run, "--prompt", prompt, "--json"))
            has_ended = expected[-1] in model.generation_config.eos_token_id
            self.assertEqual(line["ended"], "end of text" if has_ended else "length")
            self.assertEqual(line["tokens"], expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
