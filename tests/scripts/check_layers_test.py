# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layers.py must find every kind of violation."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers.py"

TREE = {
    "core/base/CMakeLists.txt": "llmtrain_library(core_base SOURCES error.cpp PACKAGES spdlog::spdlog)\n",
    "core/base/error.h": "#include <string>\n",
    "core/base/error.cpp": '#include "core/base/error.h"\n',
    "core/graph/CMakeLists.txt": "# core_model\nllmtrain_library(core_graph SOURCES graph.cpp\n  DEPENDS core_base)\n",
    "core/graph/graph.h": '#include "core/base/error.h"\n',
    "core/graph/graph.cpp": '#include "core/graph/graph.h"\n',
    "kernels/CMakeLists.txt": "llmtrain_library(kernels SOURCES ${vector_objects} PACKAGES libtorch)\n",
    "kernels/norm.h": "#include <ATen/Tensor.h>\n",
    "kernels/vector/norm.cpp": '#include "kernels/norm.h"\n',
    "core/model/CMakeLists.txt": "llmtrain_library(core_model SOURCES model.cpp DEPENDS core_graph kernels)\n",
    "core/model/model.cpp": '#include "core/base/error.h"\n#include "kernels/norm.h"\n',
    "apps/llmtrain/CMakeLists.txt": "add_executable(llmtrain main.cpp)\n"
    "target_link_libraries(llmtrain PRIVATE core_graph)\n"
    "add_library(runtime SHARED runtime.cpp)\ntarget_link_libraries(runtime PRIVATE core_model)\n",
    "apps/llmtrain/main.cpp": '#include "apps/llmtrain/command.h"\n',
    "apps/llmtrain/command.h": '#include "core/graph/graph.h"\n',
    "apps/llmtrain/runtime.cpp": '#include "apps/llmtrain/command.h"\n#include "kernels/norm.h"\n',
    "tests/CMakeLists.txt": "add_library(test_support STATIC support/main.cpp)\n",
    "tests/support/main.cpp": "",
    "tests/support/folder.h": "",
    "tests/core/graph/CMakeLists.txt": "llmtrain_test(core_graph_test SOURCES graph_test.cpp DEPENDS core_graph)\n",
    "tests/core/graph/graph_test.cpp": '#include "core/graph/graph.h"\n#include "tests/support/folder.h"\n',
}


class CheckLayersTest(unittest.TestCase):
    def run_on(self, changes):
        """The exit status and output lines of a run on the tree with these files changed."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**TREE, **changes}.items():
                file = pathlib.Path(folder, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            result = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def assert_fails(self, changes, *lines):
        self.assertEqual(self.run_on(changes), (1, sorted(lines)))

    def test_tree_in_order_passes(self):
        self.assertEqual(self.run_on({}), (0, []))

    def test_include_of_a_folder_above_fails(self):
        self.assert_fails(
            {"core/base/error.cpp": '\n#include "core/graph/graph.h"\n'},
            "core/base/error.cpp:2: core/graph/graph.h is in core/graph, which core_base does not depend on",
        )

    def test_include_in_a_header_fails(self):
        self.assert_fails(
            {"kernels/norm.h": '#include "core/base/error.h"\n'},
            "kernels/norm.h:1: core/base/error.h is in core/base, which kernels does not depend on",
        )

    def test_include_in_a_source_that_cmake_lists_in_a_variable_fails(self):
        self.assert_fails(
            {"kernels/vector/norm.cpp": "#  include <core/base/error.h>\n"},
            "kernels/vector/norm.cpp:1: core/base/error.h is in core/base, which kernels does not depend on",
        )

    def test_dependencies_are_transitive_and_read_from_cmake(self):
        changes = {"core/model/CMakeLists.txt": "llmtrain_library(core_model SOURCES model.cpp DEPENDS kernels)\n"}
        expected = "core/model/model.cpp:1: core/base/error.h is in core/base, which core_model does not depend on"
        self.assertIn(expected, self.run_on(changes)[1])

    def test_libtorch_in_a_light_folder_fails(self):
        for header in ("ATen/ATen.h", "torch/torch.h", "c10/core/Device.h", "mpi.h", "cuda_runtime.h", "nccl.h"):
            with self.subTest(header):
                status, lines = self.run_on({"core/graph/graph.cpp": f"#include <{header}>\n"})
                self.assertEqual(status, 1)
                self.assertIn(
                    f"core/graph/graph.cpp:1: {header} must not be reachable from core_graph (via core/graph/graph.cpp)", lines
                )

    def test_libtorch_via_a_header_of_the_project_fails(self):
        status, lines = self.run_on({"apps/llmtrain/command.h": '#include "kernels/norm.h"\n'})
        self.assertEqual(status, 1)
        self.assertIn("apps/llmtrain/main.cpp > apps/llmtrain/command.h > kernels/norm.h", lines[-1])

    def test_program_must_not_include_what_only_its_neighbour_depends_on(self):
        status, lines = self.run_on({"apps/llmtrain/main.cpp": '#include "core/model/model.h"\n', "core/model/model.h": ""})
        expected = "apps/llmtrain/main.cpp:1: core/model/model.h is in core/model, which llmtrain does not depend on"
        self.assertEqual((status, lines), (1, [expected]))

    def test_interface_gives_access_only_to_the_headers_that_it_lists(self):
        changes = {
            "core/model/CMakeLists.txt": TREE["core/model/CMakeLists.txt"] + "add_library(entry INTERFACE entry.h)\n",
            "core/model/entry.h": "",
            "core/model/model.h": "",
            "apps/llmtrain/CMakeLists.txt": TREE["apps/llmtrain/CMakeLists.txt"].replace("core_graph", "core_graph entry"),
            "apps/llmtrain/main.cpp": '#include "core/model/entry.h"\n',
        }
        self.assertEqual(self.run_on(changes), (0, []))
        changes["apps/llmtrain/main.cpp"] = '#include "core/model/model.h"\n'
        expected = "apps/llmtrain/main.cpp:1: core/model/model.h is in core/model, which llmtrain does not depend on"
        self.assertEqual(self.run_on(changes), (1, [expected]))

    def test_libtorch_in_what_a_light_target_links_fails(self):
        changes = {"core/graph/CMakeLists.txt": "llmtrain_library(core_graph SOURCES graph.cpp DEPENDS core_base tool)\n"}
        changes["core/tool/CMakeLists.txt"] = "llmtrain_library(tool SOURCES tool.cpp)\n"
        changes["core/tool/tool.cpp"] = "#include <ATen/ATen.h>\n"
        self.assert_fails(changes, "core/tool/tool.cpp:1: ATen/ATen.h must not be reachable from tool (via core/tool/tool.cpp)")

    def test_test_of_a_lower_folder_must_not_include_an_upper_one(self):
        self.assert_fails(
            {"tests/core/graph/graph_test.cpp": '#include "kernels/norm.h"\n'},
            "tests/core/graph/graph_test.cpp:1: kernels/norm.h is in kernels, which core_graph_test does not depend on",
        )

    def test_missing_header_fails(self):
        self.assert_fails(
            {"core/base/error.cpp": '#include "core/base/eror.h"\n'},
            "core/base/error.cpp:1: core/base/eror.h is not a file of the project",
        )

    def test_file_of_no_target_fails(self):
        self.assert_fails(
            {"core/lost/lost.h": ""},
            "core/lost/lost.h: belongs to no target: list it in its folder's CMakeLists.txt",
        )


if __name__ == "__main__":
    unittest.main()
