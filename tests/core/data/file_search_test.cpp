// SPDX-License-Identifier: Apache-2.0
#include "core/data/file_search.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Names = std::vector<std::string>;

// A tree with every kind of file, to be searched by relative patterns.
class Tree {
 public:
  Tree() {
    for (const std::string name : {"b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "sub/e.md", "sub-x/f.txt"})
      write(name);
    for (const std::string name : {".git/g.txt", "sub/.hidden.txt", "build/h.txt", "build-asan/i.txt"}) write(name);
    for (const std::string name : {"builder/j.txt", "sub/build/k.txt", ".deps/l.txt"}) write(name);
    folder_.write("sub/picture.txt", std::string("PNG\0", 4));
    folder_.write("t_1.bin", std::string(4, '\0'));
    folder_.write("t_0.bin", "abcd");
  }

  Names find(const std::string& pattern) const {
    Names names;
    for (const auto& file : find_files(absolute(pattern))) {
      names.push_back(file.lexically_relative(folder_.path()).string());
    }
    return names;
  }

  std::string absolute(const std::string& pattern) const { return (folder_.path() / pattern).string(); }
  const TemporaryDirectory& folder() const { return folder_; }

 private:
  void write(const std::string& name) { folder_.write(name, "text"); }

  TemporaryDirectory folder_;
};

}  // namespace

TEST_CASE("A file's path matches that file") {
  const Tree tree;
  CHECK(tree.find("a.txt") == Names{"a.txt"});
  CHECK(tree.find(".git/g.txt") == Names{".git/g.txt"});
  CHECK(tree.find("sub/picture.txt") == Names{"sub/picture.txt"});
  CHECK(tree.find("t_1.bin") == Names{"t_1.bin"});
}

TEST_CASE("A folder matches every text file below it, ordered by the bytes of their paths") {
  const Names below{"a.txt", "b.txt", "builder/j.txt", "sub-x/f.txt", "sub/c.txt", "sub/deep/d.txt", "sub/e.md"};
  const Tree tree;
  CHECK(tree.find("") == below);
  CHECK(tree.find("sub/") == Names{"sub/c.txt", "sub/deep/d.txt", "sub/e.md"});
  CHECK(tree.find("**") == below);
}

TEST_CASE("A folder that is named is searched even if hidden or a build folder") {
  const Tree tree;
  CHECK(tree.find(".git") == Names{".git/g.txt"});
  CHECK(tree.find("build") == Names{"build/h.txt"});
}

TEST_CASE("Wildcards match within one path component") {
  const Tree tree;
  CHECK(tree.find("*.txt") == Names{"a.txt", "b.txt"});
  CHECK(tree.find("?.txt") == Names{"a.txt", "b.txt"});
  CHECK(tree.find("[b-z].txt") == Names{"b.txt"});
  CHECK(tree.find("*/*.txt") == Names{"builder/j.txt", "sub-x/f.txt", "sub/c.txt"});
  CHECK(tree.find("s*/e.??") == Names{"sub/e.md"});
}

TEST_CASE("Two stars match any number of folders, including none") {
  const Tree tree;
  CHECK(tree.find("**/*.md") == Names{"sub/e.md"});
  CHECK(tree.find("**/[ad].txt") == Names{"a.txt", "sub/deep/d.txt"});
  CHECK(tree.find("sub/**/d.txt") == Names{"sub/deep/d.txt"});
  CHECK(tree.find("sub/**/deep/**/*.txt") == Names{"sub/deep/d.txt"});
  CHECK(tree.find("**/**/e.md") == Names{"sub/e.md"});
}

TEST_CASE("A pattern that spells a hidden or build folder finds it") {
  const Tree tree;
  CHECK(tree.find("build*/*.txt") == Names{"build-asan/i.txt", "build/h.txt", "builder/j.txt"});
  CHECK(tree.find(".*/*.txt") == Names{".deps/l.txt", ".git/g.txt"});
  CHECK(tree.find("*/build/*") == Names{"sub/build/k.txt"});
}

TEST_CASE("Token files are found by a pattern that ends in .bin") {
  const Tree tree;
  CHECK(tree.find("*.bin") == Names{"t_0.bin", "t_1.bin"});
  require_error(ExitCode::bad_data, {tree.absolute("t_*"), "no usable file", ".bin"}, [&] { tree.find("t_*"); });
}

TEST_CASE("An existing name with wildcard characters is taken literally") {
  const Tree tree;
  tree.folder().write("x[1].txt", "text");
  CHECK(tree.find("x[1].txt") == Names{"x[1].txt"});
}

TEST_CASE("Folders of a pattern that exist by their names are no pattern") {
  const Tree tree;
  for (const std::string name : {"[x]/a.txt", "[x]/[y]/b.txt", "[x]/y/c.txt", "x/d.txt"})
    tree.folder().write(name, "t");
  CHECK(tree.find("[x]/*.txt") == Names{"[x]/a.txt"});
  CHECK(tree.find("[x]/**/*.txt") == Names{"[x]/[y]/b.txt", "[x]/a.txt", "[x]/y/c.txt"});
  CHECK(tree.find("[x]/[y]/?.txt") == Names{"[x]/[y]/b.txt"});
  CHECK(tree.find("[x]/[yz]/?.txt") == Names{"[x]/y/c.txt"});
  CHECK(tree.find("[xz]/?.txt") == Names{"x/d.txt"});
}

TEST_CASE("A NUL byte counts only in the first 8 KiB") {
  const TemporaryDirectory folder;
  folder.write("a", std::string(8191, 'x') + '\0');
  folder.write("b", std::string(8192, 'x') + '\0');
  CHECK(find_files(folder.path().string()) == std::vector<std::filesystem::path>{folder.path() / "b"});
}

TEST_CASE("Links to files count as files, links to folders are not descended into, broken links are skipped") {
  const TemporaryDirectory folder;
  const auto file = folder.write("real/a.txt", "text");
  std::filesystem::create_symlink(file, folder.path() / "link.txt");
  std::filesystem::create_symlink(folder.path() / "gone", folder.path() / "broken.txt");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "real/loop");
  CHECK(find_files(folder.path().string()) == std::vector{folder.path() / "link.txt", file});
  CHECK(find_files((folder.path() / "real/loop/*.txt").string()) == std::vector{folder.path() / "real/loop/link.txt"});
}

TEST_CASE("A file that does not exist is missing input") {
  const Tree tree;
  for (const std::string name : {"nothing.txt", "none/a.txt", "a.txt/below", ""}) {
    const std::string path = name.empty() ? "" : tree.absolute(name);
    require_error(ExitCode::missing_input, {"'" + path + "'", "no such file"}, [&] { find_files(path); });
  }
}

TEST_CASE("An address is not looked for in vain") {
  for (const char* const path : {"https://example.org/a.txt", "/recipes/https:/example.org/a.txt", "s3://bucket/a.bin"})
    require_error(ExitCode::missing_input, {path, "no such file", "download"}, [&] { find_files(path); });
}

TEST_CASE("A glob without match is missing input") {
  const Tree tree;
  for (const std::string pattern : {"*.csv", "none/*.txt", "**/*.csv", "a.txt/*"}) {
    const std::string path = tree.absolute(pattern);
    require_error(ExitCode::missing_input, {"'" + path + "'", "no file matches"}, [&] { find_files(path); });
  }
}

TEST_CASE("A folder without a usable file is bad data") {
  const TemporaryDirectory folder;
  const std::string path = folder.path().string();
  require_error(ExitCode::bad_data, {path, "no usable file", "0 examined"}, [&] { find_files(path); });
  folder.write("a.png", std::string("\0", 1));
  folder.write("b.bin", "text");
  require_error(ExitCode::bad_data, {path, "no usable file", "2 examined"}, [&] { find_files(path); });
}

TEST_CASE("Anything that is neither file nor folder is bad data, and reading does not block") {
  const TemporaryDirectory folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  folder.write("a.txt", "text");
  require_error(ExitCode::bad_data, {pipe.string(), "neither a file nor a folder"}, [&] { find_files(pipe.string()); });
  require_error(ExitCode::bad_data, {"/dev/null", "neither"}, [] { find_files("/dev/null"); });
  CHECK(find_files(folder.path().string()).size() == 1);
}

TEST_CASE("A link to itself is bad data") {
  const TemporaryDirectory folder;
  const auto link = folder.path() / "self";
  std::filesystem::create_symlink(link, link);
  require_error(ExitCode::bad_data, {link.string(), "cannot be opened"}, [&] { find_files(link.string()); });
}

}  // namespace llmtrain::test
