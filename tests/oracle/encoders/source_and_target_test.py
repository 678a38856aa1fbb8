# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders compute and learn what transformers' BartForConditionalGeneration and T5ForConditionalGeneration do,
where sources and targets are ragged, share sequences, or leave rows to padding."""
import functools
import itertools
import os
import subprocess
import sys
import unittest

try:
    import safetensors.torch
    import torch
    import transformers
    from transformers.models.t5 import modeling_t5
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

from encoder_models import EncoderTest

torch.set_num_threads(1)

SOURCE, TARGET, VOCABULARY = 14, 12, 41
START, PADDING = 2, 1
# By sample, the lengths of its sources and of their targets; padding is a document of its own, in both or in neither.
# A decoder of T5 has other buckets than an encoder for keys that lie 9 tokens before their query or further.
DOCUMENTS = [([14], [12]), ([11], [8]), ([7, 4], [5, 3]), ([3], [7])]
BART = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "vocab_size": VOCABULARY,
        "max_position_embeddings": 16, "dropout": 0.0, "attention_dropout": 0.0, "pad_token_id": PADDING,
        "decoder_start_token_id": START}
T5 = {"d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
      "vocab_size": VOCABULARY, "dropout_rate": 0.0, "pad_token_id": PADDING, "decoder_start_token_id": START}
CONFIGS = {
    "bart": lambda: transformers.BartConfig(**BART),
    "bart, tanh": lambda: transformers.BartConfig(**BART | {"activation_function": "gelu_new"}),
    "t5": lambda: transformers.T5Config(**T5),
    "t5 1.1": lambda: transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
}
ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "output"}
BART_PARTS = {f"{theirs}.{part}": f"{ours}.{ATTENTION[part[0]]}"
              for theirs, ours in (("self_attn", "attention"), ("encoder_attn", "cross_attention"))
              for part in ("q_proj", "k_proj", "v_proj", "out_proj")} | {
    "self_attn_layer_norm": "attention_norm", "encoder_attn_layer_norm": "cross_attention_norm", "fc1": "ffn.up",
    "fc2": "ffn.down", "final_layer_norm": "ffn_norm", "embed_positions": "embedding.position",
    "layernorm_embedding": "embedding.norm"}
T5_PARTS = {f"{theirs}.{part}": f"{ours}.{name}" for theirs, ours in (("SelfAttention", "attention"),
                                                                     ("EncDecAttention", "cross_attention"))
            for part, name in ATTENTION.items()} | {
    "SelfAttention.relative_attention_bias": "relative_bias", "DenseReluDense.wi": "ffn.up",
    "DenseReluDense.wi_0": "ffn.gate", "DenseReluDense.wi_1": "ffn.up", "DenseReluDense.wo": "ffn.down"}
ENDS = {"shared": "encoder.embedding.token", "lm_head": "head.head", "encoder.final_layer_norm": "encoder.norm.norm",
        "decoder.final_layer_norm": "head.norm"}


def our_name(name):
    part, kind = name.removeprefix("model.").rsplit(".", 1)
    if part in ENDS:
        return f"{ENDS[part]}.{kind}"
    side, *words = part.split(".")
    if words[0] == "layers":
        return f"{side}.layers.{words[1]}.{BART_PARTS['.'.join(words[2:])]}.{kind}"
    if words[0] != "block":
        return f"{side}.{BART_PARTS[words[0]]}.{kind}"
    norms = ["attention_norm", "ffn_norm"] if side == "encoder" else ["attention_norm", "cross_attention_norm",
                                                                       "ffn_norm"]
    ours = norms[int(words[3])] if words[4] == "layer_norm" else T5_PARTS[".".join(words[4:])]
    return f"{side}.layers.{words[1]}.{ours}.{kind}"


def with_exact_norms(model):
    """T5's norms take their statistics in fp32: in float64 others of the same formula stand in for them."""
    for part in model.modules():
        if isinstance(part, modeling_t5.T5LayerNorm):
            part.forward = functools.partial(torch.nn.functional.rms_norm, normalized_shape=part.weight.shape,
                                             weight=part.weight, eps=part.variance_epsilon)
    return model


def model_of(name):
    torch.manual_seed(5)
    config = CONFIGS[name]()
    model = getattr(transformers, {"bart": "BartForConditionalGeneration",
                                   "t5": "T5ForConditionalGeneration"}[config.model_type])(config)
    if name == "t5 1.1":
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.uniform_(-0.4, 0.4)  # also biases and norms, so that mixing them up is detected
            # Norms after the sums of a residual stream scale what is below them at each layer: weights around 0 would
            # leave gradients there that are mostly rounding errors, of which AdamW makes steps.
            if config.model_type == "bart" and "norm" in key and key.endswith("weight"):
                parameter += 1
    return model.eval()


def ours_of(tensors):
    """Tensors of transformers' names under ours, in our shapes."""
    ours = {our_name(name): tensor for name, tensor in tensors}
    return {name: tensor[2:] if name.endswith("embedding.position.weight") else tensor for name, tensor in ours.items()}


class Samples:
    """Random sources and targets, which a decoder reads shifted by its start."""

    def __init__(self):
        generator = torch.Generator().manual_seed(9)
        count = len(DOCUMENTS)
        self.source_ids = torch.full((count, SOURCE), PADDING)
        self.token_ids, self.targets = torch.full((count, TARGET), PADDING), torch.full((count, TARGET), 10**6)
        self.source_starts, self.starts = torch.zeros_like(self.source_ids), torch.zeros_like(self.token_ids)
        self.marks = torch.zeros_like(self.token_ids)
        self.documents = []
        for sample, both in enumerate(DOCUMENTS):
            first = [0, 0]
            for lengths in zip(*both, strict=True):
                rows = [slice(begin, begin + length) for begin, length in zip(first, lengths, strict=True)]
                self.documents.append((sample, *rows))
                self.source_ids[sample, rows[0]] = torch.randint(3, VOCABULARY, (lengths[0],), generator=generator)
                target = torch.randint(3, VOCABULARY, (lengths[1],), generator=generator)
                self.targets[sample, rows[1]], self.marks[sample, rows[1]] = target, 1
                self.token_ids[sample, rows[1]] = torch.cat([torch.tensor([START]), target[:-1]])
                self.source_starts[sample, first[0]] = self.starts[sample, first[1]] = 1
                first = [begin + length for begin, length in zip(first, lengths, strict=True)]
            for starts, begin in zip((self.source_starts, self.starts), first, strict=True):
                starts[sample, begin:begin + 1] = 1

    def save(self, path):
        names = ("source_ids", "source_starts", "token_ids", "targets", "marks", "starts")
        safetensors.torch.save_file({name: getattr(self, name).contiguous() for name in names}, path)

    def theirs(self):
        """The pairs one by one, padded to the longest, with the mask that transformers asks for."""
        count = len(self.documents)
        ids, labels = torch.full((count, SOURCE), PADDING), torch.full((count, TARGET), -100)
        mask = torch.zeros((count, SOURCE), dtype=torch.long)
        for pair, (sample, source, target) in enumerate(self.documents):
            length = source.stop - source.start
            ids[pair, :length], mask[pair, :length] = self.source_ids[sample, source], 1
            labels[pair, :target.stop - target.start] = self.targets[sample, target]
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    def of_targets(self, rows):
        return torch.cat([rows[sample, target] for sample, _, target in self.documents])


def loss_of(logits, pairs, smoothing):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), pairs["labels"].flatten(), label_smoothing=smoothing)


class SourceAndTarget(EncoderTest):
    rate, epsilon = 3e-3, 3e-5

    def passes(self, samples, smoothing=0.0):
        samples.save(self.folder / "samples.safetensors")
        results = self.tool("passes", self.folder / "hf", self.folder / "samples.safetensors", smoothing)
        for name in ("logits", "losses"):
            results[name] = results[name].unflatten(0, (len(DOCUMENTS), TARGET))
        return results

    def test_logits_losses_and_gradients_are_those_of_transformers(self):
        samples = Samples()
        pairs = samples.theirs()
        for name, smoothing in itertools.product(CONFIGS, (0.0, 0.1)):
            with self.subTest(f"{name}, smoothing {smoothing}"):
                model = model_of(name)
                model.save_pretrained(self.folder / "hf")
                with_exact_norms(model.double())
                logits = model(**pairs).logits
                loss = loss_of(logits, pairs, smoothing)
                loss.backward()
                ours = self.passes(samples, smoothing)
                self.assert_close(samples.of_targets(ours["logits"]), logits[pairs["labels"] >= 0], 1e-10, "logits")
                marks = samples.marks == 1
                self.assertAlmostEqual(ours["losses"][marks].mean().item(), loss.item(), places=10)
                self.assertEqual(ours["losses"][~marks].abs().max(), 0)
                self.assert_gradients(ours, ours_of([(key, value.grad) for key, value in model.named_parameters()]))

    def test_folders_are_read_and_written_as_they_are(self):
        pairs = Samples().theirs()
        for name in CONFIGS:
            with self.subTest(name):
                model = model_of(name)
                model.save_pretrained(self.folder / "theirs")
                for number, words in enumerate((("import", "theirs", f"{name}-own", "--from", "hf"),
                                                ("export", f"{name}-own", f"{name}-ours", "--to", "hf"))):
                    done = subprocess.run([os.environ["LLMTRAIN_PROGRAM"], "checkpoint", *words], cwd=self.folder,
                                          capture_output=True, text=True, check=False)
                    self.assertEqual(done.returncode, 0, f"{number} {done.stderr}")
                again, found = type(model).from_pretrained(self.folder / f"{name}-ours", output_loading_info=True)
                self.assertEqual([found[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")],
                                 [set(), set(), set()])
                with torch.no_grad():
                    self.assertTrue(torch.equal(again.eval()(**pairs).logits, model(**pairs).logits))

    def test_tokens_of_padding_change_nothing(self):
        for name in ("bart", "t5"):
            samples = Samples()
            model_of(name).save_pretrained(self.folder / "hf")
            before = self.passes(samples)
            for sample, (sources, targets) in enumerate(DOCUMENTS):
                samples.source_ids[sample, sum(sources):] = 17
                samples.token_ids[sample, sum(targets):] = 23
            after = self.passes(samples)
            for kind in ("logits", "losses"):
                self.assertTrue(torch.equal(samples.of_targets(before.pop(kind)), samples.of_targets(after.pop(kind))))
            for key, tensor in before.items():
                self.assertTrue(torch.equal(tensor, after[key]), key)

    def test_training_changes_weights_as_pytorch_does(self):
        samples = Samples()
        pairs = samples.theirs()
        for name, smoothing in (("bart", 0.1), ("t5", 0.0), ("t5 1.1", 0.2)):
            with self.subTest(name):
                model = model_of(name)
                model.save_pretrained(self.folder / "hf")
                first = ours_of([(key, value.detach().clone()) for key, value in model.named_parameters()])
                # In float64, so that roundings are those of one side alone.
                with_exact_norms(model.double())
                losses = self.train(model, lambda: loss_of(model(**pairs).logits, pairs, smoothing))
                last = ours_of([(key, value.detach()) for key, value in model.named_parameters()])
                ours, our_losses = self.learned(samples, {"global": len(DOCUMENTS), "sequence_length": SOURCE},
                                                label_smoothing=smoothing)
                self.assert_close(our_losses, torch.tensor(losses, dtype=torch.float64), 1e-5, "losses")
                self.assertEqual(sorted(ours), sorted(last))
                for key, tensor in last.items():
                    # What is common to all keys moves all scores of a query alike: of a key's bias AdamW makes steps of
                    # rounding errors.
                    if not key.endswith("attention.key.bias"):
                        self.assert_close(ours[key] - first[key], tensor - first[key], 1e-4, key)


if __name__ == "__main__":
    unittest.main()
