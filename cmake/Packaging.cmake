# SPDX-License-Identifier: Apache-2.0
# cpack, in the build folder, makes llmtrain_VERSION_amd64.deb. It holds LibTorch's libraries for the CPU, because no
# Debian package of that version exists, and needs nothing from PyPI. The parts for GPUs are left out, unless the build
# bundles the several GiB of NVIDIA's libraries that they load (LLMTRAIN_BUNDLE_GPU): they would find none.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME llmtrain)
set(CPACK_PACKAGE_CONTACT "The llmtrain authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL program libtorch development)
if(LLMTRAIN_BUNDLE_GPU)
  list(APPEND CPACK_COMPONENTS_ALL gpu libtorch_gpu)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nlohmann-json3-dev, libspdlog-dev, libssl-dev")
# xz takes minutes for LibTorch, and Debian 12's dpkg reads zstd.
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
# The other dependencies are read from the files; these folders hold what the package brings itself.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
file(GLOB CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${libtorch_folder} ${arrow_folder}
  ${libtorch_folder}/../../nvidia/*/lib)
include(CPack)
