# SPDX-License-Identifier: Apache-2.0
"""Parts of a tokenizer that puts "</s>" behind each text, as T5's does, by which a model tells that a target ends."""
import json

# The text of its tokenizer_config.json.
MARKS = json.dumps({"pad_token": "<pad>", "eos_token": "</s>"})


def post_processor(end):
    """`end`: the id of "</s>"."""
    return {"type": "TemplateProcessing",
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [end], "tokens": ["</s>"]}}}
