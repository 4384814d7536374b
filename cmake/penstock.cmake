# One static library a module. A module sees only what it names in DEPS, so the
# order base <- arch <- coherence <- sync <- pool <- arena <- litmus <- rma <- window <- transport is enforced by the linker
# and by the include paths.
function(penstock_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(penstock_${name} STATIC ${ARG_SOURCES})
  target_include_directories(penstock_${name}
    PUBLIC ${PROJECT_SOURCE_DIR}/include
    PUBLIC ${PROJECT_SOURCE_DIR}/src)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(penstock_${name} PUBLIC penstock_${dep})
  endforeach()
  target_link_libraries(penstock_${name} PUBLIC ${ARG_LIBS})
endfunction()

# For a product that is loaded into other people's programs, or runs on their machines: it carries its
# C++ runtime along. Not for what is loaded into a program that has one for all its parts, as torch.
function(penstock_own_runtime target)
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# Unit tests stand beside the code they test; label "unit". All of them: target unit_tests.
add_custom_target(unit_tests)
function(penstock_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT PENSTOCK_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE penstock_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  # The tests' own code needs no speed, and compiles in two thirds of the time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  add_dependencies(unit_tests ${name})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 120)
endfunction()
