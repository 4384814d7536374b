#include "gpu/communicator.hpp"

#include "base/log.hpp"
#include "gpu/direct.hpp"
#include "gpu/proxied.hpp"

namespace penstock::gpu {

Result<std::unique_ptr<Communicator>> Communicator::open(coll::Communicator& core,
                                                         const std::vector<Area>& areas,
                                                         std::shared_ptr<const Device> device) {
  const bool direct = core.is_direct();
  auto made = direct ? Direct::open(core, areas, std::move(device))
                     : Proxied::open(core, areas, std::move(device));
  if (made)
    base::log(base::Level::info, "collectives of a GPU, {} ranks: {} form{}", core.ranks(),
              (*made)->form(), direct ? "" : ", by a thread of this host");
  return made;
}

bool Communicator::can_be_direct(const Device& device) {
  return device.has_stream_words() || device.words_kernel();
}

}  // namespace penstock::gpu
