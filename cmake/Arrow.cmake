# SPDX-License-Identifier: Apache-2.0
# Finds Arrow's and Parquet's libraries with their headers in the PyPI wheel pyarrow, which scripts/setup puts into
# .deps, or in the folder LLMTRAIN_PYARROW. Makes the target arrow where they are found; without it all but Parquet and
# Arrow files can be read.
file(GLOB pyarrow_roots ${CMAKE_SOURCE_DIR}/.deps/python/lib/python3*/site-packages/pyarrow)
set(LLMTRAIN_PYARROW "" CACHE PATH "The folder of the Python package pyarrow, where it is not in .deps")
find_path(ARROW_INCLUDE_DIR parquet/arrow/reader.h HINTS ${LLMTRAIN_PYARROW} ${pyarrow_roots} PATH_SUFFIXES include
  NO_DEFAULT_PATH)
if(ARROW_INCLUDE_DIR)
  get_filename_component(arrow_folder ${ARROW_INCLUDE_DIR} DIRECTORY)
  # Their names end in the version, which the headers are of.
  file(GLOB arrow_libraries ${arrow_folder}/libarrow.so.* ${arrow_folder}/libparquet.so.*)
  cmake_path(IS_PREFIX CMAKE_SOURCE_DIR "${arrow_folder}" NORMALIZE arrow_is_in_tree)
  add_library(arrow INTERFACE)
  target_include_directories(arrow SYSTEM INTERFACE ${ARROW_INCLUDE_DIR})
  target_link_libraries(arrow INTERFACE ${arrow_libraries})
else()
  message(STATUS "Parquet and Arrow files cannot be read: pyarrow was not found; scripts/setup installs it")
endif()
