#include "collectives.hpp"

namespace penstock::mpi {

void publish_windows() {
  for_each_window([](PoolWindow& window) {
    if (!window.with_collectives) return;
    const Entered entered(window);
    window.core->publish_own();
  });
}

void observe_windows() {
  for_each_window([](PoolWindow& window) {
    if (!window.with_collectives) return;
    const Entered entered(window);
    window.core->observe_own();
  });
}

}  // namespace penstock::mpi
