// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/data/images/image.h"

namespace llmtrain {

// Each fills the image, or says why there is none.
bool decode_jpeg(std::span<const std::byte> bytes, Image& image, std::string& reason);
bool decode_png(std::span<const std::byte> bytes, Image& image, std::string& reason);

// Makes room for an image of this size, or says why it is none.
bool make_room(std::int64_t height, std::int64_t width, Image& image, std::string& reason);

}  // namespace llmtrain
