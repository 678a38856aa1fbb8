# SPDX-License-Identifier: Apache-2.0
# Compilers are started through ccache where it is installed (scripts/setup --tests installs it), so that what one build
# has compiled no other build compiles again, wherever its source and build folders lie.
find_program(LLMTRAIN_CCACHE ccache DOC "Compiler cache, used where it is installed")
option(LLMTRAIN_USE_CCACHE "Start compilers through ccache where it is installed" ON)

# Paths below the source folder are those of any checkout: in what is hashed, and in what __FILE__, debug information
# and the sanitizers' reports say.
set(compiler_cache_settings CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    # Precompiled headers are found again by their contents: not by macros that they might have used, nor by times of
    # files, which are new in each checkout.
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # CMake passes the paths of precompiled headers around the driver, where ccache leaves them as they are. The driver
  # alone takes X.pch for X wherever it exists, also while X.pch is made again; hence another ending.
  set(CMAKE_PCH_EXTENSION .precompiled)
  set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -x c++-header -include <PCH_HEADER>)
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE> -include <PCH_HEADER>)
  # Clang refuses a precompiled header whose sources have another time or place than when it was made. This name of the
  # folder that a compiler runs in is right in every checkout.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  list(APPEND compiler_cache_settings PWD=/proc/self/cwd)
endif()

if(LLMTRAIN_CCACHE AND LLMTRAIN_USE_CCACHE)
  foreach(language CXX CUDA)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER env ${compiler_cache_settings} ${LLMTRAIN_CCACHE})
    endif()
  endforeach()
endif()
