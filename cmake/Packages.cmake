# SPDX-License-Identifier: Apache-2.0
# Everything that the project uses and does not write; docs/dependencies.md gives the reason for each.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# Debian's package configuration of oneDNN asks for OpenCL's headers, which its CPU engine does not need.
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(ONEDNN_LIBRARY dnnl REQUIRED)
add_library(onednn INTERFACE)
target_include_directories(onednn SYSTEM INTERFACE ${ONEDNN_INCLUDE_DIR})
target_link_libraries(onednn INTERFACE ${ONEDNN_LIBRARY})

# llmtrain_find_library(pcre2 HEADER pcre2.h LIBRARY pcre2-8 PACKAGE libpcre2-dev)
# An imported target for a library without a CMake package of its own.
function(llmtrain_find_library name)
  cmake_parse_arguments(arg "" "HEADER;LIBRARY;PACKAGE" "" ${ARGN})
  find_path(${name}_INCLUDE_DIR ${arg_HEADER})
  find_library(${name}_LIBRARY ${arg_LIBRARY})
  if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${arg_HEADER} or lib${arg_LIBRARY} was not found: run scripts/setup, or install ${arg_PACKAGE}")
  endif()
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIR})
  target_link_libraries(${name} INTERFACE ${${name}_LIBRARY})
endfunction()

llmtrain_find_library(pcre2 HEADER pcre2.h LIBRARY pcre2-8 PACKAGE libpcre2-dev)
llmtrain_find_library(utf8proc HEADER utf8proc.h LIBRARY utf8proc PACKAGE libutf8proc-dev)
llmtrain_find_library(sentencepiece HEADER sentencepiece_processor.h LIBRARY sentencepiece PACKAGE libsentencepiece-dev)
llmtrain_find_library(sentencepiece_train HEADER sentencepiece_trainer.h LIBRARY sentencepiece_train
  PACKAGE libsentencepiece-dev)
target_link_libraries(sentencepiece_train INTERFACE sentencepiece)
llmtrain_find_library(libedit HEADER histedit.h LIBRARY edit PACKAGE libedit-dev)
llmtrain_find_library(zlib HEADER zlib.h LIBRARY z PACKAGE zlib1g-dev)
llmtrain_find_library(zstd HEADER zstd.h LIBRARY zstd PACKAGE libzstd-dev)

# Headers alone. What they need of Boost.System is in them, too.
find_path(beast_INCLUDE_DIR boost/beast/http.hpp)
if(NOT beast_INCLUDE_DIR)
  message(FATAL_ERROR "boost/beast/http.hpp was not found: run scripts/setup, or install libboost-dev")
endif()
add_library(beast INTERFACE)
target_include_directories(beast SYSTEM INTERFACE ${beast_INCLUDE_DIR})

# Without them all but images can be read.
find_path(jpeg_INCLUDE_DIR jpeglib.h)
find_library(jpeg_LIBRARY jpeg)
find_path(png_INCLUDE_DIR png.h)
find_library(png_LIBRARY png)
if(jpeg_INCLUDE_DIR AND jpeg_LIBRARY AND png_INCLUDE_DIR AND png_LIBRARY)
  llmtrain_find_library(jpeg HEADER jpeglib.h LIBRARY jpeg PACKAGE libjpeg62-turbo-dev)
  llmtrain_find_library(png HEADER png.h LIBRARY png PACKAGE libpng-dev)
else()
  message(STATUS "images cannot be read: libjpeg-turbo or libpng was not found; scripts/setup installs them")
endif()

include(LibTorch)
include(Arrow)
