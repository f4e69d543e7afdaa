// What may be in the tracked tree: little enough to carry to another machine, and nothing that
// names one.
#include <cctype>
#include <filesystem>

#include "tests/tidy/tidy.h"

namespace ds4::tidy {
namespace fs = std::filesystem;
namespace {

// A device run carries 64 MiB in all; the rest is for what was built.
constexpr int64_t kTrackedMiBMax = 54;

// Written in two pieces, so that this file does not break its own rule.
const std::vector<std::string>& hosts() {
  static const std::vector<std::string> list = {std::string("deb.") + "debian.org",
                                                std::string("security.") + "debian.org",
                                                std::string("snapshot.") + "debian.org",
                                                std::string("registry.") + "npmjs.org",
                                                std::string("pypi.") + "org",
                                                std::string("files.python") + "hosted.org",
                                                std::string("crates") + ".io",
                                                std::string("proxy.go") + "lang.org",
                                                std::string("repo.maven") + ".apache.org"};
  return list;
}

// Absolute folders of the machines that build this.
const std::vector<std::string>& folders() {
  static const std::vector<std::string> list = {
      std::string("/wo") + "rk/", std::string("/ro") + "ot/", std::string("/fa") + "rm/"};
  return list;
}

// "$tmp/root/usr" and "a/work/b" are not absolute.
bool starts_a_path(std::string_view text, size_t at) {
  if (at == 0) return true;
  const char before = text[at - 1];
  return !std::isalnum(static_cast<unsigned char>(before)) &&
         std::string_view("_.-/})~*").find(before) == std::string_view::npos;
}

void search(const std::string& path, const std::string& text, Findings& out) {
  const auto report = [&](size_t at, const std::string& what) {
    out.push_back(
        {path, line_at(text, at), "places", "names '" + what + "', a place outside this tree"});
  };
  for (const std::string& host : hosts()) {
    const size_t at = text.find(host);
    if (at != std::string::npos) report(at, host);
  }
  for (const std::string& folder : folders()) {
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + 1)) {
      if (!starts_a_path(text, at)) continue;
      report(at, folder);
      break;
    }
  }
}

}  // namespace

void check_tracked_size(const Tree& tree, Findings& out) {
  if (!tree.git) return;
  int64_t bytes = 0;
  for (const std::string& path : tree.tracked) {
    std::error_code error;
    const auto size = fs::file_size(tree.root / path, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  if (bytes >= kTrackedMiBMax * 1024 * 1024) {
    out.push_back({"", 0, "tracked-size",
                   "tracked files hold " + std::to_string(bytes / 1024) + " KiB; the limit is " +
                       std::to_string(kTrackedMiBMax) + " MiB"});
  }
}

void check_places(const Tree& tree, Findings& out) {
  for (const std::string& path : tree.tracked) {
    // A lock file of the npm client holds the addresses it was made with.
    if (path.ends_with("package-lock.json")) continue;
    const bool binary = read_file(tree.root / path, 8192).find('\0') != std::string::npos;
    if (!binary) search(path, read_file(tree.root / path), out);
  }
}

}  // namespace ds4::tidy
