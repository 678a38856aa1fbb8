// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/text_check.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace llmtrain {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view beginning, name, advice;
};

constexpr std::string_view no_data = "name files of text, or leave it out of the pattern";
constexpr std::array formats{
    Format{"\x93NUMPY"sv, "a NumPy array", "write its ids to a .bin file of uint16, as numpy's tofile does"},
    Format{"PAR1"sv, "a Parquet file", "give its name the ending .parquet"},
    Format{"ARROW1"sv, "a file of Arrow", "give its name the ending .arrow"},
    Format{"\x1f\x8b"sv, "compressed by gzip", "give its name the ending .gz"},
    Format{"\x28\xb5\x2f\xfd"sv, "compressed by zstd", "give its name the ending .zst"},
    Format{"BZh9"sv, "compressed by bzip2", "compress it by gzip or zstd"},
    Format{"\xfd\x37zXZ"sv, "compressed by xz", "compress it by gzip or zstd"},
    Format{"PK\x03\x04"sv, "a zip archive", "unpack it"},
    Format{"\x89PNG"sv, "a PNG image", no_data},
    Format{"\xff\xd8\xff"sv, "a JPEG image", no_data},
    Format{"GIF8"sv, "a GIF image", no_data},
    Format{"%PDF-"sv, "a PDF document", "extract its text"},
    Format{"\x7f"
           "ELF"sv,
           "a program", no_data},
    Format{"SQLite format 3"sv, "a database of SQLite", "export its text"},
    Format{"\xff\xfe"sv, "text in UTF-16", "write it in UTF-8"},
    Format{"\xfe\xff"sv, "text in UTF-16", "write it in UTF-8"},
};

// All but tab, line ends, form feed, backspace, and the escape that colours terminals.
bool is_foreign_control(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value < 0x20 && "\b\t\n\v\f\r\x1b"sv.find(byte) == std::string_view::npos;
}

// The end of what is looked at may lie within a character.
bool is_utf8_so_far(std::string_view text) { return text.size() - well_formed_length(text) < 4; }

}  // namespace

void require_text(const std::filesystem::path& file, std::string_view beginning) {
  const std::string_view head = beginning.substr(0, 8192);
  const auto known =
      std::ranges::find_if(formats, [&](const Format& format) { return head.starts_with(format.beginning); });
  if (known != formats.end())
    throw Error(ExitCode::bad_data, file.string() + ": is " + std::string(known->name) +
                                        ", which is not read as text; " + std::string(known->advice));
  const bool is_binary = head.find('\0') != std::string_view::npos ||
                         (!is_utf8_so_far(head) && std::ranges::any_of(head, is_foreign_control));
  if (is_binary)
    throw Error(ExitCode::bad_data, file.string() + ": is a binary file, which is not read as text; " +
                                        std::string(no_data) + "; files of tokens are named .bin");
}

}  // namespace llmtrain
