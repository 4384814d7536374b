#include "program_uses.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstring>
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

bool is_libmpi(const std::string& name) {
  return owner_of(name) || is_standard_abi(name);
}

/// The libmpi that a file itself names; "" if it names none.
std::string libmpi_named_by(const std::string& file) {
  const auto needs = elf_needs(file);
  if (!needs) return "";
  const auto found = std::find_if(needs->begin(), needs->end(), is_libmpi);
  return found == needs->end() ? "" : *found;
}

/// Whether that is Python by its name, such as python3.13t or pypy3. We run it, so no other program
/// may pass: python_solver is none.
bool is_python(std::string_view name) {
  const bool pypy = name.starts_with("pypy");
  if (!pypy && !name.starts_with("python")) return false;
  name.remove_prefix(pypy ? 4 : 6);
  name.remove_prefix(std::min(name.find_first_not_of("0123456789."), name.size()));
  return name.find_first_not_of("dmtu") == std::string_view::npos || name == "-dbg";
}

/// The command by which the kernel would run a script; empty if the file is none.
std::vector<std::string> script_command(const std::string& path) {
  std::ifstream file(path);
  char line[257] = {};  // no longer than the kernel reads
  if (file.get() != '#' || file.get() != '!') return {};
  file.getline(line, sizeof line);
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
  constexpr std::string_view sought("\0MPI_Init\0", 10);
  constexpr std::size_t part_bytes = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(sought.size() + part_bytes, '\0');
  std::size_t kept = 0;                                 // of the last part: the name may lie in two
  for (int parts = 0; file && parts < 4096; ++parts) {  // no program is longer
    file.read(text.data() + kept, part_bytes);
    const std::size_t size = kept + static_cast<std::size_t>(file.gcount());
    if (memmem(text.data(), size, sought.data(), sought.size()) != nullptr) return true;
    kept = std::min(size, sought.size());
    std::memmove(text.data(), text.data() + size - kept, kept);
  }
  return false;
}

std::string package_text(const Json& packages, const char* name) {
  if (!packages.contains(name)) return "";
  const Json& package = packages.at(name);
  std::string text = fmt::format("{} {}", name, package.value("version", ""));
  if (package.at("through").is_string())
    text += fmt::format(" (through {})", package.at("through").get<std::string>());
  return text;
}

/// The MPI that all these modules need; "" if they need none, or differ: then they serve several.
std::string common_libmpi(const std::vector<std::string>& modules, std::string* user) {
  std::string common;
  for (const std::string& module : modules) {
    const std::string found = libmpi_named_by(module);
    if (found.empty()) continue;
    if (!common.empty() && common != found) return "";
    common = found;
    *user = module;
  }
  return common;
}

/// Errors: those of Json, if the answer is not what python_uses.py prints.
void note_python(const Json& facts, const std::string& interpreter, ProgramUses& uses) {
  PythonUses python;
  python.interpreter = interpreter;
  python.version = facts.at("version");
  if (facts.at("script").is_string()) python.script = facts.at("script");
  python.mpi4py = package_text(facts.at("packages"), "mpi4py");
  python.torch = package_text(facts.at("packages"), "torch");
  python.has_penstock = facts.at("penstock");
  python.missing = facts.at("missing").get<std::vector<std::string>>();
  for (const Json& group : facts.at("groups")) {
    python.groups.push_back(
        {group.at("backend").is_string() ? group.at("backend").get<std::string>() : "",
         fmt::format("{}:{}", group.at("file").get<std::string>(), group.at("line").get<int>()),
         group.at("named")});
  }
  for (const char* const modules : {"modules", "mpi4py"}) {
    std::string user;
    const std::string libmpi = common_libmpi(facts.at(modules), &user);
    if (libmpi.empty()) continue;
    uses.libmpi = libmpi;
    uses.libmpi_user = user;
  }
  uses.python = std::move(python);
}

Result<void> examine_python(const std::vector<std::string>& command, ProgramUses& uses) {
  std::vector<std::string> question = {command.front(), "-c", python_uses};
  question.insert(question.end(), command.begin() + 1, command.end());
  const std::string answer = program_output(question);
  // Python may warn before it.
  const Json facts = Json::parse(
      answer.substr(std::min(answer.find("{\"version\""), answer.size())), nullptr, false);
  try {
    note_python(facts, command.front(), uses);
  } catch (const Json::exception&) {
    return fail(ErrorCode::unavailable, "{} does not answer as Python 3.8 or later does: {}",
                command.front(), answer.substr(0, 400));
  }
  return {};
}

}  // namespace

std::string linked_libmpi(const std::string& program) {
  if (std::string named = libmpi_named_by(program); !named.empty()) return named;
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
  if (is_python(name_of(command.front()))) {
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
    if (!library.path.empty() && !libmpi_named_by(library.path).empty())
      note_calls(library.path, uses);
  }
  uses.static_mpi = uses.libmpi.empty() && names_mpi_init(uses.path);
  return uses;
}

}  // namespace penstock::tools
