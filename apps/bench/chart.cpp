#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace ds4::bench {
namespace {

constexpr double kWidth = 720, kHeight = 560;
constexpr double kLeft = 76, kRight = 24;

// Colours of light pages; those of dark ones where the reader prefers them.
constexpr const char* kHead =
    R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 560" font-family="sans-serif" font-size="12">
<style>
.paper { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #57606a } .grid { stroke: #d8dee4 }
.read { stroke: #1f5fa8; fill: #1f5fa8 } .answer { stroke: #b35900; fill: #b35900 }
.line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117 } .ink { fill: #e6edf3 } .faint { fill: #9198a1 } .grid { stroke: #30363d }
  .read { stroke: #6cb6ff; fill: #6cb6ff } .answer { stroke: #f0883e; fill: #f0883e }
  .line { fill: none }
}
</style>
<rect class="paper" width="720" height="560"/>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// 2048 -> "2k", 1500 -> "1500".
std::string tokens_label(int64_t n) {
  if (n >= 1 << 20 && n % (1 << 20) == 0) return fmt::format("{}M", n >> 20);
  if (n >= 1024 && n % 1024 == 0) return fmt::format("{}k", n >> 10);
  return std::to_string(n);
}

// Where a context stands from left to right.
class Axis {
 public:
  explicit Axis(std::span<const Row> rows)
      : first_(static_cast<double>(rows.front().ctx_tokens)),
        last_(static_cast<double>(rows.back().ctx_tokens)),
        logarithmic_(last_ >= 8 * first_) {}

  double x(int64_t tokens) const {
    const double t = static_cast<double>(tokens);
    if (last_ == first_) return kLeft + (kWidth - kLeft - kRight) / 2;
    const double share = logarithmic_ ? std::log(t / first_) / std::log(last_ / first_)
                                      : (t - first_) / (last_ - first_);
    return kLeft + 16 + share * (kWidth - kLeft - kRight - 32);
  }

 private:
  double first_, last_;
  bool logarithmic_;
};

struct Panel {
  double top = 0, bottom = 0;
  const char* style = "";
  const char* name = "";
  double (*value)(const Row&) = nullptr;
};

std::string draw(const Panel& panel, const Axis& axis, std::span<const Row> rows) {
  double most = 0;
  for (const Row& row : rows) most = std::max(most, panel.value(row));
  const double top_value = nice_ceiling(most);
  const auto y = [&](double value) {
    return panel.bottom - value / top_value * (panel.bottom - panel.top);
  };
  std::string out;
  for (int i = 0; i <= 4; ++i) {
    const double value = top_value * i / 4;
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"ink\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
        kLeft, kWidth - kRight, y(value), y(value), kLeft - 8, y(value) + 4, value);
  }
  // The legend.
  out += fmt::format(
      "<circle class=\"{0}\" cx=\"{1}\" cy=\"{2}\" r=\"4\"/>"
      "<text class=\"ink\" x=\"{3}\" y=\"{4}\">{5}</text>\n",
      panel.style, kLeft + 6, panel.top - 12, kLeft + 16, panel.top - 8, panel.name);
  std::string points;
  for (const Row& row : rows) {
    points += fmt::format("{:.1f},{:.1f} ", axis.x(row.ctx_tokens), y(panel.value(row)));
  }
  out += fmt::format("<polyline class=\"{} line\" points=\"{}\"/>\n", panel.style, points);
  for (const Row& row : rows) {
    out += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\">"
        "<title>{} tokens: {:.2f} t/s</title></circle>\n",
        panel.style, axis.x(row.ctx_tokens), y(panel.value(row)), row.ctx_tokens, panel.value(row));
  }
  return out;
}

// Under the lower panel, as many labels as do not touch each other.
std::string context_labels(const Axis& axis, std::span<const Row> rows, double y) {
  std::string out;
  double free_from = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double x = axis.x(rows[i].ctx_tokens);
    const bool last = i + 1 == rows.size();
    if (!last && (x < free_from || x > axis.x(rows.back().ctx_tokens) - 56)) continue;
    free_from = x + 56;
    out +=
        fmt::format("<text class=\"ink\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                    x, y, tokens_label(rows[i].ctx_tokens));
  }
  return out;
}

}  // namespace

double nice_ceiling(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

std::string rate_chart(std::string_view title, std::string_view subtitle,
                       std::span<const Row> rows) {
  std::string out = kHead;
  out += fmt::format(
      "<text class=\"ink\" x=\"{0}\" y=\"24\" font-size=\"15\">{1}</text>\n"
      "<text class=\"faint\" x=\"{0}\" y=\"42\">{2}</text>\n",
      kLeft, escaped(title), escaped(subtitle));
  if (rows.empty()) {
    return out + "<text class=\"faint\" x=\"76\" y=\"80\">no row was measured</text>\n</svg>\n";
  }
  const Axis axis(rows);
  const Panel reading{82, 272, "read", "reading a prompt, tokens a second",
                      [](const Row& row) { return row.prefill_tps; }};
  const Panel answering{316, 506, "answer", "answering, tokens a second",
                        [](const Row& row) { return row.gen_tps; }};
  out += draw(reading, axis, rows);
  const bool answered = std::ranges::any_of(rows, [](const Row& row) { return row.gen_tps > 0; });
  if (answered) out += draw(answering, axis, rows);
  out += context_labels(axis, rows, (answered ? answering : reading).bottom + 18);
  out += fmt::format(
      "<text class=\"ink\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">context, "
      "tokens</text>\n</svg>\n",
      kWidth / 2, kHeight - 12);
  return out;
}

}  // namespace ds4::bench
