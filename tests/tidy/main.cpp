// ds4_tidy ROOT: prints what breaks a house rule below ROOT, and what is worth a look. Exit 0 when
// nothing fails.
#include <cstdio>

#include "tests/tidy/tidy.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ds4_tidy ROOT\n");
    return 2;
  }
  const ds4::tidy::Tree tree = ds4::tidy::read_tree(argv[1]);
  if (tree.sources.empty()) {
    std::fprintf(stderr, "ds4_tidy: no sources below %s\n", argv[1]);
    return 2;
  }
  if (!tree.git) {
    std::printf("not a git checkout (or no git): the rules for tracked files are skipped\n");
  }
  int failures = 0;
  int notes = 0;
  for (const ds4::tidy::Finding& f : ds4::tidy::run_rules(tree)) {
    (f.fails ? failures : notes) += 1;
    std::printf("%s:%lld: %s [%s] %s\n", f.path.empty() ? "." : f.path.c_str(),
                static_cast<long long>(f.line), f.fails ? "error" : "note", f.rule.c_str(),
                f.message.c_str());
  }
  std::printf("tidy: %zu sources, %zu tracked files, %d errors, %d notes\n", tree.sources.size(),
              tree.tracked.size(), failures, notes);
  return failures == 0 ? 0 : 1;
}
