// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/text_templates.h"

namespace llmtrain {

// "post_processor" of tokenizer.json: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which changes
// offsets alone) and a Sequence of them. Throws Error(bad_data) that names what is not supported, and its place.
TextTemplates read_templates(const JsonFields& section);

}  // namespace llmtrain
