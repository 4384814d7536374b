#include <array>
#include <string>

#include "base/env.hpp"
#include "base/format.hpp"
#include "coherence/binding.hpp"

namespace penstock::coherence {
namespace {

Result<FlushChoice> choice_from_environment() {
  const std::string text = base::env_text("PENSTOCK_FLUSH");
  if (text == "auto") return FlushChoice::automatic;
  if (text == "clflush") return FlushChoice::clflush;
  if (text == "clflushopt") return FlushChoice::clflushopt;
  if (text == "clwb") return FlushChoice::clwb;
  return fail(ErrorCode::invalid_argument,
              "PENSTOCK_FLUSH is '{}'; it must be auto, clflush, clflushopt or clwb: "
              "export PENSTOCK_FLUSH=auto",
              text);
}

arch::Flush instruction(FlushChoice choice) {
  switch (choice) {
    case FlushChoice::clflush:
      return arch::Flush::clflush;
    case FlushChoice::clflushopt:
      return arch::Flush::clflushopt;
    case FlushChoice::automatic:
    case FlushChoice::clwb:
      break;
  }
  return arch::Flush::clwb;
}

/// Bindings are passed by address, so each flush choice has a static one.
template <FlushChoice choice>
void* lasting_binding(const Binding& value) {
  static Binding binding = value;
  return &binding;
}

void* lasting_binding(FlushChoice choice, const Binding& value) {
  switch (choice) {
    case FlushChoice::clflush:
      return lasting_binding<FlushChoice::clflush>(value);
    case FlushChoice::clflushopt:
      return lasting_binding<FlushChoice::clflushopt>(value);
    case FlushChoice::clwb:
      return lasting_binding<FlushChoice::clwb>(value);
    case FlushChoice::automatic:
      break;
  }
  return lasting_binding<FlushChoice::automatic>(value);
}

void* default_binding() {
  const arch::Table& best = arch::select();
  return lasting_binding(FlushChoice::automatic,
                         {&best, best.write_back_range, best.invalidate_range});
}

Result<Memory> bind_software(FlushChoice asked) {
  const arch::Features& features = arch::features();
  const bool can_invalidate = features.clflush || features.clflushopt || features.dc_civac;
  if (!can_invalidate || !features.partial_nt_store) {
    return fail(ErrorCode::unavailable,
                "a pool in software mode needs instructions that write single cache lines back, "
                "drop them, and store past the cache; '{}' has not all of them: use a pool in "
                "hardware mode (penstock pool create SPEC --mode hardware) or unset PENSTOCK_ISA",
                arch::select().name);
  }
  FlushChoice choice = asked;
  if (choice == FlushChoice::automatic) {
    choice = PENSTOCK_TRY(choice_from_environment());
  }
  if (choice == FlushChoice::automatic) {
    return Memory(Mode::software, &software_ops, default_binding());
  }
  const arch::Flush flush = instruction(choice);
  const auto functions = arch::flush_by(flush);
  if (!functions) {
    return fail(ErrorCode::unavailable,
                "this CPU has no {} instruction ('{}'): export PENSTOCK_FLUSH=auto",
                arch::flush_name(flush), arch::select().name);
  }
  return Memory(
      Mode::software, &software_write_back_ops,
      lasting_binding(choice, {&arch::select(), functions->write_back, functions->invalidate}));
}

}  // namespace

Result<Memory> bind(Mode mode, FlushChoice flush) {
  switch (mode) {
    case Mode::hardware:
      return Memory(mode, &hardware_ops, default_binding());
    case Mode::uncached:
      return Memory(mode, &uncached_ops, default_binding());
    case Mode::software:
      return bind_software(flush);
    case Mode::simulated:
      return fail(ErrorCode::invalid_argument,
                  "the simulated mode is bound by the simulator, to one mapped pool: create the "
                  "pool in hardware or software mode (penstock pool create SPEC --mode software)");
  }
  return fail(ErrorCode::wrong_format,
              "coherence mode {} is unknown; known are 1 (hardware), 2 (software), 3 (uncached) "
              "and 4 (simulated)",
              static_cast<std::uint32_t>(mode));
}

}  // namespace penstock::coherence
