# SPDX-License-Identifier: Apache-2.0
# cmake --install: the program in bin, what it loads in lib/llmtrain, what it reads in share/llmtrain. It finds them from
# where it lies itself, so an installation may be copied to another prefix. Five components: program, gpu (its parts for
# GPUs), libtorch (large), libtorch_gpu (ten times as large, and asked for) and development (what find_package(llmtrain)
# finds).
include(CMakePackageConfigHelpers)
set(llmtrain_library_folder ${CMAKE_INSTALL_LIBDIR}/llmtrain)
set(llmtrain_data_folder ${CMAKE_INSTALL_DATADIR}/llmtrain)
set(llmtrain_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/llmtrain)
set(llmtrain_header_folder ${CMAKE_INSTALL_INCLUDEDIR}/llmtrain)
file(RELATIVE_PATH LLMTRAIN_LIBRARY_FOLDER_FROM_PROGRAM ${CMAKE_INSTALL_FULL_BINDIR}
  ${CMAKE_INSTALL_FULL_LIBDIR}/llmtrain)
file(RELATIVE_PATH LLMTRAIN_DATA_FOLDER_FROM_PROGRAM ${CMAKE_INSTALL_FULL_BINDIR}
  ${CMAKE_INSTALL_FULL_DATADIR}/llmtrain)

# The wheel in .deps goes away with the source tree; a LibTorch that the user chose stays where it is.
option(LLMTRAIN_BUNDLE_LIBTORCH "Install LibTorch's libraries for the CPU beside the program's" ${libtorch_is_in_tree})

option(LLMTRAIN_BUNDLE_GPU "Install LibTorch's and NVIDIA's libraries for GPUs beside the program's, several GiB" OFF)

# The planner and all that it is made of: the libraries that a program of someone else's can link.
set(llmtrain_public_libraries core_arena core_base core_scratch core_residency core_json core_page core_recipe core_body core_body_families core_body_passes
  core_body_parts core_graph parallel_schedule parallel_layout plan_accuracy plan_simulator plan_profile plan_cost plan_memory plan_report
  plan_report_html planner plan_search)
set(llmtrain_public_folders core/arena core/base core/scratch core/residency core/json core/page core/recipe core/body core/graph parallel/schedule
  parallel/layout parallel/plan)

function(llmtrain_install_program)
  # By its run path the program finds the parts for tables and images.
  set_target_properties(llmtrain PROPERTIES INSTALL_RPATH "$ORIGIN/${LLMTRAIN_LIBRARY_FOLDER_FROM_PROGRAM}")
  install(TARGETS llmtrain RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  foreach(library IN ITEMS llmtrain_runtime llmtrain_onednn llmtrain_arrow llmtrain_images llmtrain_mpi llmtrain_cuda
      llmtrain_nccl)
    if(NOT TARGET ${library})
      continue()
    endif()
    # The link path: GPU libraries, and a LibTorch that is not bundled, are used where the build found them.
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
    set(component program)
    if(library MATCHES "cuda|nccl")
      set(component gpu)
    endif()
    install(TARGETS ${library} LIBRARY DESTINATION ${llmtrain_library_folder} COMPONENT ${component})
  endforeach()
  # Where they are bundled, LibTorch's libraries are not looked for in the source tree: what was copied must suffice.
  if(LLMTRAIN_BUNDLE_LIBTORCH)
    foreach(library IN ITEMS llmtrain_runtime llmtrain_mpi)
      set_target_properties(${library} PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF)
    endforeach()
  endif()
  llmtrain_find_gpu_libraries()
endfunction()

# How installed parts for GPUs find their libraries: beside them if those are bundled, else where the build found them.
# CMake's link path leaves out what lies in the source tree, as the wheel does.
function(llmtrain_find_gpu_libraries)
  foreach(library IN ITEMS llmtrain_cuda llmtrain_nccl)
    if(NOT TARGET ${library})
      continue()
    endif()
    if(LLMTRAIN_BUNDLE_GPU)
      set_target_properties(${library} PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF)
      continue()
    endif()
    set(folders ${libtorch_folder})
    if(library STREQUAL llmtrain_nccl)
      get_filename_component(folders ${NCCL_LIBRARY} DIRECTORY)
    endif()
    set_property(TARGET ${library} APPEND PROPERTY INSTALL_RPATH ${folders})
  endforeach()
endfunction()

# Beside the part that links them, where they would go away with the source tree; else the part finds them by its link
# path.
function(llmtrain_install_arrow)
  if(TARGET llmtrain_arrow AND arrow_is_in_tree)
    install(PROGRAMS ${arrow_libraries} DESTINATION ${llmtrain_library_folder} COMPONENT libtorch)
    file(GLOB licences ${arrow_folder}/../pyarrow-*/licenses/LICENSE.txt ${arrow_folder}/../pyarrow-*/licenses/NOTICE.txt)
    install(FILES ${licences} DESTINATION ${CMAKE_INSTALL_DOCDIR}/arrow COMPONENT libtorch)
  endif()
endfunction()

# Takes from the wheel only what a process without a GPU loads. The rest is several times as large, and a machine with
# GPUs has the build that found it.
function(llmtrain_install_libtorch)
  get_filename_component(folder ${LIBTORCH_CPU_LIBRARY} DIRECTORY)
  file(GLOB cuda_stubs ${folder}/../../nvidia/cu*/lib/libcudart.so.* ${folder}/../../nvidia/cu*/lib/libcupti.so.*)
  install(PROGRAMS ${LIBTORCH_CPU_LIBRARY} ${folder}/libc10.so ${cuda_stubs} DESTINATION ${llmtrain_library_folder}
    COMPONENT libtorch)
  file(GLOB licences ${folder}/../../torch-*/licenses/LICENSE ${folder}/../../torch-*/LICENSE)
  install(FILES ${licences} DESTINATION ${CMAKE_INSTALL_DOCDIR}/libtorch COMPONENT libtorch)
endfunction()

# All into one folder, where each finds the others by "$ORIGIN", which is in their run paths beside the wheel's folders.
function(llmtrain_install_gpu_libraries)
  get_filename_component(folder ${LIBTORCH_CPU_LIBRARY} DIRECTORY)
  file(GLOB libraries ${folder}/libtorch_cuda*.so ${folder}/libc10_cuda.so ${folder}/libtorch_nvshmem.so
    ${folder}/libcaffe2_nvrtc.so ${folder}/../../nvidia/*/lib/*.so ${folder}/../../nvidia/*/lib/*.so.*)
  # A toolkit's NCCL, where the wheel has none.
  if(NOT libraries MATCHES "libnccl" AND NCCL_LIBRARY)
    file(REAL_PATH ${NCCL_LIBRARY} nccl)
    install(PROGRAMS ${nccl} DESTINATION ${llmtrain_library_folder} RENAME libnccl.so.2 COMPONENT libtorch_gpu)
  endif()
  install(PROGRAMS ${libraries} DESTINATION ${llmtrain_library_folder} COMPONENT libtorch_gpu)
endfunction()

function(llmtrain_install_data)
  install(DIRECTORY recipes DESTINATION ${llmtrain_data_folder} COMPONENT program
    PATTERN local.json EXCLUDE)
  # recipes/quickstart.json trains on these files, whatever they contain.
  install(DIRECTORY core kernels parallel apps tests docs DESTINATION ${llmtrain_data_folder} COMPONENT program
    PATTERN __pycache__ EXCLUDE)
  configure_file(cmake/install_texts.cmake.in ${CMAKE_BINARY_DIR}/packaging/install_texts.cmake.in @ONLY)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/packaging/install_texts.cmake
    INPUT ${CMAKE_BINARY_DIR}/packaging/install_texts.cmake.in)
  install(SCRIPT ${CMAKE_BINARY_DIR}/packaging/install_texts.cmake COMPONENT program)
  install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
  install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT program)
endfunction()

function(llmtrain_install_package)
  install(TARGETS llmtrain_options ${llmtrain_public_libraries} EXPORT llmtrainTargets
    ARCHIVE DESTINATION ${llmtrain_library_folder} COMPONENT development)
  # What runs bodies needs LibTorch.
  foreach(folder IN LISTS llmtrain_public_folders)
    install(DIRECTORY ${folder}/ DESTINATION ${llmtrain_header_folder}/${folder} COMPONENT development
      FILES_MATCHING PATTERN "*.h" PATTERN run EXCLUDE)
  endforeach()
  install(EXPORT llmtrainTargets NAMESPACE llmtrain:: DESTINATION ${llmtrain_package_folder} COMPONENT development)
  configure_package_config_file(cmake/llmtrainConfig.cmake.in ${CMAKE_BINARY_DIR}/packaging/llmtrainConfig.cmake
    INSTALL_DESTINATION ${llmtrain_package_folder})
  # Before version 1.0 a minor version may change a header.
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/packaging/llmtrainConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/packaging/llmtrainConfig.cmake
    ${CMAKE_BINARY_DIR}/packaging/llmtrainConfigVersion.cmake
    DESTINATION ${llmtrain_package_folder} COMPONENT development)
endfunction()

# Called last: it installs targets of all folders.
function(llmtrain_install)
  llmtrain_install_program()
  llmtrain_install_data()
  llmtrain_install_package()
  llmtrain_install_arrow()
  if(LLMTRAIN_BUNDLE_LIBTORCH)
    llmtrain_install_libtorch()
  endif()
  if(LLMTRAIN_BUNDLE_GPU AND TARGET llmtrain_cuda)
    llmtrain_install_gpu_libraries()
  endif()
endfunction()
