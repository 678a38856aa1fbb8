// SPDX-License-Identifier: Apache-2.0
#include "core/graph/presets/image_classifier.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/body/families/vit.h"
#include "core/graph/blocks/graph_writer.h"
#include "core/graph/presets/described_body.h"

namespace llmtrain {
namespace {

// Rules ask for what it lacks otherwise.
body::VitModel vit_of(const ModelRecipe& model) {
  if (!model.image || !model.classifier)
    throw Error(ExitCode::internal_error, "a model of images needs model.image and model.classifier");
  return {.hidden = model.hidden_size,
          .heads = model.heads,
          .width = model.ffn_hidden_size,
          .image = model.image->size,
          .patch = model.image->patch,
          .channels = model.image->channels,
          .activation =
              model.activation == Activation::gelu ? body::ElementwiseKind::gelu : body::ElementwiseKind::gelu_tanh,
          .epsilon = model.norm_eps,
          .dropout = model.dropout,
          .attention_dropout = model.dropout};
}

}  // namespace

void write_image_classifier(GraphWriter& writer) {
  const ModelRecipe& model = writer.model();
  const body::VitModel vit = vit_of(model);
  writer.add_block("embedding", BodySettings(described(body::vit_embedding(vit, 1), model)));
  const BodySettings layer(described(body::vit_layer(vit, 1), model, true));
  for (std::int64_t index = 0; index < model.layers; ++index)
    writer.add_block("layers." + std::to_string(index), layer);
  BodyDescription head = described(body::vit_classifier_loss(vit, std::ssize(model.classifier->classes), 1), model);
  head.losses = {{std::string(loss_names::head), 1}};
  head.tells_classes = true;
  writer.add_block("head", BodySettings(std::move(head)));
}

}  // namespace llmtrain
