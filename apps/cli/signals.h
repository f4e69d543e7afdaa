#pragma once
// What programs share, under this one's namespace.
#include "common/signals.h"

namespace ds4::cli {
using namespace app;
}  // namespace ds4::cli
