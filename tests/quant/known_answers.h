#pragma once
// The known answers of tests/data/quant: JSON lines whose arrays are hex of little-endian bytes.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ds4 {

inline std::vector<uint8_t> bytes_from_hex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline std::string hex_from_bytes(const void* data, size_t size) {
  static const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (size_t i = 0; i < size; ++i) {
    const uint8_t byte = static_cast<const uint8_t*>(data)[i];
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

inline std::vector<float> floats_from_hex(const std::string& hex) {
  const std::vector<uint8_t> bytes = bytes_from_hex(hex);
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// Every line of a file in tests/data/quant.
inline std::vector<nlohmann::ordered_json> known_answers(const std::string& name) {
  std::ifstream file(std::string(DS4_SOURCE_DIR) + "/tests/data/quant/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<nlohmann::ordered_json> cases;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) cases.push_back(nlohmann::ordered_json::parse(line));
  }
  return cases;
}

}  // namespace ds4
