// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace llmtrain::app {

// Prints the classes of a folder of images, how many of each there are, their sizes and what their pixels are
// normalised with. Reads all files. Throws Error.
void inspect_images(const std::string& folder, bool json);

}  // namespace llmtrain::app
