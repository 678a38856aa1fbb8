# SPDX-License-Identifier: Apache-2.0
"""Our checkpoints for llama.cpp: its own script converts what "llmtrain checkpoint export" writes."""
import json
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

# Sets the one thing that the script knows by heart, which tokenizers are which: ours is made here, and texts come as
# ids.
CONVERT = """
import runpy, sys
sys.path[:0] = [{source!r}, {source!r} + "/gguf-py"]
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
sys.argv = ["convert_hf_to_gguf.py", {folder!r}, "--outfile", {outfile!r}, "--outtype", {kind!r}]
runpy.run_path({source!r} + "/convert_hf_to_gguf.py", run_name="__main__")
"""


def write_tokenizer(folder, vocab_size):
    """A tokenizer of bytes, which llama.cpp wants and nobody uses. The vocabulary's last id ends a text."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["eos_token_id"] = vocab_size - 1
    if "n_positions" in config:
        config["n_ctx"] = config["n_positions"]  # an older name, which the script knows alone
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())[:254]
    vocabulary = {letter: number for number, letter in enumerate([*letters, letters[0] + letters[1]])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[(letters[0], letters[1])]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}),
        encoding="utf-8")


def conversion(source, folder, outfile, precision):
    """The command that writes the GGUF file, with llama.cpp's sources in `source`."""
    script = CONVERT.format(source=str(source), folder=str(folder), outfile=str(outfile),
                            kind={"fp32": "f32", "bf16": "bf16"}[precision])
    return [sys.executable, "-c", script]


def server(program, gguf, options, port):
    """The command of a server with as many places for texts as are asked for at once."""
    kind = {"fp32": "f32", "bf16": "bf16"}[options.precision]
    texts = max(options.texts)
    room = options.prompt + options.tokens
    return [program, "-m", gguf, "--port", str(port), "--parallel", str(texts), "--ctx-size", str(texts * room),
            "--threads", str(options.threads), "--threads-batch", str(options.threads), "--cache-type-k", kind,
            "--cache-type-v", kind, "--no-webui"]
