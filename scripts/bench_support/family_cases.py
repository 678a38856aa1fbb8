# SPDX-License-Identifier: Apache-2.0
"""The cases of scripts/benchmarks/bench_families: a random model of transformers, data as files that llmtrain reads, and
the same samples as tensors. The data is one batch, so that each step sees all of it, in whatever order."""
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy
import torch
import transformers
from PIL import Image

DRAW_SHAPES = Path(__file__).resolve().parents[2] / "recipes" / "examples" / "draw-shapes"
MARKS = {"<s>": 0, "<pad>": 1, "</s>": 2}
RATE = 1e-5
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

transformers.utils.logging.disable_progress_bar()


def _write_tokenizer(path, vocabulary):
    """Words "w3" to "wN", between the marks of beginning and end."""
    ids = {**MARKS, **{f"w{id}": id for id in range(len(MARKS), vocabulary)}}
    path.write_text(json.dumps({
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<pad>"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "added_tokens": [{"id": id, "content": text, "special": True} for text, id in MARKS.items()],
        "post_processor": {"type": "BertProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}}), encoding="utf-8")
    (path.parent / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}), encoding="utf-8")


def _random_texts(draw, texts, tokens, vocabulary):
    """Ids of texts of so many tokens with their marks."""
    return [[0, *(draw.randrange(len(MARKS), vocabulary) for _ in range(tokens - 2)), 2] for _ in range(texts)]


def _words(ids):
    return " ".join(f"w{id}" for id in ids[1:-1])


def _write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def bert_layer(folder, batch=2, tokens=512, vocabulary=1000, **sizes):
    """The layer of BERT-large that Data Movement measures (arXiv 2007.00072), of a quarter of its 8 sequences, with a small
    table of tokens below and a head for classes of sequences above."""
    sizes = {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096, "num_hidden_layers": 1, **sizes}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=vocabulary, max_position_embeddings=tokens, pad_token_id=1, num_labels=2, **NO_DROPOUT, **sizes))
    draw = random.Random(1)
    texts = _random_texts(draw, batch, tokens, vocabulary)
    _write_tokenizer(folder / "tokenizer.json", vocabulary)
    _write_rows(folder / "data.jsonl", [{"text": _words(ids), "label": number % 2} for number, ids in enumerate(texts)])
    recipe = {"data": {"tokenizer": {"huggingface": str(folder / "tokenizer.json")},
                       "labels": {"classes": ["LABEL_0", "LABEL_1"]}, "train": [{"path": str(folder / "data.jsonl")}]},
              "batch": {"global": batch, "micro": batch, "sequence_length": tokens}}
    return model, recipe, {"input_ids": torch.tensor(texts), "labels": torch.arange(batch) % 2}


def translation(folder, batch=8, tokens=64, vocabulary=8192, **sizes):
    """The base transformer that LightSeq2 trains to translate (arXiv 2110.05722), as BART has its layers, with a third of
    them and fewer words. The last row of sources and targets is padding."""
    sizes = {"d_model": 512, "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048,
             "decoder_ffn_dim": 2048, "encoder_layers": 2, "decoder_layers": 2, **sizes}
    model = transformers.BartForConditionalGeneration(transformers.BartConfig(
        vocab_size=vocabulary, max_position_embeddings=tokens, dropout=0.0, attention_dropout=0.0, pad_token_id=1,
        decoder_start_token_id=2, **sizes))
    draw = random.Random(1)
    sources, targets = (_random_texts(draw, batch, tokens - 1, vocabulary) for _ in range(2))
    _write_tokenizer(folder / "tokenizer.json", vocabulary)
    _write_rows(folder / "data.jsonl", [{"source": _words(source), "target": _words(target)}
                                        for source, target in zip(sources, targets)])
    recipe = {"data": {"tokenizer": {"huggingface": str(folder / "tokenizer.json")},
                       "pairs": {"target_length": tokens, "decoder_start": 2},
                       "train": [{"path": str(folder / "data.jsonl")}]},
              "batch": {"global": batch, "micro": batch, "sequence_length": tokens}}
    mask = torch.ones((batch, tokens), dtype=torch.long)
    mask[:, -1] = 0
    inputs, labels = (torch.tensor([[*ids, padding] for ids in texts]) for texts, padding in ((sources, 1), (targets, -100)))
    return model, recipe, {"input_ids": inputs, "attention_mask": mask, "labels": labels}


def vit(folder, batch=8, size=224, patch=32, **sizes):
    """ViT-B/32, which LightSeq2 trains, with a third of its layers."""
    sizes = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 4, **sizes}
    images = folder / "images"
    subprocess.run([sys.executable, DRAW_SHAPES, images, "--size", str(size), "--images", str(batch // 4)], check=True)
    classes = sorted(path.name for path in images.iterdir())
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        image_size=size, patch_size=patch, id2label=dict(enumerate(classes)), **NO_DROPOUT, **sizes))
    recipe = {"data": {"images": {"classes": classes, "shorter_side": size}, "train": [{"path": str(images)}]},
              "batch": {"global": batch, "micro": batch}}
    pixels, labels = [], []
    for path in sorted(images.rglob("*.png")):
        pixels.append(torch.from_numpy(numpy.array(Image.open(path).convert("RGB"))).permute(2, 0, 1) / 127.5 - 1)
        labels.append(classes.index(path.parent.name))
    return model, recipe, {"pixel_values": torch.stack(pixels), "labels": torch.tensor(labels)}


CASES = {"bert-layer": bert_layer, "translation": translation, "vit": vit}


def write_case(name, precision, folder):
    """Writes the model, the data and the recipe of a case; returns the recipe's path, "hf" and "batch.pt" beside it."""
    torch.manual_seed(1)
    model, recipe, batch = CASES[name](folder)
    model.save_pretrained(folder / "hf")
    torch.save(batch, folder / "batch.pt")
    recipe.update(name=name, cluster={"device": "cpu"}, precision={"compute": precision},
                  training={"steps": 1_000_000, "clip_norm": 1.0, "evaluate_every": 0,
                            "optimizer": {"weight_decay": 0},
                            "learning_rate": {"schedule": "constant", "peak": RATE, "warmup_steps": 0}})
    recipe["model"] = {"from": f"hf:{folder / 'hf'}"}
    path = folder / "recipe.json"
    path.write_text(json.dumps(recipe, indent=1), encoding="utf-8")
    return path
