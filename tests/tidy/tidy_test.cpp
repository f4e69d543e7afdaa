// Every rule is broken once in a small tree, beside a near miss that it must let pass: a check that
// cannot fail is worth nothing, and one that fires at innocent code is soon switched off.
#include "tests/tidy/tidy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace ds4::tidy {
namespace {
namespace fs = std::filesystem;

class Tidy : public testing::Test {
 protected:
  Tidy() {
    std::string pattern = (fs::temp_directory_path() / "ds4_tidy.XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    write("src/base/check.h", "#pragma once\n");
    write("src/tensor/tensor.h", "#pragma once\n#include \"base/check.h\"\n");
  }
  ~Tidy() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << text;
  }

  void git(const std::string& arguments) {
    const std::string command =
        "git -C '" + root_.string() + "' " + arguments + " > /dev/null 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  // The findings of `rule`, "path:line" each, in order.
  std::vector<std::string> found(const std::string& rule) {
    std::vector<std::string> lines;
    for (const Finding& f : run_rules(read_tree(root_))) {
      if (f.rule == rule) lines.push_back(f.path + ":" + std::to_string(f.line));
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  fs::path root_;
};

TEST_F(Tidy, CleanTreeHasNoFindings) {
  write("src/gguf/file.cpp", "#include \"tensor/tensor.h\"\n#include <string>\n");
  for (const Finding& f : run_rules(read_tree(root_))) ADD_FAILURE() << f.path << ": " << f.message;
}

TEST_F(Tidy, RoomMayNotIncludeToItsRight) {
  write("src/base/log.cpp", "#include \"base/check.h\"\n\n#include \"tensor/tensor.h\"\n");
  EXPECT_EQ(found("rooms"), Lines{"src/base/log.cpp:3"});
}

TEST_F(Tidy, SiblingBackendsNeverMeet) {
  write("src/backend/cpu/linear.h", "#pragma once\n");
  write("src/backend/host/host_ops.h", "#pragma once\n");
  write("src/backend/reference/linear.cpp",
        "#include \"backend/host/host_ops.h\"\n#include \"backend/cpu/linear.h\"\n");
  write("src/backend/backend.cpp", "#include \"backend/cpu/linear.h\"\n");
  write("src/engine/engine.h", "#pragma once\n#include \"backend/cpu/linear.h\"\n");
  EXPECT_EQ(found("rooms"), (Lines{"src/backend/reference/linear.cpp:2", "src/engine/engine.h:2"}));
}

TEST_F(Tidy, ServicesSeeOnlyTheFrontOfTheEngine) {
  write("src/engine/session.h", "#pragma once\n");
  write("src/engine/executor.h", "#pragma once\n");
  write("src/engine/kv_cache.h", "#pragma once\n");
  const std::string all =
      "#include \"engine/session.h\"\n#include \"engine/executor.h\"\n#include "
      "\"engine/kv_cache.h\"\n";
  write("src/server/server.cpp", all);
  write("src/distributed/route.cpp", all);
  EXPECT_EQ(found("rooms"), (Lines{"src/distributed/route.cpp:3", "src/server/server.cpp:2",
                                   "src/server/server.cpp:3"}));
}

TEST_F(Tidy, IncludesAreRootedAtSrcAndQuoted) {
  write("src/tensor/dtype.cpp",
        "#include \"tensor.h\"\n"
        "#include \"../base/check.h\"\n"
        "#include \"tensor/gone.h\"\n"
        "#include <base/check.h>\n"
        "// #include \"gguf/file.h\"\n"
        "/*\n#include \"gguf/file.h\"\n*/\n"
        "#  include \"tensor/tensor.h\"\n");
  EXPECT_EQ(found("rooms"), (Lines{"src/tensor/dtype.cpp:1", "src/tensor/dtype.cpp:2",
                                   "src/tensor/dtype.cpp:3", "src/tensor/dtype.cpp:4"}));
}

TEST_F(Tidy, UnknownRoomIsNamed) {
  write("src/attic/old.cpp", "\n");
  write("src/loose.cpp", "\n");
  EXPECT_EQ(found("rooms"), (Lines{"src/attic/old.cpp:0", "src/loose.cpp:0"}));
}

TEST_F(Tidy, EachForbiddenCallFires) {
  const Lines calls = {"std::getenv(\"A\");",
                       "secure_getenv(\"A\");",
                       "setenv(\"A\", \"\", 1);",
                       "exit (1);",
                       "std::exit(1);",
                       "::_exit(1);",
                       "std::quick_exit(1);",
                       "abort();",
                       "std::terminate();",
                       "malloc(1);",
                       "std::calloc(1, 1);",
                       "realloc(p, 1);",
                       "aligned_alloc(8, 8);",
                       "posix_memalign(&p, 8, 8);",
                       "auto* p = new int;",
                       "std::cout << 1;",
                       "std::cerr << 1;",
                       "std::clog << 1;",
                       "printf(\"\");",
                       "std::fprintf(stderr, \"\");",
                       "vfprintf(f, s, a);",
                       "puts(\"\");",
                       "fputs(s, f);",
                       "rand();",
                       "srand(1);",
                       "throw 1;",
                       "using namespace std;",
                       "#include <iostream>"};
  for (const std::string& call : calls) {
    write("src/tensor/dtype.cpp", "// first line\n" + call + "\n");
    EXPECT_EQ(found("calls"), Lines{"src/tensor/dtype.cpp:2"}) << call;
  }
}

TEST_F(Tidy, CallsInCommentsLiteralsAndLongerNamesPass) {
  write("src/tensor/dtype.cpp",
        "#include <new>\n"
        "// getenv(\"A\"), throw, using namespace std\n"
        "/* abort();\n   new int */\n"
        "const char* a = \"exit(1) \\\" throw\";\n"
        "const char* b = R\"x(abort() )\" throw)x\";\n"
        "int n = 1'000; char c = '\"'; int m = snprintf(nullptr, 0, \"\");\n"
        "void renew(); int new_size; int operand(int); int brand(); my_exit(1);\n"
        "scope.exit(); scope->abort(); using std::swap; auto s = std::exit_code;\n"
        "std::unique_ptr<Session> made(new Session(1));\n");
  EXPECT_EQ(found("calls"), Lines{});
}

TEST_F(Tidy, CheckMayPrintAndAbortAndAppsMayExit) {
  write("src/base/check.cpp", "std::fprintf(stderr, \"\"); std::abort();\n");
  write("apps/cli/main.cpp",
        "#include <iostream>\nint main() { std::exit(std::getenv(\"A\") != nullptr); }\n");
  EXPECT_EQ(found("calls"), Lines{});
}

TEST_F(Tidy, FastMathIsFoundInEveryKindOfCMakeFile) {
  const std::string flag = std::string("-ffast") + "-math";
  write("CMakeLists.txt", "# not " + flag + "\nadd_compile_options(" + flag + ")\n");
  write("CMakePresets.json", "{\"CMAKE_CXX_FLAGS\": \"" + flag + "\"}\n");
  write("cmake/Flags.cmake", "set(x -Ofast)\n");
  write("src/tensor/CMakeLists.txt", "target_compile_options(t PRIVATE -fno-math-errno)\n");
  EXPECT_EQ(found("fast-math"),
            (Lines{"CMakeLists.txt:2", "CMakePresets.json:1", "cmake/Flags.cmake:1"}));
}

TEST_F(Tidy, LongFilesAreNotedThenFail) {
  const auto lines = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "//\n";
    return text;
  };
  write("src/tensor/a.cpp", lines(400));
  write("src/tensor/b.cpp", lines(401));
  write("src/tensor/c.cpp", lines(600));
  write("tests/tensor/d.cpp", lines(601));
  std::string seen;
  for (const Finding& f : run_rules(read_tree(root_))) {
    if (f.rule == "file-length") seen += f.path + (f.fails ? " fails; " : " noted; ");
  }
  EXPECT_EQ(seen, "src/tensor/b.cpp noted; src/tensor/c.cpp noted; tests/tensor/d.cpp fails; ");
}

TEST_F(Tidy, LongFunctionsAreNotedWhereverTheyStand) {
  const auto body = [](int n) {
    std::string text = "{\n";
    for (int i = 0; i < n - 2; ++i) text += i % 10 == 0 ? "  if (a) { b(); }\n" : "  c();\n";
    return text + "}\n";
  };
  write("src/tensor/dtype.cpp",
        "#include <string>\n"
        "namespace x {\n"
        "struct Table " +
            body(90) +  // holds declarations, is no function
            ";\n"
            "int short_enough(int a) " +
            body(80) +
            "class C {\n"
            "  void too_long() const " +
            body(81) +
            "};\n"
            "}\n"
            "template <typename T>\nvoid also_too_long(T a,\n                   int b) " +
            body(79));
  // 1 + 1 + 90 + 1 lines before short_enough (80), "class C {", too_long (81), "};", "}".
  EXPECT_EQ(found("function-length"),
            (Lines{"src/tensor/dtype.cpp:175", "src/tensor/dtype.cpp:258"}));
}

TEST_F(Tidy, HeadersStartWithPragmaOnce) {
  write("src/tensor/late.h", "// A comment first.\n#pragma once\n");
  write("tests/tensor/none.h", "int x;\n");
  write("src/tensor/dot-inl.h", "#ifdef HWY_TARGET_TOGGLE\n#endif\n");
  EXPECT_EQ(found("pragma-once"), (Lines{"src/tensor/late.h:1", "tests/tensor/none.h:1"}));
}

TEST_F(Tidy, TrackedTreeHasALimitAndUntrackedFilesDoNotCount) {
  git("init -q");
  write("big.bin", "");
  fs::resize_file(root_ / "big.bin", 55 * 1024 * 1024);  // sparse: reads as zeros, costs no disk
  EXPECT_EQ(found("tracked-size"), Lines{});
  git("add -N big.bin");
  EXPECT_EQ(found("tracked-size"), Lines{":0"});
}

TEST_F(Tidy, PlacesOfOneMachineAreFoundInTrackedFiles) {
  const std::string work = std::string("/wo") + "rk/";
  const std::string home = std::string("/ro") + "ot/";
  const std::string host = std::string("deb.") + "debian.org";
  git("init -q");
  write("docs/a.md", "first\nsee " + work + "main/x\n");
  write("docs/b.md", "path=" + home + "x\n");
  write("scripts/c.sh", "# from " + host + "\n");
  write("docs/fine.md", "$here" + home + "x and my" + work + " and ${tmp}" + home + "\n");
  write("docs/untracked.md", host);
  write("docs/picture.bin", std::string(1, '\0') + host);
  git("add -N docs/a.md docs/b.md scripts/c.sh docs/fine.md docs/picture.bin");
  EXPECT_EQ(found("places"), (Lines{"docs/a.md:2", "docs/b.md:1", "scripts/c.sh:1"}));
}

TEST_F(Tidy, WithoutACheckoutTrackedRulesAreSkipped) {
  const Tree tree = read_tree(root_);
  EXPECT_FALSE(tree.git);
  EXPECT_TRUE(tree.tracked.empty());
}

}  // namespace
}  // namespace ds4::tidy
