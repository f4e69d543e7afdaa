#pragma once
// Rates over the context, drawn as SVG without scripts or other files: readable on light and dark
// pages.
#include <span>
#include <string>
#include <string_view>

#include "sweep.h"

namespace ds4::bench {

// Two panels above each other: reading and answering, tokens a second. `title` and `subtitle` may
// hold any text. The context axis is logarithmic where it spans a factor of 8 or more.
std::string rate_chart(std::string_view title, std::string_view subtitle,
                       std::span<const Row> rows);

// The smallest of 1, 2, 2.5, 5, 10, 20, ... (times powers of ten) that is at least `value`.
double nice_ceiling(double value);

}  // namespace ds4::bench
