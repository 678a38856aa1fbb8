# SPDX-License-Identifier: Apache-2.0
# One folder is one library; its dependencies stand on one line of its CMakeLists.txt.

add_library(llmtrain_options INTERFACE)
# The warnings are for us, not for a program that links an installed library. Clang would also call it shadowing where
# sources that a unity build joins use one name.
target_compile_options(llmtrain_options INTERFACE
  $<BUILD_INTERFACE:-Wall;-Wextra;-Wpedantic;$<$<CXX_COMPILER_ID:GNU>:-Wshadow>>
  $<BUILD_INTERFACE:-Wnon-virtual-dtor;-Woverloaded-virtual;$<$<BOOL:${LLMTRAIN_WERROR}>:-Werror>>)
# GCC spends a twentieth of its time looking for what it can free, unless it may first fill 512 MiB.
target_compile_options(llmtrain_options INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>>)
target_include_directories(llmtrain_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/llmtrain>)
target_compile_features(llmtrain_options INTERFACE cxx_std_20)
if(LLMTRAIN_SANITIZE)
  target_compile_definitions(llmtrain_options INTERFACE LLMTRAIN_SANITIZED)
  # GCC 12 takes the sanitizers' own code for reads before a write, in the standard library's <regex>, say.
  target_compile_options(llmtrain_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  # Clang warns of loops that we mark for vectors and that the checks keep from it.
  target_compile_options(llmtrain_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
  target_compile_options(llmtrain_options INTERFACE -fsanitize=${LLMTRAIN_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  # These three check every access through a pointer, up to two fifths of the compile time. What is read through null
  # or past an object's end the address sanitizer finds too, and the processors that we build for read unaligned
  # numbers.
  if(LLMTRAIN_SANITIZE MATCHES address)
    target_compile_options(llmtrain_options INTERFACE -fno-sanitize=null,object-size,alignment)
  endif()
  # The checks for undefined behaviour look into what is tested. Here, because a target's own options precede these.
  target_compile_options(llmtrain_options INTERFACE
    $<$<BOOL:$<TARGET_PROPERTY:LLMTRAIN_IS_TEST>>:-fno-sanitize=undefined>)
  target_link_options(llmtrain_options INTERFACE -fsanitize=${LLMTRAIN_SANITIZE})
endif()

# llmtrain_library(core_recipe SOURCES a.cpp b.cpp DEPENDS core_base PACKAGES nlohmann_json::nlohmann_json)
# A static library whose headers lie beside its sources and are included by their path from the root.
function(llmtrain_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PACKAGES" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC llmtrain_options ${arg_DEPENDS} ${arg_PACKAGES})
  llmtrain_kind_of(kind ${arg_DEPENDS} ${arg_PACKAGES})
  set_target_properties(${name} PROPERTIES LLMTRAIN_KIND ${kind})
  target_precompile_headers(${name} REUSE_FROM headers_${kind})
endfunction()

# For a target in which nothing takes long to run: -O1 takes the compiler a fifth to a third less than -O3.
function(llmtrain_optimize_little name)
  target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()

# Compiles a test's own sources faster than what it tests; the rest is what the target links.
function(llmtrain_compile_as_test name)
  target_compile_options(${name} PRIVATE ${LLMTRAIN_TEST_OPTIONS})
  set_target_properties(${name} PROPERTIES LLMTRAIN_IS_TEST ON)
  llmtrain_kind_of(kind ${ARGN})
  target_precompile_headers(${name} REUSE_FROM test_headers_${kind})
endfunction()

# llmtrain_test_tool(logits_tool SOURCES a.cpp DEPENDS parallel_engine [FOLDER bench])
# A program that tests or scripts start, in the build's folder tests. No test of the sanitizer builds does.
function(llmtrain_test_tool name)
  cmake_parse_arguments(arg "" "FOLDER" "SOURCES;DEPENDS" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER tests)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  # As a library is compiled, so that it can use the same precompiled headers.
  llmtrain_kind_of(kind ${arg_DEPENDS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${arg_FOLDER})
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM headers_${kind})
  if(LLMTRAIN_SANITIZE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# llmtrain_test(core_recipe_test SOURCES a_test.cpp DEPENDS core_recipe [TIMEOUT 60] [NEEDS_RIGHTS])
# One Catch2 program, one CTest entry; it finds files of the repository through source_folder(). NEEDS_RIGHTS: cases
# with the tag [rights] need one that a process may lack, and are an entry of their own, which reports "Skipped" there.
# The thread sanitizer leaves out cases with the tag [one-thread]: long ones in which it has nothing to see. All
# sanitizers leave out those with the tag [exhaustive], which try many values on code that other cases of the program
# have already run.
function(llmtrain_test name)
  cmake_parse_arguments(arg "NEEDS_RIGHTS" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} test_support)
  llmtrain_compile_as_test(${name} ${arg_DEPENDS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(LLMTRAIN_SANITIZE AND "steps" IN_LIST arg_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(LLMTRAIN_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()
  set(all_cases "")
  if(LLMTRAIN_SANITIZE)
    set(all_cases "~[exhaustive]")
  endif()
  if(LLMTRAIN_SANITIZE MATCHES thread)
    string(APPEND all_cases "~[one-thread]")
  endif()
  if(arg_NEEDS_RIGHTS)
    add_test(NAME ${name} COMMAND ${name} "${all_cases}~[rights]")
    add_test(NAME ${name}_rights COMMAND ${name} "${all_cases}[rights]")
    set_tests_properties(${name}_rights PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "unit;${arg_LABELS}"
      SKIP_REGULAR_EXPRESSION "skipped: ")
  else()
    add_test(NAME ${name} COMMAND ${name} ${all_cases})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "unit;${arg_LABELS}")
endfunction()
