// For tests: sets or unsets a variable and later restores its value.
#pragma once

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

namespace penstock::base {

class EnvironmentGuard {
 public:
  /// `value` nullptr: unsets the variable.
  EnvironmentGuard(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    assign(value);
  }
  EnvironmentGuard(const EnvironmentGuard&) = delete;
  EnvironmentGuard& operator=(const EnvironmentGuard&) = delete;
  ~EnvironmentGuard() { assign(before_ ? before_->c_str() : nullptr); }

 private:
  void assign(const char* value) {
    if (value != nullptr) {
      setenv(name_.c_str(), value, 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  std::string name_;
  std::optional<std::string> before_;
};

/// Sets "NAME=VALUE" in a variable that has items, and leaves its other items.
class EnvironmentItems : EnvironmentGuard {
 public:
  EnvironmentItems(const char* name, const std::string& item)
      : EnvironmentGuard(name, with(name, item).c_str()) {}
  /// As the constructor, for the rest of the process.
  static void add(const char* name, const std::string& item) {
    setenv(name, with(name, item).c_str(), 1);
  }

 private:
  static std::string with(const char* name, const std::string& item) {
    const char* const before = std::getenv(name);
    std::stringstream parts(before != nullptr ? before : "");
    std::string kept;
    for (std::string part; std::getline(parts, part, ',');)
      if (part.substr(0, part.find('=')) != item.substr(0, item.find('='))) kept += part + ",";
    return kept + item;
  }
};

}  // namespace penstock::base
