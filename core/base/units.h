// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmtrain {

// "1.5 GiB", "812 KiB", "12 B": powers of 1024, three significant digits.
std::string format_bytes(std::int64_t bytes);

// "124.4M", "6.7B", "1.2k": powers of 1000, one decimal.
std::string format_count(double count);

// "2d 3h", "4m 05s", "12.3s", "85ms", "360µs".
std::string format_duration(double seconds);

// "1 file", "654 files": every digit, and the noun in its number.
std::string format_number_of(std::int64_t count, std::string_view noun);

}  // namespace llmtrain
