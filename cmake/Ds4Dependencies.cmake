# Third-party libraries as targets ds4::NAME. They come from .deps/prefix, which scripts/deps.sh fills; where
# no such folder is (a distribution nobody has tried yet) the system's own are looked for. All are static
# archives where there is one, so that a program can be carried to another machine without its libraries.
#
# Headers are SYSTEM includes: their warnings are not ours. Nothing here is installed or exported.

set(DS4_DEPS_PREFIX "${PROJECT_SOURCE_DIR}/.deps/prefix" CACHE PATH "folder that scripts/deps.sh filled")

if(IS_DIRECTORY "${DS4_DEPS_PREFIX}/usr/include")
  set(DS4_DEPS_FROM_PREFIX ON)
else()
  set(DS4_DEPS_FROM_PREFIX OFF)
  message(STATUS "no ${DS4_DEPS_PREFIX}: taking the system's libraries (scripts/deps.sh fetches ours)")
endif()

find_package(Threads REQUIRED)

# ds4_find_file(VAR library|header NAMES...): the first of NAMES in the prefix, or else in the system.
function(ds4_find_file var kind)
  if(DS4_DEPS_FROM_PREFIX)
    set(lib_dirs "${DS4_DEPS_PREFIX}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}" "${DS4_DEPS_PREFIX}/usr/lib")
    set(include_dirs "${DS4_DEPS_PREFIX}/usr/include")
    set(only NO_DEFAULT_PATH)
  endif()
  # A copied or re-made build folder must not keep a path of another prefix.
  unset(${var} CACHE)
  if(kind STREQUAL "library")
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
    find_library(${var} NAMES ${ARGN} PATHS ${lib_dirs} ${only} NO_CACHE)
  else()
    find_path(${var} NAMES ${ARGN} PATHS ${include_dirs} ${only} NO_CACHE)
  endif()
  if(NOT ${var})
    list(JOIN ARGN " or " wanted)
    message(FATAL_ERROR "dependency missing: ${kind} ${wanted}. Run scripts/deps.sh (it downloads to .deps, "
                        "installs nothing); looked in ${DS4_DEPS_PREFIX} and, without it, in the system.")
  endif()
  set(${var} "${${var}}" PARENT_SCOPE)
endfunction()

# ds4_dependency(NAME HEADER file [LIBRARY names] [DEFINES defs] [LINK targets]): makes ds4::NAME.
# An archive is an imported target of its own, not a bare path: only then does CMake know that it needs what
# LINK names and puts that behind it on the link line, whatever order a program lists its libraries in.
function(ds4_dependency name)
  cmake_parse_arguments(ARG "" "HEADER" "LIBRARY;DEFINES;LINK" ${ARGN})
  if(TARGET ds4::${name})
    return()
  endif()
  ds4_find_file(include header "${ARG_HEADER}")
  if(ARG_LIBRARY)
    ds4_find_file(library library ${ARG_LIBRARY})
    add_library(ds4::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(ds4::${name} PROPERTIES IMPORTED_LOCATION "${library}")
  else()
    add_library(ds4::${name} INTERFACE IMPORTED GLOBAL)
  endif()
  target_include_directories(ds4::${name} SYSTEM INTERFACE "${include}")
  # Some headers (OpenSSL's configuration) lie in the machine's folder beside the common one.
  if(DS4_DEPS_FROM_PREFIX AND IS_DIRECTORY "${include}/${CMAKE_LIBRARY_ARCHITECTURE}")
    target_include_directories(ds4::${name} SYSTEM INTERFACE "${include}/${CMAKE_LIBRARY_ARCHITECTURE}")
  endif()
  target_link_libraries(ds4::${name} INTERFACE ${ARG_LINK})
  target_compile_definitions(ds4::${name} INTERFACE ${ARG_DEFINES})
endfunction()

ds4_dependency(expected HEADER tl/expected.hpp)
ds4_dependency(fmt HEADER fmt/format.h LIBRARY fmt)
ds4_dependency(
  spdlog HEADER spdlog/spdlog.h LIBRARY spdlog
  DEFINES SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL LINK ds4::fmt Threads::Threads)
ds4_dependency(cli11 HEADER CLI/CLI.hpp)
ds4_dependency(json HEADER nlohmann/json.hpp)
ds4_dependency(pcre2 HEADER pcre2.h LIBRARY pcre2-8 DEFINES PCRE2_CODE_UNIT_WIDTH=8)
ds4_dependency(zlib HEADER zlib.h LIBRARY z)
ds4_dependency(zstd HEADER zstd.h LIBRARY zstd)
ds4_dependency(xxhash HEADER xxhash.h LIBRARY xxhash)
# Debian 13's libcrypto.a refers to zlib and zstd.
ds4_dependency(
  openssl_crypto HEADER openssl/evp.h LIBRARY crypto
  LINK ds4::zlib ds4::zstd ${CMAKE_DL_LIBS} Threads::Threads)
ds4_dependency(utf8proc HEADER utf8proc.h LIBRARY utf8proc)
ds4_dependency(hwy HEADER hwy/highway.h LIBRARY hwy)
if(DS4_PROGRAMS)
  # Line editing. Debian's libedit.a refers to libtinfo (terminal descriptions) and libbsd, that to libmd.
  # Only libedit's header is used; libbsd's lie elsewhere on Debian 13.
  ds4_dependency(tinfo HEADER histedit.h LIBRARY tinfo)
  ds4_dependency(md HEADER histedit.h LIBRARY md)
  ds4_dependency(bsd HEADER histedit.h LIBRARY bsd LINK ds4::md)
  ds4_dependency(libedit HEADER histedit.h LIBRARY edit LINK ds4::tinfo ds4::bsd)
  # Full-screen terminal programs: three archives on top of each other.
  ds4_dependency(ftxui_screen HEADER ftxui/screen/screen.hpp LIBRARY ftxui-screen)
  ds4_dependency(ftxui_dom HEADER ftxui/dom/elements.hpp LIBRARY ftxui-dom LINK ds4::ftxui_screen)
  ds4_dependency(
    ftxui HEADER ftxui/component/component.hpp LIBRARY ftxui-component
    LINK ds4::ftxui_dom Threads::Threads)
endif()

if(DS4_TESTS)
  ds4_dependency(gtest HEADER gtest/gtest.h LIBRARY gtest LINK Threads::Threads)
  ds4_dependency(gtest_main HEADER gtest/gtest.h LIBRARY gtest_main LINK ds4::gtest)
  ds4_dependency(gmock HEADER gmock/gmock.h LIBRARY gmock LINK ds4::gtest)
  ds4_dependency(rapidcheck HEADER rapidcheck.h LIBRARY rapidcheck)
endif()
if(DS4_BENCH)
  # BENCHMARK_STATIC_DEFINE: the archive has no import decorations.
  ds4_dependency(
    benchmark HEADER benchmark/benchmark.h LIBRARY benchmark
    DEFINES BENCHMARK_STATIC_DEFINE LINK Threads::Threads)
endif()
