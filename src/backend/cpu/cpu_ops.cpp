#include "backend/cpu/cpu_ops.h"

namespace ds4::cpu {

std::string_view target_name() { return select_kernels().target; }

CpuOps::CpuOps(ThreadPool& pool, CpuOptions options)
    : HostOps(pool), options_(options), kernels_(select_kernels()) {}

}  // namespace ds4::cpu
