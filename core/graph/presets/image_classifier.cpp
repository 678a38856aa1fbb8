// SPDX-License-Identifier: Apache-2.0
#include "core/graph/presets/image_classifier.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/body/families/resnet.h"
#include "core/body/families/vit.h"
#include "core/graph/blocks/graph_writer.h"
#include "core/graph/presets/described_body.h"

namespace llmtrain {
namespace {

// Rules ask for what it lacks otherwise.
void require_sections(const ModelRecipe& model) {
  const bool has_stages = model.architecture != Architecture::resnet || model.resnet;
  if (!model.image || !model.classifier || !has_stages)
    throw Error(ExitCode::internal_error,
                "a model of images needs model.image, model.classifier and, to be a resnet, model.resnet");
}

void add_head(GraphWriter& writer, BodyDescription head) {
  head.losses = {{std::string(loss_names::head), 1}};
  head.tells_classes = true;
  writer.add_block("head", BodySettings(std::move(head)));
}

body::VitModel vit_of(const ModelRecipe& model) {
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

void write_vit(GraphWriter& writer) {
  const ModelRecipe& model = writer.model();
  const body::VitModel vit = vit_of(model);
  writer.add_block("embedding", BodySettings(described(body::vit_embedding(vit, 1), model)));
  const BodySettings layer(described(body::vit_layer(vit, 1), model, true));
  for (std::int64_t index = 0; index < model.layers; ++index)
    writer.add_block("layers." + std::to_string(index), layer);
  add_head(writer, described(body::vit_classifier_loss(vit, std::ssize(model.classifier->classes), 1), model));
}

// As torchvision's: kernels have the deviation √(2 ÷ fan out), and the head that of numbers up to 1 ÷ √inputs.
double resnet_deviation(const body::Body& body, const std::string& name) {
  const std::vector<std::int64_t> shape = body.shape_of(body.tensor_named(name));
  if (name == "classifier.weight") return 1 / std::sqrt(3 * static_cast<double>(shape.back()));
  return std::sqrt(2 / static_cast<double>(shape.at(0) * shape.at(2) * shape.at(3)));
}

// Adds the blocks of a residual network, and follows how large images are behind each.
class ResidualNetwork {
 public:
  explicit ResidualNetwork(GraphWriter& writer)
      : writer_(writer),
        model_(writer.model()),
        norm_{.kind = body::NormKind::group, .epsilon = model_.norm_eps, .groups = model_.resnet->groups},
        shape_{model_.image->channels, model_.image->size, model_.image->size} {}

  void write() {
    const ResnetRecipe& resnet = *model_.resnet;
    writer_.add_block("embedding",
                      BodySettings(begun(body::resnet_stem(shape_, resnet.stem_channels, norm_, 1), false)));
    halve(stem_halvings);
    shape_.channels = resnet.stem_channels;
    for (std::size_t stage = 0; stage < resnet.stages.size(); ++stage)
      for (std::int64_t block = 0; block < resnet.stages[stage].blocks; ++block)
        add_layer(resnet.stages[stage].channels, stage > 0 && block == 0);
    add_head(writer_, begun(body::resnet_classifier_loss(shape_, std::ssize(model_.classifier->classes), 1), false));
  }

 private:
  static constexpr int stem_halvings = 2;

  void halve(int times) {
    for (int i = 0; i < times; ++i) {
      shape_.height = body::halved(shape_.height);
      shape_.width = body::halved(shape_.width);
    }
  }

  void add_layer(std::int64_t channels, bool strides) {
    constexpr std::int64_t narrower = 4;  // is a bottleneck's middle
    const body::ResidualConvolution block{.is_bottleneck = model_.resnet->block == ResidualBlock::bottleneck,
                                          .width = channels / narrower,
                                          .channels = channels,
                                          .stride = strides ? 2 : 1,
                                          .norm = norm_};
    writer_.add_block("layers." + std::to_string(layers_++),
                      BodySettings(begun(body::resnet_block(block, shape_, 1), true)));
    if (strides) halve(1);
    shape_.channels = channels;
  }

  BodyDescription begun(body::Body body, bool is_unit) const {
    BodyDescription block = described(std::move(body), model_, is_unit);
    for (Parameter& parameter : block.parameters)
      if (parameter.initialization == Initialization::normal)
        parameter.standard_deviation *= resnet_deviation(block.body, parameter.local_name);
    return block;
  }

  GraphWriter& writer_;
  const ModelRecipe& model_;
  body::Norm norm_;
  body::ImageShape shape_;  // of what the next block reads
  std::int64_t layers_ = 0;
};

}  // namespace

void write_image_classifier(GraphWriter& writer) {
  require_sections(writer.model());
  if (writer.model().architecture == Architecture::resnet)
    ResidualNetwork(writer).write();
  else
    write_vit(writer);
}

}  // namespace llmtrain
