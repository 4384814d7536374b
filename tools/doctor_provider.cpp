// Lists what libfabric offers through Penstock's provider for a pool, like fi_info.
#include <dlfcn.h>
#include <rdma/fabric.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/env.hpp"
#include "command.hpp"
#include "doctor.hpp"
#include "locations.hpp"
#include "mpi_choice.hpp"

namespace penstock::tools {
namespace {

/// A libfabric loaded into this process by name, because the command itself does not need one.
struct Library {
  std::uint32_t (*version)() = nullptr;
  int (*getinfo)(std::uint32_t, const char*, const char*, std::uint64_t, const fi_info*,
                 fi_info**) = nullptr;
  fi_info* (*dupinfo)(const fi_info*) = nullptr;
  void (*freeinfo)(fi_info*) = nullptr;
  char* (*tostr)(const void*, enum fi_type) = nullptr;
  const char* (*strerror)(int) = nullptr;
  std::string path;

  bool complete() const {
    return version != nullptr && getinfo != nullptr && dupinfo != nullptr && freeinfo != nullptr &&
           tostr != nullptr && strerror != nullptr;
  }
};

/// Opens the system's libfabric, or that of the first MPI that can be used here.
void* open_library() {
  if (void* loaded = ::dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL)) return loaded;
  for (const std::string& mpiexec : mpiexec_candidates("")) {
    auto runtime = inspect_mpi(mpiexec);
    if (!runtime || !runtime->has_libfabric) continue;
    for (const std::string& folder : {runtime->libfabric_folder, folder_of(runtime->library)}) {
      if (folder.empty()) continue;
      if (void* loaded = ::dlopen((folder + "/libfabric.so.1").c_str(), RTLD_NOW | RTLD_LOCAL)) {
        return loaded;
      }
    }
  }
  return nullptr;
}

Library load() {
  Library library;
  void* const loaded = open_library();  // stays loaded: providers that it has loaded cannot be
                                        // unloaded
  if (loaded == nullptr) return library;
  const auto find = [loaded](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(loaded, name));
  };
  find(library.version, "fi_version");
  find(library.getinfo, "fi_getinfo");
  find(library.dupinfo, "fi_dupinfo");
  find(library.freeinfo, "fi_freeinfo");
  find(library.tostr, "fi_tostr");
  find(library.strerror, "fi_strerror");
  Dl_info where{};
  if (library.version != nullptr &&
      ::dladdr(reinterpret_cast<void*>(library.version), &where) != 0) {
    library.path = resolved(where.dli_fname);
  }
  return library;
}

std::string version_text(std::uint32_t version) {
  return fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version));
}

/// One line for each property, named as in fi_info -v.
std::string describe(const Library& library, const fi_info& info) {
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("\n        {:<14} {}", name, value.empty() ? "none" : value);
  };
  const auto said = [&library](const auto& value, enum fi_type type) {
    return std::string(library.tostr(&value, type));
  };
  row("fabric", info.fabric_attr->name);
  row("domain", info.domain_attr->name);
  row("version", version_text(info.fabric_attr->prov_version));
  row("type", said(info.ep_attr->type, FI_TYPE_EP_TYPE));
  row("protocol", fmt::format("{:#x}", info.ep_attr->protocol));
  row("addresses", fmt::format("format {:#x}, {} bytes", info.addr_format, info.src_addrlen));
  row("caps", said(info.caps, FI_TYPE_CAPS));
  row("mode", said(info.mode, FI_TYPE_MODE));
  row("mr_mode", said(info.domain_attr->mr_mode, FI_TYPE_MR_MODE));
  row("threading", said(info.domain_attr->threading, FI_TYPE_THREADING));
  row("progress", said(info.domain_attr->data_progress, FI_TYPE_PROGRESS));
  row("msg_order", said(info.tx_attr->msg_order, FI_TYPE_MSG_ORDER));
  row("max_msg_size", fmt::format("{}", info.ep_attr->max_msg_size));
  row("inject_size", fmt::format("{}", info.tx_attr->inject_size));
  row("cq_data_size", fmt::format("{}", info.domain_attr->cq_data_size));
  return text;
}

void ask(Findings& findings, const Library& library, const std::string& spec) {
  using Info = std::unique_ptr<fi_info, void (*)(fi_info*)>;
  const Info hints(library.dupinfo(nullptr), library.freeinfo);
  if (hints == nullptr) return findings.fail("libfabric: out of memory", "");
  hints->fabric_attr->prov_name = ::strdup("penstock");
  fi_info* found = nullptr;
  const int failed = library.getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found);
  const std::string name =
      fmt::format("libfabric {} ({})", version_text(library.version()), library.path);
  if (failed != 0) {
    return findings.fail(fmt::format("{} offers nothing of penstock for {}: {}", name, spec,
                                     library.strerror(-failed)),
                         fmt::format("FI_LOG_LEVEL=debug penstock doctor {}", shell_quote(spec)));
  }
  const Info offered(found, library.freeinfo);
  findings.ok(fmt::format("{} offers penstock for {}:{}", name, spec, describe(library, *offered)));
}

}  // namespace

void check_offer(Findings& findings, const std::string& given) {
  const std::string spec = given.empty() ? base::env_text("PENSTOCK_POOL") : given;
  if (spec.empty()) {
    return findings.ok(
        "pool: none is named; penstock doctor SPEC looks at one, and at what libfabric offers for "
        "it");
  }
  if (const auto info = pool::inspect(spec); !info) {
    const std::string why = given.empty() ? info.error().message : "see above";
    return findings.fail(fmt::format("libfabric offers nothing of penstock: {}", why), "");
  }
  const auto provider = provider_library();
  if (!provider) return;  // check_provider has reported that
  ::setenv("PENSTOCK_POOL", spec.c_str(), 1);
  ::setenv("FI_PROVIDER_PATH", folder_of(*provider).c_str(), 1);
  ::setenv("FI_PROVIDER", "penstock", 1);
  ::unsetenv("PENSTOCK_REQUIRE");  // it would end this process
  const Library library = load();
  if (!library.complete()) {
    return findings.warn("no libfabric.so.1 on this host and none beside an MPI",
                         "apt install libfabric1");
  }
  ask(findings, library, spec);
}

}  // namespace penstock::tools
