// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/graph/block_settings.h"
#include "core/model/block_module.h"

namespace llmtrain {

class BlockParameters;
class KeptExchanges;
struct StageOptions;

// The module of each kind of block, as BlockFactory (core/model/stage.h) makes it: overloads for all alternatives of
// BlockSettings, each in the source of its kind.
std::unique_ptr<BlockModule> module_of(const EmbeddingSettings& settings, const BlockParameters& parameters,
                                       const StageOptions& options, KeptExchanges* kept);
std::unique_ptr<BlockModule> module_of(const LayerSettings& settings, const BlockParameters& parameters,
                                       const StageOptions& options, KeptExchanges* kept);
std::unique_ptr<BlockModule> module_of(const HeadSettings& settings, const BlockParameters& parameters,
                                       const StageOptions& options, KeptExchanges* kept);
std::unique_ptr<BlockModule> module_of(const BodySettings& settings, const BlockParameters& parameters,
                                       const StageOptions& options, KeptExchanges* kept);

}  // namespace llmtrain
