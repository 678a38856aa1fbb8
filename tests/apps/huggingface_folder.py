# SPDX-License-Identifier: Apache-2.0
"""Writes and reads folders of Hugging Face transformers (Llama, Mixtral) with only Python's standard library."""
import json
import random
import struct

WIDTH = {"F32": 4, "BF16": 2, "F16": 2}
# All bits but the lowest one of the exponent: neither NaN nor infinity.
FINITE = {"F32": 0xFF7FFFFF, "BF16": 0xFF7F, "F16": 0xFBFF}
TYPE = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def config_of(layers=2, hidden=16, vocabulary=256, dtype="F32"):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
            "intermediate_size": 3 * hidden, "num_hidden_layers": layers, "num_attention_heads": 2,
            "num_key_value_heads": 1, "vocab_size": vocabulary, "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False, "rope_theta": 10000.0, "torch_dtype": TYPE[dtype], "bos_token_id": 3,
            "eos_token_id": [4, 5]}


def mixtral_config(experts=2, **keys):
    return {**config_of(), "architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
            "num_local_experts": experts, "num_experts_per_tok": 1, **keys}


def networks_of(config):
    """The shapes of a layer's feed-forward networks."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    if "num_local_experts" not in config:
        return {"mlp.gate_proj": [ffn, hidden], "mlp.up_proj": [ffn, hidden], "mlp.down_proj": [hidden, ffn]}
    parts = {"block_sparse_moe.gate": [config["num_local_experts"], hidden]}
    for expert in range(config["num_local_experts"]):
        path = f"block_sparse_moe.experts.{expert}."
        parts.update({path + "w1": [ffn, hidden], path + "w2": [hidden, ffn], path + "w3": [ffn, hidden]})
    return parts


def shapes_of(config):
    """The tensors of the model, in the order of their names, in which save_pretrained writes them."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes = {"model.embed_tokens.weight": [vocabulary, hidden]}
    for layer in range(config["num_hidden_layers"]):
        parts = {"self_attn.q_proj": [hidden, hidden], "self_attn.k_proj": [hidden // 2, hidden],
                 "self_attn.v_proj": [hidden // 2, hidden], "self_attn.o_proj": [hidden, hidden],
                 "input_layernorm": [hidden], "post_attention_layernorm": [hidden], **networks_of(config)}
        shapes.update({f"model.layers.{layer}.{part}.weight": shape for part, shape in parts.items()})
    shapes.update({"model.norm.weight": [hidden], "lm_head.weight": [vocabulary, hidden]})
    return dict(sorted(shapes.items()))


def size_of(shape, dtype="F32"):
    count = WIDTH[dtype]
    for dimension in shape:
        count *= dimension
    return count


def write_shard(path, shapes, dtype, tensors):
    """A safetensors file; without `tensors` its data are a hole, which takes no space on the disk."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        begin, end = end, end + size_of(shape, dtype)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in shapes if tensors else ():
            file.write(tensors[name])
        file.truncate(8 + len(text) + end)


def random_numbers(generator, size, dtype):
    """The bytes of finite numbers of all magnitudes."""
    mask = FINITE[dtype].to_bytes(WIDTH[dtype], "little") * (size // WIDTH[dtype])
    kept = int.from_bytes(generator.randbytes(size), "little") & int.from_bytes(mask, "little")
    return kept.to_bytes(size, "little")


def write(folder, config, dtype="F32", shards=1, hole=False, change=None):
    """Returns the bytes of every tensor: random ones, exponents included, changed by `change` if it is given."""
    folder.mkdir(parents=True)
    shapes, generator = shapes_of(config), random.Random(7)
    tensors = {} if hole else {name: random_numbers(generator, size_of(shape, dtype), dtype)
                               for name, shape in shapes.items()}
    if change:
        change(tensors)
    names = list(shapes)
    files = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors" if shards > 1 else "model.safetensors"
        part = {name: shapes[name] for name in names[shard::shards]}
        write_shard(folder / file, part, dtype, tensors)
        files.update(dict.fromkeys(part, file))
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


def read_file(path):
    """The dtype, shape and bytes of each tensor of a safetensors file."""
    content = path.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], content[start:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}
