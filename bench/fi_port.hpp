// A tagged endpoint of a libfabric provider, one to one with the other side's.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <memory>
#include <string>

#include "bench/carrier.hpp"
#include "bench/duel.hpp"

namespace penstock::bench {

struct FiClose {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
template <class Object>
using FiHandle = std::unique_ptr<Object, FiClose>;

/// As MPI uses a provider: receives are posted ahead, small sends injected, queues polled.
class FiPort final : public Carrier {
 public:
  /// Errors: unavailable (libfabric offers no such provider), or what a call returned.
  static Result<std::unique_ptr<FiPort>> open(const std::string& provider);
  std::string name() const;
  Result<void> connect(const std::string& peer_name);

  /// A receive into `to` that the next receive() waits for; a message to come finds it posted.
  Result<void> post(std::byte* to, std::size_t bytes);
  Result<void> send(const std::byte* data, std::size_t bytes) override;
  Result<void> receive(std::byte* to, std::size_t bytes) override;

 private:
  Result<void> open_objects(fi_info* info);
  Result<bool> completed(fid_cq* queue);

  FiHandle<fi_info> info_;
  FiHandle<fid_fabric> fabric_;
  FiHandle<fid_domain> domain_;
  FiHandle<fid_av> addresses_;
  FiHandle<fid_cq> sent_, received_;
  FiHandle<fid_ep> endpoint_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  fi_context2 send_context_{}, receive_context_{};
  bool posted_ = false;
};

}  // namespace penstock::bench
