// The addresses by which a process reaches a pool. In simulated mode they lie in its node's view,
// not in the pool: plain loads and stores of a user then access this node's copies.
#include "base/format.hpp"
#include "coherence/coherence.hpp"

namespace penstock::coherence {

namespace {

Simulator*& simulator() {
  static Simulator* in_use = nullptr;
  return in_use;
}

}  // namespace

void use_simulator(Simulator* wanted) {
  simulator() = wanted;
}

bool has_simulator() {
  return simulator() != nullptr;
}

Result<View> view(Mode mode, const PoolMapping& place, FlushChoice flush) {
  if (mode == Mode::simulated) {
    if (simulator() != nullptr) return simulator()->view(place);
    return fail(ErrorCode::unavailable,
                "pool {} is in simulated mode, and this program was built without the simulator; "
                "build Penstock with cmake -DPENSTOCK_SIMULATOR=ON, or make the pool anew: "
                "penstock pool create {} --mode software --overwrite",
                place.path, base::shell_quote(place.path));
  }
  auto memory = PENSTOCK_TRY(bind(mode, flush));
  return View{.memory = memory, .base = place.base, .keep = {}};
}

Result<View> cautious_view(const PoolMapping& place) {
  if (simulator() != nullptr && simulator()->stands_for_all()) return simulator()->view(place);
  auto careful = view(Mode::software, place);
  return careful ? careful : view(Mode::hardware, place);
}

}  // namespace penstock::coherence
