# SPDX-License-Identifier: Apache-2.0
"""Embeddings that `llmtrain serve` answers are the pooled last_hidden_state of transformers' models."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import openai
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tokenizer_kinds

torch.set_num_threads(1)  # the models are tiny, so that threads would mostly wait for each other

TEXTS = ["The quick brown fox jumps over the lazy dog.", "sky", "Grüezi, 12 skies and a sea of sand", "a b c d " * 7]
# Lengths on both sides of the sixteen rows to which passes are padded, and the model's longest.
IDS = [[7 + i % 5 for i in range(length)] for length in (1, 15, 16, 17, 33, 60)]
SHAPE = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}


def bert(**shape):
    return transformers.BertForMaskedLM(transformers.BertConfig(max_position_embeddings=60, **shape))


def llama(**shape):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        max_position_embeddings=60, num_key_value_heads=2, tie_word_embeddings=True, **shape))


def bert_alone(**shape):
    return bert(**shape).bert


def roberta_shape(shape):
    return {"type_vocab_size": 1, "max_position_embeddings": 62, "pad_token_id": 1, **shape}


def roberta_alone(**shape):
    return transformers.RobertaModel(transformers.RobertaConfig(tie_word_embeddings=False, **roberta_shape(shape)))


def xlm_roberta_alone(**shape):
    return transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**roberta_shape(shape)))


MODELS = {"bert": bert, "llama": llama, "bert alone": bert_alone,
          "roberta alone": roberta_alone, "xlm-roberta alone": xlm_roberta_alone}
POOLINGS = {"bert": ["mean"], "llama": ["last", "mean"]}
# What sentence-transformers writes to 1_Pooling/config.json, before and since 5.4, and the modules behind it.
WAYS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
FOLDERS = {"bert alone": ("cls_token", ["Normalize"], "class"), "roberta alone": ({"pooling_mode": "cls"}, [], "class"),
           "xlm-roberta alone": ("lasttoken", [], "last")}


class Embeddings(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def save(self, name):
        """A folder of a tiny random model, whose tokenizer puts marks around texts."""
        tokenizer = tokenizer_kinds.bert(TEXTS * 20)
        tokenizer.save(str(self.folder / "tokenizer.json"))
        torch.manual_seed(3)
        self.model = MODELS[name](vocab_size=tokenizer.get_vocab_size(), **SHAPE).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.uniform_(-0.4, 0.4)  # also biases and norms, so that mixing them up is detected
        self.model.save_pretrained(self.folder)
        self.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(self.folder / "tokenizer.json"),
                                                              pad_token="[PAD]")

    def add_modules(self, pooling, further):
        """What sentence-transformers writes beside the model: `pooling` is one way, several, or the file's content."""
        ways = pooling.split() if isinstance(pooling, str) else []
        config = pooling if isinstance(pooling, dict) else {f"pooling_mode_{way}": way in ways for way in WAYS}
        (self.folder / "1_Pooling").mkdir(exist_ok=True)
        (self.folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 24, **config}))
        modules = [("", "Transformer"), ("1_Pooling", "Pooling"), *((f"2_{name}", name) for name in further)]
        (self.folder / "modules.json").write_text(json.dumps(
            [{"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
             for place, (path, name) in enumerate(modules)]))

    def refused(self, code, message, *command):
        done = subprocess.run([os.environ["LLMTRAIN_PROGRAM"], *command], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr, message)

    def start(self, *flags):
        command = [os.environ["LLMTRAIN_PROGRAM"], "serve", f"hf:{self.folder}", "--port", "0", "--name", "m", *flags]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        for line in process.stderr:
            if line.startswith("serving "):
                address = line.split(" at ")[1].split(": ")[0]
                self.client = openai.OpenAI(base_url=address, api_key="none", max_retries=0)
                return process
        self.fail("no server")

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)

    def asked(self, texts, **fields):
        answer = self.client.embeddings.create(model="m", input=texts, **fields)
        self.assertEqual([one.index for one in answer.data], list(range(len(answer.data))))
        self.usage = answer.usage
        return [one.embedding for one in answer.data]

    def theirs(self, ids, pooling):
        """All texts in one batch, padded to the longest, in float64."""
        longest = max(map(len, ids))
        padded = torch.tensor([own + [1] * (longest - len(own)) for own in ids])
        mask = torch.tensor([[1] * len(own) + [0] * (longest - len(own)) for own in ids])
        with torch.no_grad():
            hidden = self.model.double().base_model(input_ids=padded, attention_mask=mask).last_hidden_state
        if pooling == "mean":
            pooled = (hidden * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
        elif pooling == "class":
            pooled = hidden[:, 0]
        else:
            pooled = hidden[torch.arange(len(ids)), mask.sum(1) - 1]
        return torch.nn.functional.normalize(pooled, dim=1)

    def assert_theirs(self, ours, ids, pooling):
        ours = torch.tensor(ours, dtype=torch.float64)
        self.assertEqual(ours.shape, (len(ids), SHAPE["hidden_size"]))
        self.assertLess((ours - self.theirs(ids, pooling)).abs().max().item(), 1e-5)

    def check_vectors(self, pooling):
        ids = [self.tokenizer(text)["input_ids"] for text in TEXTS]
        self.assert_theirs(self.asked(TEXTS), ids, pooling)
        self.assertEqual((self.usage.prompt_tokens, self.usage.total_tokens), (sum(map(len, ids)),) * 2)
        self.assert_theirs(self.asked(IDS), IDS, pooling)
        self.assert_theirs(self.asked(IDS[3]), IDS[3:4], pooling)

    def check_company(self):
        """What is beside a text changes no bit of its vector; also in numbers, where the client asks for base64 itself."""
        together = self.asked(IDS)
        self.assertEqual([torch.tensor(self.asked(own, encoding_format="float")[0]).tolist() for own in IDS], together)
        self.assertEqual(self.asked(IDS[::-1] + [IDS[0]]), together[::-1] + [together[0]])

    def check_dimensions(self):
        """Fewer of them have length 1 again."""
        cut = torch.nn.functional.normalize(torch.tensor(self.asked(TEXTS))[:, :5], dim=1)
        self.assertLess((torch.tensor(self.asked(TEXTS, dimensions=5)) - cut).abs().max().item(), 1e-6)

    def test_they_are_those_of_transformers(self):
        for name, poolings in POOLINGS.items():
            self.save(name)
            for place, pooling in enumerate(poolings):
                with self.subTest(name, pooling=pooling):
                    # The first is the default.
                    self.start(*([] if place == 0 else ["--pooling", pooling]))
                    self.check_vectors(pooling)
                    if place == 0:
                        self.check_company()
                        self.check_dimensions()

    def test_a_folder_of_sentence_transformers_says_how_it_pools(self):
        for name, (pooling, further, kind) in FOLDERS.items():
            with self.subTest(name):
                self.save(name)
                self.add_modules(pooling, further)
                self.start()
                self.check_vectors(kind)
        self.start("--pooling", "class")
        self.check_vectors("class")

    def test_other_ways_and_modules_are_refused_by_name(self):
        self.save("bert alone")
        for pooling, further, message in (
                ("max_tokens", [], "1_Pooling/config.json: pools texts by \"max\"; one of.*--pooling"),
                ("cls_token mean_tokens", [], "by \"cls\" and \"mean\""),
                ({"pooling_mode": ["mean", "max"]}, [], "by \"mean\" and \"max\""),
                ({"pooling_mode": 3}, [], "by \"3\""),
                ("mean_tokens", ["Dense"], "modules.json: has the module \"Dense\"")):
            with self.subTest(pooling=pooling, further=further):
                self.add_modules(pooling, further)
                self.refused(65, message, "serve", f"hf:{self.folder}", "--port", "0")
        for path in ("../1_Pooling", "", None):
            self.add_modules("mean_tokens", [])
            text = (self.folder / "modules.json").read_text().replace('"1_Pooling"', json.dumps(path))
            (self.folder / "modules.json").write_text(text)
            self.refused(65, "modules.json: /path: is", "serve", f"hf:{self.folder}", "--port", "0")
        # Whoever predicts tokens needs the head.
        self.refused(65, "the head that predicts tokens is missing", "checkpoint", "import", str(self.folder),
                     f"{self.folder}/made", "--from", "hf")

    def test_an_encoder_only_embeds(self):
        self.save("bert")
        self.start()
        for ask in (lambda: self.client.completions.create(model="m", prompt="sky"),
                    lambda: self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])):
            with self.assertRaisesRegex(openai.BadRequestError, "is an encoder, which writes no text"):
                ask()
        with self.assertRaisesRegex(openai.BadRequestError, "61 tokens.*60 at most"):
            self.asked([[7], [7] * 61])
        self.assertEqual(self.client.models.list().data[0].max_model_len, 60)


if __name__ == "__main__":
    unittest.main()
