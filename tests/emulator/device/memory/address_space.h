// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>

namespace emulated {

// The addresses of an arena that nothing uses.
class AddressSpace {
 public:
  void give(char* begin, std::size_t bytes);  // joins it with its neighbours
  char* take(std::size_t bytes);              // the lowest that suffice; nullptr if there are none

 private:
  std::map<char*, std::size_t> holes_;
};

}  // namespace emulated
