# SPDX-License-Identifier: Apache-2.0
# The headers that most files spend their compile time in, compiled once for each kind of target. A file still includes
# what it uses: clang-tidy and the preset debug read each header anew.
set(plain_headers <algorithm> <array> <cmath> <filesystem> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <vector> <nlohmann/json.hpp> <spdlog/fmt/fmt.h>)
set(torch_headers ${plain_headers} <ATen/core/Tensor.h> <ATen/TensorOperators.h> <ATen/ops/cat.h> <ATen/ops/empty.h>)

# llmtrain_precompile(headers_plain HEADERS <vector> PACKAGES Catch2::Catch2 OPTIONS -O1)
# Targets that use it must be compiled with the same options; OPTIONS are those that a library of ours has not.
function(llmtrain_precompile name)
  cmake_parse_arguments(arg "" "" "HEADERS;PACKAGES;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/empty.cpp CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled/empty.cpp)
  target_link_libraries(${name} PRIVATE llmtrain_options nlohmann_json::nlohmann_json spdlog::spdlog ${arg_PACKAGES})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# "torch" in the variable `result` where one of the names is LibTorch or a library of ours that uses it, else "plain".
function(llmtrain_kind_of result)
  set(${result} plain PARENT_SCOPE)
  foreach(name IN LISTS ARGN)
    set(kind "")
    if(TARGET ${name})
      get_target_property(kind ${name} LLMTRAIN_KIND)
    endif()
    if(name STREQUAL libtorch OR kind STREQUAL torch)
      set(${result} torch PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

llmtrain_precompile(headers_plain HEADERS ${plain_headers})
llmtrain_precompile(headers_torch HEADERS ${torch_headers} PACKAGES libtorch)
