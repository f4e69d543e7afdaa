#pragma once
// The lines a person typed, kept from one run to the next in ~/.ds4_history.
//
//   one entry a line, oldest first, at most kHistoryMax; a newline inside an entry is written \n,
//   a backslash \\ . Mode 0600: prompts are private.
//
// The file is read and replaced whole for each new entry, so that several programs at once lose at
// most an entry that came at the same moment, and a killed one loses nothing. A link is followed.
#include <string>
#include <vector>

#include "base/result.h"

namespace ds4::cli {

inline constexpr int kHistoryMax = 1000;

class HistoryFile {
 public:
  // An empty path keeps nothing.
  explicit HistoryFile(std::string path);

  // The entries, oldest first; empty when the file cannot be read or is none.
  std::vector<std::string> load() const;

  // Appends, unless it repeats the last entry. Errors: those of FileWriter; nothing depends on it.
  Result<void> append(const std::string& entry) const;

 private:
  std::string path_;
};

}  // namespace ds4::cli
