#pragma once
// The two file forms of an importance matrix; see Imatrix::parse() and Imatrix::write() for errors.
#include <cstddef>
#include <span>
#include <string>

#include "quantizer/imatrix.h"

namespace ds4 {

Result<Imatrix> parse_imatrix_dat(std::span<const std::byte> bytes, const std::string& name);
Result<void> write_imatrix_dat(const Imatrix& imatrix, const std::string& path, bool overwrite);

Result<Imatrix> parse_imatrix_gguf(std::span<const std::byte> bytes, const std::string& name);
Result<void> write_imatrix_gguf(const Imatrix& imatrix, const std::string& path, bool overwrite);

}  // namespace ds4
