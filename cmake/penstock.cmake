# Headers are included by their folder's name, and found only by what names that folder: the folder
# of each module is reached through a folder of its own, which holds nothing else. Two builds that
# name the same PENSTOCK_HEADERS compile by the same commands, so that ccache compiles once.
set(PENSTOCK_HEADERS ${CMAKE_BINARY_DIR}/headers CACHE PATH "folder of the folders through which headers are found")
function(penstock_headers target visibility folder)
  get_filename_component(name ${folder} NAME)
  set(reached_through ${PENSTOCK_HEADERS}/${name})
  file(MAKE_DIRECTORY ${reached_through})
  if(IS_SYMLINK ${reached_through}/${name})
    file(READ_SYMLINK ${reached_through}/${name} folder_of_link)
  endif()
  if(NOT "${folder_of_link}" STREQUAL "${folder}")  # two builds may be configured at once, and one may compile
    file(CREATE_LINK ${folder} ${reached_through}/${name} SYMBOLIC)
  endif()
  target_include_directories(${target} ${visibility} ${reached_through})
  set_property(TARGET ${target} APPEND PROPERTY PENSTOCK_${visibility}_FOLDERS ${name})  # for tests/layers
endfunction()

# Compiled once for many sources. Not for the product's: one that fails to include what it needs is to be found.
# (Without -fpch-preprocess ccache would keep no object that is compiled like this.)
set(penstock_precompiled <fmt/format.h> <tl/expected.hpp> <atomic> <chrono> <deque> <filesystem> <fstream> <functional>
  <map> <random> <span> <thread>)
option(PENSTOCK_PRECOMPILE "precompiled headers for modules: for a build that is not the only one (ci/cross-aarch64.sh)" OFF)
function(penstock_precompile target owner)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN} ${penstock_precompiled})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# The sources of a target that are known by now are compiled in batches of SIZE (12), each as one: what they include is then
# parsed once. Those after ALONE are not: they have options of their own, or names that are another's. Batches lie where
# builds that share PENSTOCK_HEADERS find the same ones. A build of each source by itself finds one that fails to include
# what it needs: ci/cross-aarch64.sh, and the preset dev.
option(PENSTOCK_UNITY "compile the sources of a target in batches" ON)
# A local name may be that of another source, and no type of a source is seen outside of its batch.
if(PENSTOCK_UNITY)
  set(penstock_batch_options -Wno-shadow $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wshadow=local> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
function(penstock_batches target)
  if(NOT PENSTOCK_UNITY)
    return()
  endif()
  cmake_parse_arguments(ARG "" SIZE ALONE ${ARGN})
  if(NOT ARG_SIZE)
    set(ARG_SIZE 12)
  endif()
  get_target_property(sources ${target} SOURCES)
  set(compiled "")
  set(number 0)
  foreach(source ${sources})
    if(source IN_LIST ARG_ALONE OR NOT source MATCHES "[.]cpp$")
      list(APPEND compiled ${source})
      continue()
    endif()
    math(EXPR batch "${number} / ${ARG_SIZE}")
    math(EXPR number "${number} + 1")
    get_filename_component(path ${source} ABSOLUTE)
    string(APPEND text_${batch} "#include \"${path}\"\n")
    set(last ${batch})
  endforeach()
  if(number GREATER 0)
    foreach(batch RANGE ${last})
      set(file ${PENSTOCK_HEADERS}/batches/${target}_${batch}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text_${batch}}" @ONLY)
      list(APPEND compiled ${file})
    endforeach()
  endif()
  set_target_properties(${target} PROPERTIES SOURCES "${compiled}")
  target_compile_options(${target} PRIVATE ${penstock_batch_options})
endfunction()

# One static library a module. It sees the headers and the symbols of the modules that it names in
# DEPS, and of those that these name; tests/layers shows that the compiler finds no others. The DEPS are the one list of
# what stands below what: ci/layers.py reads them, and checks docs/architecture.md by them.
function(penstock_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;DEPS;LIBS" ${ARGN})
  add_library(penstock_${name} STATIC ${ARG_SOURCES})
  penstock_batches(penstock_${name} ALONE ${ARG_ALONE})
  penstock_headers(penstock_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(penstock_${name} PUBLIC penstock_${dep})
  endforeach()
  target_link_libraries(penstock_${name} PUBLIC ${ARG_LIBS})
  if(PENSTOCK_PRECOMPILE)
    penstock_precompile(penstock_${name} penstock_base)
  endif()
endfunction()

# For a product that is loaded into other people's programs, or runs on their machines: it carries its
# C++ runtime along. Not for what is loaded into a program that has one for all its parts, as torch.
# Where the build has the simulator it is linked in, and no more: the product then knows the simulated mode, and
# compiles by the same commands.
function(penstock_product target)
  if(PENSTOCK_SIMULATOR)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:penstock_sim_process>)
  endif()
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# For a program of tests. Their own code needs no speed, and compiles in two thirds of the time. What they include is
# compiled by a program that is for nothing else: a third of what was left. Batches halve the rest; they are small, so that
# one that was edited compiles in ten seconds or so.
function(penstock_gtest target)
  penstock_batches(${target} SIZE 5 ${ARGN})
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  penstock_precompile(${target} test_headers <gmock/gmock.h> <gtest/gtest.h>)
endfunction()
if(PENSTOCK_BUILD_TESTS)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cpp CONTENT "int main() {}\n")
  add_executable(test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_headers.cpp)
  penstock_gtest(test_headers)
endif()

# Unit tests stand beside the code they test; label "unit". All of them: target unit_tests.
add_custom_target(unit_tests)

# A program of unit tests, with VARIABLE=VALUE ... in its environment: target unit_FOLDER builds and runs those of a folder.
function(penstock_unit name)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(NOT TARGET unit_${folder})
    add_custom_target(unit_${folder})
  endif()
  add_custom_target(run_${name} COMMAND ${CMAKE_COMMAND} -E env ${ARGN} $<TARGET_FILE:${name}> --gtest_brief=1 DEPENDS ${name} VERBATIM)
  add_dependencies(unit_${folder} run_${name})
  add_dependencies(unit_tests ${name})
endfunction()

function(penstock_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;DEPS;LIBS" ${ARGN})
  if(NOT PENSTOCK_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE penstock_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  penstock_gtest(${name} ALONE ${ARG_ALONE})
  penstock_unit(${name})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 120)
endfunction()
