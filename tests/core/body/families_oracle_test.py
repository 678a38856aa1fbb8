# SPDX-License-Identifier: Apache-2.0
"""Blocks of families written as bodies equal transformers' modules at random weights, and so do all gradients:
families_oracle_test.py BODY_TOOL."""
import sys
import unittest

try:
    import torch
    import transformers  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import body_program
from bert_blocks import BertTest  # noqa: F401
from encoder_decoder_blocks import BartTest, T5Test  # noqa: F401
from resnet_blocks import ResnetTest  # noqa: F401
from vit_blocks import VitTest  # noqa: F401

if __name__ == "__main__":
    body_program.TOOL = sys.argv[1]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1])
