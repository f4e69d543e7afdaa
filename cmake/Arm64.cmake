# Toolchain file: 64-bit Arm, run by QEMU. Compiler and emulator come from the machine or else from .deps/tools, into
# which scripts/tool.sh fetches them. Programs are static, so that they need no Arm libraries where they run.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

function(ds4_arm64_tool var program)
  execute_process(
    COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../scripts/tool.sh aarch64-linux-gnu-g++ ${program}
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "scripts/tool.sh found no ${program} and could not fetch it")
  endif()
  set(${var} ${found} PARENT_SCOPE)
endfunction()

ds4_arm64_tool(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
ds4_arm64_tool(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
ds4_arm64_tool(CMAKE_AR aarch64-linux-gnu-ar)
ds4_arm64_tool(CMAKE_RANLIB aarch64-linux-gnu-ranlib)
ds4_arm64_tool(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
