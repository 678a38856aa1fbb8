// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/data/images/image.h"

namespace llmtrain {

// What libllmtrain_images.so offers as llmtrain_decode_image: fills the image, or says why there is none.
using DecodeImage = bool(std::span<const std::byte> bytes, Image& image, std::string& reason);

}  // namespace llmtrain
