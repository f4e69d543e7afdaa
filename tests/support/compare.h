#pragma once
// How two sets of logits are compared, everywhere in the tests: one metric set, computed in f64.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

namespace ds4::test {

struct LogitDiff {
  double relative_l2 = 0;  // ||got - want|| / ||want||
  double max_abs = 0;
  double kl = 0;  // KL(softmax(want) || softmax(got)), nats
  bool same_top1 = true;

  std::string to_string() const {
    return fmt::format("relative L2 {:.3g}, max abs {:.3g}, KL {:.3g}, top-1 {}", relative_l2,
                       max_abs, kl, same_top1 ? "equal" : "DIFFERENT");
  }

  // The worse of two, number by number: for reporting the worst of many rows.
  void take_worse(const LogitDiff& other) {
    relative_l2 = std::max(relative_l2, other.relative_l2);
    max_abs = std::max(max_abs, other.max_abs);
    kl = std::max(kl, other.kl);
    same_top1 = same_top1 && other.same_top1;
  }
};

// One row. NaN anywhere makes every number infinite, so no threshold lets it pass.
inline LogitDiff compare_logits(std::span<const float> got, std::span<const float> want) {
  LogitDiff diff;
  double error = 0, norm = 0, got_sum = 0, want_sum = 0;
  const double got_max = *std::max_element(got.begin(), got.end());
  const double want_max = *std::max_element(want.begin(), want.end());
  bool finite = true;
  for (size_t i = 0; i < want.size(); ++i) {
    finite = finite && std::isfinite(got[i]);
    const double delta = double{got[i]} - double{want[i]};
    error += delta * delta;
    norm += double{want[i]} * double{want[i]};
    diff.max_abs = std::max(diff.max_abs, std::fabs(delta));
    got_sum += std::exp(got[i] - got_max);
    want_sum += std::exp(want[i] - want_max);
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const double log_want = want[i] - want_max - std::log(want_sum);
    const double log_got = got[i] - got_max - std::log(got_sum);
    diff.kl += std::exp(log_want) * (log_want - log_got);
  }
  diff.relative_l2 = std::sqrt(error / norm);
  diff.same_top1 = std::max_element(got.begin(), got.end()) - got.begin() ==
                   std::max_element(want.begin(), want.end()) - want.begin();
  if (!finite || got.size() != want.size()) {
    diff = {INFINITY, INFINITY, INFINITY, false};
  }
  return diff;
}

// Worst over rows of `cols` values.
inline LogitDiff compare_rows(std::span<const float> got, std::span<const float> want,
                              size_t cols) {
  LogitDiff worst;
  if (got.size() != want.size() || want.empty()) return {INFINITY, INFINITY, INFINITY, false};
  for (size_t at = 0; at < want.size(); at += cols) {
    worst.take_worse(compare_logits(got.subspan(at, cols), want.subspan(at, cols)));
  }
  return worst;
}

}  // namespace ds4::test
