// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "core/data/images/image.h"

namespace llmtrain {

// Whether the name ends like that of an image that can be read: .jpg, .jpeg or .png, in small letters or capitals.
bool is_image_name(const std::filesystem::path& file);

// The image in a JPEG or PNG file, which its first bytes tell apart, with red, green and blue as Pillow's
// convert("RGB") has them: of 16 bits the upper eight, without opacity, and not turned as Exif might ask. Any thread
// may call it. Throws Error(missing_input) where there is no such file, and Error(bad_data) that names the file where
// it is no such image, is damaged, or has more than most_pixels.
Image read_image(const std::filesystem::path& file);

// The image in the bytes of a file, which errors call `name`.
Image decode_image(std::span<const std::byte> bytes, const std::string& name);

}  // namespace llmtrain
