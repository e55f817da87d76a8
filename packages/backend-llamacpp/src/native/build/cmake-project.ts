import {
  deviceFunctions,
  ggmlFunctions,
  llamaFunctions,
  registryFunctions,
} from '../ffi/functions.js'

/** The name of the target and of its file, without prefix and suffix. */
export const targetName = 'cllm-llama'

/** The file in the build folder that says how the library was made, as `name=value` lines. */
export const toolchainFile = 'toolchain.txt'

/** The folder in the build folder that the library is written to. */
export const outputFolder = 'out'

const tileHeader = 'amx-tiles.h'

/**
 * One shared library of all parts. Only the C API is exported, and bound within, so that nothing meets
 * node-llama-cpp's libraries in the same process.
 */
const cmakeLists = `cmake_minimum_required(VERSION 3.14...3.28)
project(${targetName} C CXX)

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_subdirectory("\${CLLM_SOURCE}" llama EXCLUDE_FROM_ALL)

set(parts llama ggml ggml-base ggml-cpu)
if(TARGET ggml-blas)
  list(APPEND parts ggml-blas)
endif()

set(objects)
foreach(part IN LISTS parts)
  list(APPEND objects $<TARGET_OBJECTS:\${part}>)
endforeach()

add_library(${targetName} SHARED \${objects})
target_link_libraries(${targetName} PRIVATE \${parts})
set_target_properties(${targetName} PROPERTIES
  LINKER_LANGUAGE CXX
  NO_SONAME ON
  LIBRARY_OUTPUT_DIRECTORY "$<1:\${CMAKE_BINARY_DIR}/${outputFolder}>"
  RUNTIME_OUTPUT_DIRECTORY "$<1:\${CMAKE_BINARY_DIR}/${outputFolder}>")

if(WIN32)
  target_sources(${targetName} PRIVATE "\${CMAKE_CURRENT_SOURCE_DIR}/exports.def")
elseif(APPLE)
  target_link_options(${targetName} PRIVATE
    "LINKER:-exported_symbols_list,\${CMAKE_CURRENT_SOURCE_DIR}/exports.list")
else()
  target_link_options(${targetName} PRIVATE
    "LINKER:--version-script,\${CMAKE_CURRENT_SOURCE_DIR}/exports.map" "LINKER:-Bsymbolic")
endif()

get_target_property(flags ggml-cpu COMPILE_OPTIONS)
string(REGEX MATCHALL "[-/](m|arch)[^; >]*" flags "\${flags}")
string(REPLACE ";" " " flags "\${flags}")
file(WRITE "\${CMAKE_BINARY_DIR}/${toolchainFile}"
  "compiler=\${CMAKE_CXX_COMPILER_ID} \${CMAKE_CXX_COMPILER_VERSION}\\n"
  "flags=\${CMAKE_CXX_FLAGS_RELEASE} \${flags}\\n"
  "openmp=\${GGML_OPENMP_ENABLED}\\n")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ggml-cpu PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include \${CMAKE_CURRENT_SOURCE_DIR}/${tileHeader}>")
endif()
`

/**
 * GCC before 12.4 and 13.3 takes only eight bytes of the configuration of AMX's tiles as read and drops the
 * stores to the others (GCC bug 114098): the first matrix then ends the process. This says that all are read.
 */
const tileConfiguration = `#ifdef __AMX_TILE__
#include <immintrin.h>
#define _tile_loadconfig(config) \\
  __asm__ volatile("ldtilecfg\\t%0" ::"m"(*(const char(*)[64])(config)))
#endif
`

/** The files of the CMake project, by name. */
export function cmakeProject(): ReadonlyMap<string, string> {
  const names = Object.keys({
    ...llamaFunctions,
    ...ggmlFunctions,
    ...registryFunctions,
    ...deviceFunctions,
  })
  return new Map([
    ['CMakeLists.txt', cmakeLists],
    [tileHeader, tileConfiguration],
    ['exports.map', '{ global: llama_*; ggml_*; local: *; };\n'],
    ['exports.list', '_llama_*\n_ggml_*\n'],
    ['exports.def', `EXPORTS\n${names.map((name) => `  ${name}\n`).join('')}`],
  ])
}

/** The library's file name. */
export function libraryName(platform: string): string {
  if (platform === 'win32') return `${targetName}.dll`
  return `lib${targetName}.${platform === 'darwin' ? 'dylib' : 'so'}`
}
