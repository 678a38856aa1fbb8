# SPDX-License-Identifier: Apache-2.0
"""scripts/check_style.py must find every kind of violation."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_style.py"
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


def function(lines, head="void f() {"):
    """A function of this many lines."""
    return head + "\n" + "  call();\n" * (lines - 2) + "}\n"


class CheckStyleTest(unittest.TestCase):
    def problems(self, text, name="core/a.cpp"):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            result = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.returncode, 1 if result.stdout else 0)
        return result.stdout.splitlines()

    def assert_long_function(self, text, line, count):
        expected = f"core/a.cpp:{line}: a function of {count} lines; 60 are allowed: split it into parts"
        self.assertEqual(self.problems(LICENCE + text), [expected])

    def test_good_file_passes(self):
        self.assertEqual(self.problems(LICENCE + function(60)), [])

    def test_licence_is_required(self):
        self.assertEqual(
            self.problems("int a;\n"), ["core/a.cpp:1: the first line must hold SPDX-License-Identifier: Apache-2.0"]
        )

    def test_licence_may_follow_the_interpreter(self):
        self.assertEqual(self.problems("#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\n", "scripts/tool"), [])

    def test_file_of_401_lines_fails(self):
        self.assertEqual(self.problems(LICENCE + "\n" * 399), [])
        self.assertEqual(len(self.problems(LICENCE + "\n" * 400)), 1)

    def test_classes_of_one_name_fail_but_in_other_namespaces(self):
        def named(namespace, text="struct Row {\n  int a;\n};"):
            return f"{LICENCE}namespace {namespace}{{\n{text}\n}}  // namespace\n"

        def found(*texts):
            with tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "core").mkdir()
                for number, text in enumerate(texts):
                    pathlib.Path(folder, f"core/{number}.h").write_text(text)
                return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True).stdout

        self.assertIn("core/1.h: llm::Row is defined in core/0.h, too", found(named("llm "), named("llm ")))
        self.assertIn("llm::Row", found(named("llm "), named("llm ", "enum class Row : char { a };")))
        self.assertIn("llm::Row", found(named("llm "), named("llm ", "class Row final : public Other {\n};")))
        for other in (named("llm::body "), named("llm ", "namespace {\nstruct Row {\n};\n}  // namespace"),
                      named("llm ", "struct Row;"), named("llm ", "struct Row::Part {\n};"), named("llm ", "Row row{};")):
            with self.subTest(other):
                self.assertEqual(found(named("llm "), other), "")

    def test_unfinished_work_fails(self):
        for word in ("TO" "DO", "FIX" "ME"):
            with self.subTest(word):
                self.assertEqual(len(self.problems(f"{LICENCE}// {word}: later\n")), 1)

    def test_comments_that_depend_on_their_declaration_fail(self):
        begin = "O" "f the last rank."
        texts = (f"// {begin}\nint a;\n", f"struct A {{\n  // {begin}\n  int a;\n}};\n", f"int a;  // {begin}\n",
                 f"/// {begin}\nint a;\n", f"int b;\n// {begin}\n// More.\nint a;\n")
        for text in texts:
            with self.subTest(text):
                self.assertEqual(len(self.problems(LICENCE + text)), 1)
        licence = LICENCE.replace("//", "#")
        for text in (f"# {begin}\na = 1\n", f'def f():\n    """{begin}"""\n', f"a = 1  # {begin}\n"):
            with self.subTest(text):
                self.assertEqual(len(self.problems(licence + text, "scripts/a.py")), 1)

    def test_sentences_within_comments_may_begin_as_they_like(self):
        text = "// A long sentence.\n// O" "f its words some.\nint a;  // of the last rank\n// Offsets.\nint b;\n"
        self.assertEqual(self.problems(LICENCE + text), [])

    def test_cores_are_counted_in_one_place(self):
        text = LICENCE + "int n = std::thread::hardware_concurrency();\n"
        self.assertEqual(self.problems(text, "core/machine/processor.cpp"), [])
        self.assertEqual(len(self.problems(text, "core/data/processor.cpp")), 1)

    def test_function_of_61_lines_fails(self):
        self.assert_long_function(function(61), 2, 61)

    def test_function_in_a_namespace_and_a_class_fails(self):
        self.assert_long_function("namespace a {\nclass B {\n" + function(61) + "};\n}\n", 4, 61)

    def test_template_function_fails(self):
        self.assert_long_function(function(61, "template <class A, class B = vector<A>> void f(enum C c) {"), 2, 61)

    def test_function_of_c_fails(self):
        self.assert_long_function(function(61, 'extern "C" void f() {'), 2, 61)
        self.assert_long_function('extern "C" {\n' + function(61) + "}\n", 3, 61)

    def test_constructor_with_braced_members_fails(self):
        self.assert_long_function(function(61, "A::A() : a_{1}, b_{2} {"), 2, 61)

    def test_braces_in_text_and_comments_do_not_count(self):
        text = "void f() {\n  g(\"}\", '{', R\"x(}})x\"); // }\n  /* } */\n" + "  call();\n" * 60 + "}\n"
        self.assert_long_function(text, 2, 64)

    def test_adjacent_functions_are_counted_separately(self):
        self.assertEqual(self.problems(LICENCE + function(50) + function(50) + "struct A { int a{1}; };\n" + function(50)), [])

    def test_python_function_of_61_lines_fails(self):
        text = "# SPDX-License-Identifier: Apache-2.0\ndef f():\n" + "    call()\n" * 60
        self.assertEqual(len(self.problems(text, "scripts/a.py")), 1)

    def document_problems(self, text, name="docs/a.md"):
        """Checks a document in a tree with core/a.h, core/b_c.cpp and recipes/local.json, which is ignored."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for file, content in ((name, text), ("core/a.h", LICENCE), ("core/b_c.cpp", LICENCE), ("recipes/a.json", "{}"),
                                  (".gitignore", "/build*/\nrecipes/local.json\n"), ("build/x.h", LICENCE)):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(content)
            return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True).stdout.splitlines()

    def test_paths_that_documents_name_exist(self):
        there = ("core/a.h", "core/a", "core/", "core/a.{h}", "core/NAME_c.cpp", "core/*.cpp", "a.h", "core/a.h --flag",
                 "recipes/local.json", "build/x.h", "build/none", "other/none.h", "/proc", "a/b", "parallel.tensor")
        self.assertEqual(self.document_problems("".join(f"`{name}` and\n" for name in there)), [])
        missing = ("core/none.h", "core/a.{h,cpp}", "core/NAME_d.cpp", "none.h", "core/d/", "recipes/none.json", "x.h")
        text = "A\n" + "".join(f"`b` and `{name}`\n" for name in missing)
        for document in ("docs/a.md", "README.md"):
            self.assertEqual(self.document_problems(text, document),
                             [f"{document}:{line}: {name} does not exist" for line, name in enumerate(missing, 2)])
        self.assertEqual(self.document_problems("```\n`core/none.h`\n```\n"), [])

    def folder_problems(self, folder, files, ignored=0):
        """Checks a folder of a checkout with so many files, one of them not committed, and others that git ignores."""
        with tempfile.TemporaryDirectory() as root:
            inside = pathlib.Path(root, folder)
            inside.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "init", "--quiet", root], check=True)
            for number in range(files - 1):
                (inside / f"{number}.txt").write_text("")
            subprocess.run(["git", "-C", root, "add", "--all"], check=True)
            (inside / "new.txt").write_text("")
            for number in range(ignored):
                (inside / f"{number}.pyc").write_text("")
            pathlib.Path(root, ".git/info/exclude").write_text("*.pyc\n")
            result = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.returncode, 1 if result.stdout else 0)
        return result.stdout.splitlines()

    def test_folder_of_31_files_fails(self):
        self.assertEqual(self.folder_problems("core/data", 30, ignored=5), [])
        self.assertEqual(
            self.folder_problems("core/data", 31),
            ["core/data: 31 files; 30 are allowed: move those of one idea to a folder of their own"],
        )
        self.assertEqual(len(self.folder_problems(".", 31)), 1)

    def test_removed_files_and_those_of_subfolders_do_not_count(self):
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "--quiet", root], check=True)
            for folder in ("docs", "docs/images"):
                pathlib.Path(root, folder).mkdir()
                for number in range(30):
                    pathlib.Path(root, folder, f"{number}.txt").write_text("")
            pathlib.Path(root, "docs/removed.txt").write_text("")
            subprocess.run(["git", "-C", root, "add", "--all"], check=True)
            pathlib.Path(root, "docs/removed.txt").unlink()
            result = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
        self.assertEqual((result.stdout, result.returncode), ("", 0))

    def test_built_files_are_skipped(self):
        self.assertEqual(self.problems("int a;\n", "build-asan/a.cpp"), [])


if __name__ == "__main__":
    unittest.main()
