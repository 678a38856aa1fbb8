# SPDX-License-Identifier: Apache-2.0
# Everything that the project uses and does not write; docs/dependencies.md gives the reason for each.
find_program(LLMTRAIN_CCACHE ccache DOC "Compiler cache, used where it is installed")
if(LLMTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LLMTRAIN_CCACHE})
endif()

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

include(LibTorch)
