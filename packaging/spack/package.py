# SPDX-License-Identifier: Apache-2.0
"""Spack recipe: spack repo create llmtrain-repo; copy this folder to llmtrain-repo/packages/llmtrain; spack dev-build
llmtrain@0.1.0 in the sources."""
from spack.package import *


class Llmtrain(CMakePackage):
    """Training orchestrator for large language models: one recipe, planned and trained by one program."""

    license("Apache-2.0")
    version("0.1.0")

    variant("cuda", default=False, description="Build the parts for GPUs")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("cli11@2.1:")
    depends_on("nlohmann-json@3.11:")
    depends_on("spdlog@1.10: +shared fmt_external=True")
    depends_on("openssl@3:")
    depends_on("onednn@2.6: cpu_runtime=omp")
    depends_on("pcre2@10.42:")
    depends_on("utf8proc@2.8:")
    depends_on("sentencepiece@0.1.97:")
    depends_on("libedit")
    depends_on("boost@1.74:")
    depends_on("zlib-api")
    depends_on("zstd@1.5:")
    depends_on("openmpi@4.1:")
    depends_on("py-torch@2.11")
    depends_on("py-torch +cuda", when="+cuda")
    depends_on("cuda@13:", when="+cuda")
    depends_on("nccl@2.28:", when="+cuda")

    conflicts("%gcc@:11")

    generator("ninja")

    def cmake_args(self):
        # py-torch keeps LibTorch inside its Python package.
        torch = join_path(self.spec["python"].package.platlib, "torch")
        return [
            self.define("BUILD_TESTING", False),
            self.define("LLMTRAIN_BUNDLE_LIBTORCH", False),
            self.define("LIBTORCH_INCLUDE_DIR", join_path(self.spec["py-torch"].prefix, torch, "include")),
            self.define("LIBTORCH_CPU_LIBRARY",
                        join_path(self.spec["py-torch"].prefix, torch, "lib", "libtorch_cpu.so")),
        ]
