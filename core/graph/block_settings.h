// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "core/graph/blocks/body_block.h"
#include "core/graph/blocks/embedding.h"
#include "core/graph/blocks/head.h"
#include "core/graph/blocks/layer.h"

namespace llmtrain {

// The kinds of blocks (core/graph/blocks/block_kind.h).
using BlockSettings = std::variant<EmbeddingSettings, LayerSettings, HeadSettings, BodySettings>;

}  // namespace llmtrain
