#include "program_uses.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/format.hpp"
#include "elf_file.hpp"
#include "json.hpp"
#include "locations.hpp"
#include "mpi_runtime.hpp"
#include "program_output.hpp"
#include "python_uses.hpp"

namespace penstock::tools {
namespace {

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_libmpi(const std::string& name) {
  return owner_of(name) || is_standard_abi(name);
}

/// The command by which the kernel would run a script; empty if the file is none.
std::vector<std::string> script_command(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (file.get() != '#' || file.get() != '!' || !std::getline(file, line)) return {};
  std::istringstream text(line);
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  if (!words.empty() && name_of(words.front()) == "env") {
    words.erase(words.begin());
    if (!words.empty() && words.front() == "-S") words.erase(words.begin());
    if (!words.empty()) words.front() = find_on_path(words.front());
  }
  if (!words.empty() && words.front().empty()) words.clear();
  return words;
}

/// MPI's function as C names it in lower case, from its name in a library's table: a Fortran
/// compiler adds underscores, and the profiling interface a P.
std::string mpi_function(std::string symbol) {
  std::transform(symbol.begin(), symbol.end(), symbol.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (symbol.starts_with("pmpi_")) symbol.erase(0, 1);
  if (!symbol.starts_with("mpi_")) return "";
  while (symbol.ends_with("_")) symbol.pop_back();
  for (const char* ending : {"_f08", "_f08ts"})
    if (symbol.ends_with(ending)) symbol.resize(symbol.size() - std::string(ending).size());
  return symbol;
}

void note_calls(const std::string& file, ProgramUses& uses) {
  for (const std::string& symbol : elf_imports(file)) {
    const std::string function = mpi_function(symbol);
    const bool known =
        std::find(uses.calls.begin(), uses.calls.end(), function) != uses.calls.end();
    if (!function.empty() && !known) uses.calls.push_back(function);
  }
}

void note_libraries(const std::vector<SharedLibrary>& libraries, ProgramUses& uses) {
  for (const SharedLibrary& library : libraries) {
    if (is_libmpi(library.name) && uses.libmpi.empty()) {
      uses.libmpi = library.name;
      uses.libmpi_user = library.needed_by;
    }
    if (library.name == nccl_library_name) uses.libnccl_user = library.needed_by;
    // The launcher's environment may lead to the MPI.
    if (library.absent && !is_libmpi(library.name)) uses.absent.push_back(library.name);
  }
}

/// Whether the file contains the name of MPI_Init: of a program that links no libmpi, this tells
/// that MPI is in the program itself.
bool names_mpi_init(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string sought("\0MPI_Init\0", 10);
  std::string part(1 << 20, '\0'), tail;
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    const std::string text = tail + part.substr(0, static_cast<std::size_t>(file.gcount()));
    if (text.find(sought) != std::string::npos) return true;
    tail = text.substr(text.size() - std::min(text.size(), sought.size()));
  }
  return false;
}

std::string package_text(const Json& packages, const char* name) {
  if (!packages.contains(name)) return "";
  const Json& package = packages[name];
  std::string text = fmt::format("{} {}", name, package.value("version", ""));
  if (package["through"].is_string())
    text += fmt::format(" (through {})", package["through"].get<std::string>());
  return text;
}

/// The MPI that all these modules need; "" if they need none, or differ: then they serve several.
std::string common_libmpi(const std::vector<std::string>& modules, std::string* user) {
  std::string common;
  for (const std::string& module : modules) {
    const auto needs = elf_needs(module);
    if (!needs) continue;
    const auto found = std::find_if(needs->begin(), needs->end(), is_libmpi);
    if (found == needs->end()) continue;
    if (!common.empty() && common != *found) return "";
    common = *found;
    *user = module;
  }
  return common;
}

Result<void> examine_python(const std::vector<std::string>& command, ProgramUses& uses) {
  std::vector<std::string> question = {command.front(), "-c", python_uses};
  question.insert(question.end(), command.begin() + 1, command.end());
  const std::string answer = program_output(question);
  // Python may warn before it.
  const Json facts = Json::parse(
      answer.substr(std::min(answer.find("{\"version\""), answer.size())), nullptr, false);
  if (!facts.is_object()) {
    return fail(ErrorCode::unavailable, "{} does not answer as Python 3.8 or later does: {}",
                command.front(), answer.substr(0, 400));
  }
  PythonUses python;
  python.interpreter = command.front();
  python.version = facts["version"];
  if (facts["script"].is_string()) python.script = facts["script"];
  python.mpi4py = package_text(facts["packages"], "mpi4py");
  python.torch = package_text(facts["packages"], "torch");
  python.has_penstock = facts["penstock"];
  python.missing = facts["missing"].get<std::vector<std::string>>();
  for (const Json& group : facts["groups"]) {
    python.groups.push_back(
        {group["backend"].is_string() ? group["backend"].get<std::string>() : "",
         fmt::format("{}:{}", group["file"].get<std::string>(), group["line"].get<int>()),
         group["named"]});
  }
  std::vector<std::string> modules = facts["modules"];
  std::string user;
  if (std::string libmpi = common_libmpi(modules, &user); !libmpi.empty()) {
    uses.libmpi = libmpi;
    uses.libmpi_user = user;
  }
  modules = facts["mpi4py"];
  if (std::string libmpi = common_libmpi(modules, &user); !libmpi.empty()) {
    uses.libmpi = libmpi;
    uses.libmpi_user = user;
  }
  uses.python = std::move(python);
  return {};
}

}  // namespace

std::string linked_libmpi(const std::string& program) {
  const auto libraries = shared_libraries(program);
  if (!libraries) return "";
  const auto found = std::find_if(libraries->begin(), libraries->end(),
                                  [](const SharedLibrary& each) { return is_libmpi(each.name); });
  return found == libraries->end() ? "" : found->name;
}

Result<ProgramUses> program_uses(const std::string& program,
                                 const std::vector<std::string>& arguments) {
  ProgramUses uses;
  uses.path = find_on_path(program);
  if (uses.path.empty()) {
    return fail(ErrorCode::not_found,
                "{} is absent or not a program: check the path, or chmod +x it", program);
  }
  struct stat status {};
  uses.privileged =
      ::stat(uses.path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0;
  std::vector<std::string> command = script_command(uses.path);
  command.push_back(uses.path);
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string runs = name_of(command.front());
  if (runs.starts_with("python") || runs.starts_with("pypy")) {
    PENSTOCK_TRY(examine_python(command, uses));
    return uses;
  }
  if (command.front() != uses.path) {
    uses.shell = command.front();
    return uses;
  }
  const auto libraries = shared_libraries(uses.path);
  if (!libraries) {
    return fail(ErrorCode::wrong_format,
                "{}; nothing of Penstock can be loaded into it: link it with shared libraries",
                libraries.error().message);
  }
  note_libraries(*libraries, uses);
  note_calls(uses.path, uses);
  for (const SharedLibrary& library : *libraries) {
    if (library.path.empty()) continue;
    const auto needs = elf_needs(library.path);
    if (needs && std::any_of(needs->begin(), needs->end(), is_libmpi))
      note_calls(library.path, uses);
  }
  uses.static_mpi = uses.libmpi.empty() && names_mpi_init(uses.path);
  return uses;
}

}  // namespace penstock::tools
