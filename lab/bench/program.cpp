#include "bench/program.hpp"

#include <CLI/CLI.hpp>

namespace penstock::bench {

Program::Program(const char* description) : app_(std::make_unique<CLI::App>(description)) {}

Program::~Program() = default;

void Program::add(Options& options) {
  options.add_to(*app_);
  add("--json", options.json, "write the results to this file too");
}

template <class T>
void Program::add(const char* name, T& value, const char* what, std::optional<Bounds> bounds) {
  CLI::Option* const option = app_->add_option(name, value, what)->capture_default_str();
  if constexpr (CLI::detail::is_mutable_container<T>::value) option->delimiter(',');
  if (bounds) option->check(CLI::Range(bounds->least, bounds->most));
}

template void Program::add(const char*, int&, const char*, std::optional<Bounds>);
template void Program::add(const char*, std::uint16_t&, const char*, std::optional<Bounds>);
template void Program::add(const char*, std::uint32_t&, const char*, std::optional<Bounds>);
template void Program::add(const char*, std::size_t&, const char*, std::optional<Bounds>);
template void Program::add(const char*, std::string&, const char*, std::optional<Bounds>);
template void Program::add(const char*, std::vector<std::uint32_t>&, const char*,
                           std::optional<Bounds>);
template void Program::add(const char*, std::vector<std::size_t>&, const char*,
                           std::optional<Bounds>);

void Program::add(const char* name, std::vector<std::string>& value, const char* what,
                  const std::vector<std::string>& words) {
  app_->add_option(name, value, what)->delimiter(',')->check(CLI::IsMember(words));
}

void Program::add_flag(const char* name, bool& value, const char* what) {
  app_->add_flag(name, value, what);
}

std::optional<int> Program::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& asked_or_wrong) {
    return app_->exit(asked_or_wrong);
  }
  return {};
}

}  // namespace penstock::bench
